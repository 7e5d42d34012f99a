"""Fixtures of all tests, and what parallel runs need."""

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

if (
    "PYTEST_XDIST_WORKER" in os.environ
):  # workers share the cores; this file is imported before NumPy
    for variable in (
        "REMBRANDT_NUM_THREADS",
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
    ):
        os.environ.setdefault(variable, "1")

# Vectors of texts are not kept in the cache of whoever runs the tests.
CACHE = tempfile.mkdtemp(prefix="rembrandt-cache-")
atexit.register(shutil.rmtree, CACHE, ignore_errors=True)
os.environ["REMBRANDT_CACHE"] = CACHE


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start with the slow tests, so that parallel workers end at about the same time."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real data sets; skips the test where there is none."""
    folder = Path(os.environ.get("REMBRANDT_DATA", ""))
    if not os.environ.get("REMBRANDT_DATA") or not folder.is_dir():
        pytest.skip(
            "no real data: set REMBRANDT_DATA to the folder that contains aloi/, bibtex/, ..."
        )
    return folder


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """One Chromium for the tests of a module; skips them where there is none.

    Not for the session: playwright keeps an event loop running, and tests of coroutines start their
    own.
    """
    found = (
        shutil.which("chromium")
        or shutil.which("chromium-browser")
        or shutil.which("google-chrome")
    )
    if found is None:
        pytest.skip("no browser here: install Debian's package chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()
