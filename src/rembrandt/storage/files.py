"""Regular files of bounded size.

A folder that is not trusted may have a pipe or a device in place of a file. Opening a pipe waits
for a writer, and a device such as ``/dev/zero`` has no end.
"""

import os
import stat
from pathlib import Path
from typing import Any

from rembrandt.errors import StorageError

_CHUNK = 1 << 20  # bytes read at a time


def open_regular(path: Path) -> Any:
    """Open a file for reading, without a buffer; what is not a regular file is refused."""
    file = open(path, "rb", buffering=0, opener=_open_at_once)  # noqa: SIM115
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise StorageError(f"{path} is not a regular file")
    return file


def read_bounded(path: Path, max_bytes: int) -> bytes:
    """Return the contents of a regular file that has at most ``max_bytes``."""
    chunks = []
    n_read = 0
    with open_regular(path) as file:
        while chunk := file.read(_CHUNK):
            chunks.append(chunk)
            n_read += len(chunk)
            if n_read > max_bytes:
                raise StorageError(f"{path} has more than {max_bytes:,} bytes")
    return b"".join(chunks)


def _open_at_once(path: str, flags: int) -> int:
    """Open a file without waiting for the other end of a pipe; Windows has no such pipes."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
