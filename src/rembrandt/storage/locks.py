"""Locks that give a folder to one writing process at a time."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rembrandt.errors import StorageError

LOCK = ".lock"

if sys.platform == "win32":
    import msvcrt

    def _acquire(descriptor: int) -> None:
        os.lseek(descriptor, 1 << 20, os.SEEK_SET)  # past the text, which other processes read
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        os.lseek(descriptor, 0, os.SEEK_SET)

else:
    import fcntl

    def _acquire(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Create the folder if needed and lock it; the operating system releases the lock when the process ends."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise StorageError(f"cannot write to {folder} ({error.strerror}); choose another folder") from error
    try:
        try:
            _acquire(descriptor)
        except OSError as error:
            os.lseek(descriptor, 0, os.SEEK_SET)
            owner = os.read(descriptor, 64).decode("ascii", "replace").strip() or error.strerror
            raise StorageError(
                f"{folder} is in use by another process ({owner}); wait until it ends, or choose another folder"
            ) from error
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"process {os.getpid()}\n".encode())
        yield
    finally:
        os.close(descriptor)
