"""A folder has one writing process at a time."""

import os
import subprocess
import sys
import textwrap

import pytest

from rembrandt.errors import StorageError
from rembrandt.storage.locks import locked


def test_one_process_at_a_time(tmp_path):
    folder = tmp_path / "a" / "b"
    with (
        locked(folder),
        pytest.raises(StorageError, match=f"another process .process {os.getpid()}.; wait"),
        locked(folder),
    ):
        pass
    with locked(folder):
        pass


def test_a_killed_process_releases_its_lock(tmp_path):
    script = """
        import os, sys
        from pathlib import Path
        from rembrandt.storage.locks import locked
        with locked(Path(sys.argv[1])):
            os._exit(1)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script), str(tmp_path)], check=False)
    with locked(tmp_path):
        pass


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="choose another folder"), locked(tmp_path / "file" / "folder"):
        pass
