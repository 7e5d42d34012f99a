"""Only regular files of bounded size are read."""

import os
import sys
from pathlib import Path

import pytest

from rembrandt.errors import StorageError
from rembrandt.storage import arrays
from rembrandt.storage.arrays import ArrayFile, file_sha256, parse_json, read_arrays
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
        for read in (open_regular, ArrayFile, file_sha256, read_arrays):
            with pytest.raises(StorageError, match="is not a regular file"):
                read(tmp_path / name)


@pytest.mark.parametrize("body", [b"[]," * 400 + b"[]", b'{"a":{}},' * 300 + b"{}", b"[" * 1000])
def test_values_of_json_are_bounded_before_it_is_parsed(
    tmp_path: Path, body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each value takes many times its length in memory."""
    monkeypatch.setattr(arrays, "MAX_JSON_VALUES", 500)
    with pytest.raises(StorageError, match="it has more than 500 values"):
        parse_json(tmp_path / "model.json", b"[" + body + b"]")
    assert parse_json(tmp_path, b'{"a": [1, {"b": 2}]}') == {"a": [1, {"b": 2}]}
