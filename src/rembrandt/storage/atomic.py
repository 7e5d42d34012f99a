"""Files and folders that appear complete or not at all: written under a temporary name, then
renamed.
"""

import ctypes
import errno
import os
import re
import secrets
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from rembrandt.errors import OutputExistsError, RembrandtError, StorageError
from rembrandt.storage.locks import locked_by


@contextmanager
def atomic_file(path: Path) -> Iterator[BinaryIO]:
    """Open a binary file that replaces ``path`` when the block ends without an error."""
    temporary = _sibling(path, "part")
    with write_errors(path):
        try:
            with temporary.open("xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
            fsync_folder(path.parent)
        finally:
            temporary.unlink(missing_ok=True)


@contextmanager
def atomic_folder(
    path: Path, may_replace: Callable[[Path], str | None] | None = None
) -> Iterator[Path]:
    """Create an empty folder next to ``path`` that replaces ``path`` when the block ends without an
    error.

    ``may_replace(path)`` returns the reason why an existing ``path`` must be kept, or None if it
    may be replaced. Without it nothing is replaced. If anything fails, the new folder is removed
    and ``path`` is unchanged. One process writes ``path`` at a time. Where the system cannot
    exchange two names in one step, a crash between two renames can leave the old folder under
    another name: see `interrupted`.
    """
    path = Path(os.path.realpath(path))  # a link stays; the folder it points to is replaced
    _check_replaceable(path, may_replace)
    new = _sibling(path, "new")
    with locked_by(path.with_name(f".{path.name}.lock"), path, remove=True), write_errors(path):
        for left in _left(path, "new"):
            shutil.rmtree(left, ignore_errors=True)
        try:
            new.mkdir()
            yield new
            fsync_folder(new)
            _check_replaceable(
                path, may_replace
            )  # it may have appeared, or changed, in the meantime
            _swap(new, path)
            fsync_folder(path.parent)
        finally:
            for folder in (new, *(_left(path, "old") if path.exists() else ())):
                shutil.rmtree(folder, ignore_errors=True)


def _check_replaceable(path: Path, may_replace: Callable[[Path], str | None] | None) -> None:
    if not os.path.lexists(path):
        return
    if may_replace is None:
        raise OutputExistsError(
            f"{path} already exists; choose another name, or replace it with force=True"
        )
    if reason := may_replace(path):
        raise OutputExistsError(
            f"{path} was not overwritten: {reason}; choose another name, or move it away"
        )


def _swap(new: Path, path: Path) -> None:
    """Rename ``new`` to ``path``; what was there is afterwards at ``new``, or next to it where that
    is not possible.
    """
    if not path.exists():
        new.rename(path)
    elif not exchange(new, path):
        old = _sibling(path, "old")
        try:
            path.rename(old)
            new.rename(path)
        except BaseException:
            if old.exists() and not path.exists():
                old.rename(path)
            raise


def exchange(first: Path, second: Path) -> bool:
    """Exchange two names in one step; False where the system or the file system cannot (only Linux
    can).
    """
    rename = (
        getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
        if sys.platform == "linux"
        else None
    )
    if rename is None:
        return False
    here, flag = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    if rename(here, os.fsencode(first), here, os.fsencode(second), flag) == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EXDEV, errno.EPERM):
        return False
    raise OSError(number, os.strerror(number), str(second))


def interrupted(path: Path) -> list[Path]:
    """Complete old folders that a crash during `atomic_folder` may have left next to ``path``."""
    return _left(path, "old")


def _left(path: Path, role: str) -> list[Path]:
    """Folders next to ``path`` that killed calls of `atomic_folder` left."""
    name = re.compile(re.escape(f".{path.name}.{role}-") + "[0-9a-f]{8}")
    entries = path.parent.iterdir() if path.parent.is_dir() else ()
    return sorted(entry for entry in entries if name.fullmatch(entry.name))


def remove_partial_files(folder: Path) -> None:
    """Delete what killed calls of `atomic_file` left in a folder; no other process may be writing
    there.
    """
    for partial in folder.glob(".*.part-*"):
        partial.unlink(missing_ok=True)


def fsync_folder(folder: Path) -> None:
    """Force the names in a folder to disk, on systems that support it."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sibling(path: Path, role: str) -> Path:
    return path.with_name(f".{path.name}.{role}-{secrets.token_hex(4)}")


@contextmanager
def write_errors(path: Path) -> Iterator[None]:
    """Turn a failure to write ``path`` into a sentence; errors that name an unrelated file pass."""
    try:
        yield
    except RembrandtError:
        raise
    except OSError as error:
        if error.filename is not None and not _concerns(Path(error.filename), path):
            raise
        full = error.errno in (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))
        reason = "the disk is full" if full else error.strerror or str(error)
        raise StorageError(
            f"could not write {path}: {reason}; files that were complete before are unchanged. "
            "Free disk space or choose another folder, then try again"
        ) from error


def _concerns(name: Path, path: Path) -> bool:
    """Whether ``name`` is ``path``, a folder above it, or inside one of its temporary siblings."""
    temporary = (
        p.parent == path.parent and p.name.startswith(f".{path.name}.")
        for p in (name, *name.parents)
    )
    return name == path or name in path.parents or any(temporary)
