"""Only regular files of bounded size are read."""

import os
import sys
from pathlib import Path

import pytest

from rembrandt.errors import StorageError
from rembrandt.storage.files import open_regular, read_bounded


def test_a_file_is_read_up_to_its_bound(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 100)
    assert read_bounded(path, 100) == b"x" * 100
    with pytest.raises(StorageError, match="has more than 99 bytes"):
        read_bounded(path, 99)
    with pytest.raises(FileNotFoundError):
        read_bounded(tmp_path / "absent", 1)


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pipes with a name")
def test_pipes_and_devices_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    for name in ("pipe", "zero"):
        with pytest.raises(StorageError, match="is not a regular file"):
            open_regular(tmp_path / name)
