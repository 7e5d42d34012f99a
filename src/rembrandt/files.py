"""Files that are whole or absent, and folders with one writer at a time."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rembrandt.errors import RembrandtError

LOCK = ".lock"


@contextmanager
def whole_file(path: Path) -> Iterator[Any]:
    """A file that takes its name when it is complete and on the disk; a full disk leaves nothing of it."""
    unfinished = path.with_name(f".{path.name}.part")
    with writing(path):
        try:
            with unfinished.open("wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """A failure to write ``path`` as a sentence: for what keeps everything that was finished before."""
    try:
        yield
    except OSError as error:
        why = "the disk is full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else error.strerror or str(error)
        raise RembrandtError(
            f"{path} could not be written: {why}; what was finished before is kept. Make room and give the same "
            "command again"
        ) from error


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """The folder, for one writer at a time; the system lets go of the lock when the process ends, however it ends."""
    import fcntl

    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise RembrandtError(f"{folder} cannot be written to ({error.strerror}); choose another place") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            who = os.read(descriptor, 64).decode("ascii", "replace").strip()
            raise RembrandtError(
                f"{folder} is being written by another process ({who}); wait until it is done, or choose another place"
            ) from error
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"process {os.getpid()}\n".encode())
        yield
    finally:
        os.close(descriptor)
