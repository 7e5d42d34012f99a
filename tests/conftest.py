"""What every test may ask for."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real data sets, or a skip that says how to name one."""
    folder = Path(os.environ.get("REMBRANDT_DATA", ""))
    if not os.environ.get("REMBRANDT_DATA") or not folder.is_dir():
        pytest.skip("no real data here: set REMBRANDT_DATA to the folder that holds aloi/, bibtex/, ...")
    return folder
