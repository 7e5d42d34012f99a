"""Locks that give a folder to one writing process at a time."""

import contextlib
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from rembrandt.errors import StorageError

# Name of the file by which a folder is locked.
LOCK = ".lock"

# Links are not followed, on systems that support it: one could lead to any file, and the file of a
# lock is written to.
_OPEN_FLAGS = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)

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


def locked(folder: Path) -> AbstractContextManager[None]:
    """Create the folder if needed and lock it.

    The operating system releases the lock when the process ends.
    """
    return locked_by(folder / LOCK, folder)


@contextmanager
def locked_by(file: Path, what: Path, remove: bool = False) -> Iterator[None]:
    """Lock ``what`` by a file, which is created; with ``remove`` it is deleted at the end."""
    while True:
        descriptor = _open(file, what)
        try:
            _take(descriptor, file, what)
            if not remove or _is_current(descriptor, file):
                try:
                    yield
                finally:
                    if remove:
                        _delete(file)
                return
        finally:
            os.close(descriptor)


def _open(file: Path, what: Path) -> int:
    """Open the file of a lock, which is created, and return its descriptor."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        return os.open(file, _OPEN_FLAGS, 0o666)
    except OSError as error:
        reason = error.strerror
        if file.is_symlink():
            reason = "its lock is a symbolic link"
        raise StorageError(f"cannot write to {what} ({reason}); choose another folder") from error


def _take(descriptor: int, file: Path, what: Path) -> None:
    """Take the lock and write the number of this process into its file."""
    status = os.fstat(descriptor)
    is_regular = stat.S_ISREG(status.st_mode)
    if not is_regular or status.st_nlink > 1:
        raise StorageError(
            f"cannot lock {what}: {file} is not a file of its own; delete it, or choose another "
            "folder"
        )
    try:
        _acquire(descriptor)
    except OSError as error:
        os.lseek(descriptor, 0, os.SEEK_SET)
        text = os.read(descriptor, 64).decode("ascii", "replace")
        owner = text.strip() or error.strerror
        raise StorageError(
            f"{what} is in use by another process ({owner}); wait until it ends, or choose another "
            "folder"
        ) from error
    os.ftruncate(descriptor, 0)
    os.write(descriptor, f"process {os.getpid()}\n".encode())


def _is_current(descriptor: int, file: Path) -> bool:
    """Whether the file is still there; the process that had the lock before may have deleted it."""
    locked_file = os.fstat(descriptor)
    try:
        return os.path.samestat(locked_file, file.stat(follow_symlinks=False))
    except FileNotFoundError:
        return False


def _delete(file: Path) -> None:
    with contextlib.suppress(PermissionError):  # Windows keeps open files
        file.unlink(missing_ok=True)
