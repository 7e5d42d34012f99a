"""Files and folders that appear complete or not at all.

They are written under a temporary name and then renamed.
"""

import ctypes
import errno
import os
import re
import secrets
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from rembrandt.errors import OutputExistsError, RembrandtError, StorageError
from rembrandt.storage.locks import locked_by

# Arguments of renameat2: paths are relative to the working directory, and names are exchanged.
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2

# Errors of a system or a file system that cannot exchange names.
_CANNOT_EXCHANGE = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EXDEV, errno.EPERM)

# Errors of a disk, or of a quota, that is used up; Windows has no quotas.
_DISK_IS_FULL = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))


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
    """Create an empty folder that replaces ``path`` when the block ends without an error.

    It is created next to ``path``. ``may_replace(path)`` returns the reason why an existing
    ``path`` must be kept, or None if it may be replaced. Without it nothing is replaced. If
    anything fails, the new folder is removed and ``path`` is unchanged. One process writes ``path``
    at a time. Where the system cannot exchange two names in one step, a crash between two renames
    can leave the old folder under another name: see `interrupted`.
    """
    path = Path(os.path.realpath(path))  # a link stays; the folder it points to is replaced
    _check_replaceable(path, may_replace)
    new = _sibling(path, "new")
    lock = path.with_name(f".{path.name}.lock")
    with locked_by(lock, path, remove=True), write_errors(path):
        _remove_folders(_left_behind(path, "new"))
        try:
            new.mkdir()
            yield new
            fsync_folder(new)
            # The path may have appeared, or changed, in the meantime.
            _check_replaceable(path, may_replace)
            _swap(new, path)
            fsync_folder(path.parent)
        finally:
            _remove_folders([new])
            if path.exists():  # otherwise the old folder is all there is
                _remove_folders(_left_behind(path, "old"))


def _remove_folders(folders: Iterable[Path]) -> None:
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


def _check_replaceable(path: Path, may_replace: Callable[[Path], str | None] | None) -> None:
    """Raise an error if ``path`` exists and must be kept."""
    if not os.path.lexists(path):
        return
    if may_replace is None:
        raise OutputExistsError(
            f"{path} already exists; choose another name, or replace it with force=True"
        )
    reason = may_replace(path)
    if reason:
        raise OutputExistsError(
            f"{path} was not overwritten: {reason}; choose another name, or move it away"
        )


def _swap(new: Path, path: Path) -> None:
    """Rename ``new`` to ``path``.

    What was there is afterwards at ``new``, or next to it where names cannot be exchanged.
    """
    if not path.exists():
        new.rename(path)
        return
    if exchange(new, path):
        return
    old = _sibling(path, "old")
    try:
        path.rename(old)
        new.rename(path)
    except BaseException:
        if old.exists() and not path.exists():
            old.rename(path)
        raise


def exchange(first: Path, second: Path) -> bool:
    """Exchange two names in one step.

    Return False where the system or the file system cannot do it; only Linux can.
    """
    if sys.platform != "linux":
        return False
    library = ctypes.CDLL(None, use_errno=True)
    rename = getattr(library, "renameat2", None)
    if rename is None:
        return False
    first_name = os.fsencode(first)
    second_name = os.fsencode(second)
    status = rename(_AT_FDCWD, first_name, _AT_FDCWD, second_name, _RENAME_EXCHANGE)
    if status == 0:
        return True
    number = ctypes.get_errno()
    if number in _CANNOT_EXCHANGE:
        return False
    raise OSError(number, os.strerror(number), str(second))


def interrupted(path: Path) -> list[Path]:
    """Complete old folders that a crash during `atomic_folder` may have left next to ``path``."""
    return _left_behind(path, "old")


def _left_behind(path: Path, role: str) -> list[Path]:
    """Folders next to ``path`` that killed calls of `atomic_folder` left."""
    if not path.parent.is_dir():
        return []
    prefix = re.escape(f".{path.name}.{role}-")
    pattern = re.compile(prefix + "[0-9a-f]{8}")
    folders = [entry for entry in path.parent.iterdir() if pattern.fullmatch(entry.name)]
    return sorted(folders)


def remove_partial_files(folder: Path) -> None:
    """Delete what killed calls of `atomic_file` left in a folder.

    No other process may be writing there.
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
    """Return a new temporary name next to ``path``."""
    token = secrets.token_hex(4)
    return path.with_name(f".{path.name}.{role}-{token}")


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
        reason = error.strerror or str(error)
        if error.errno in _DISK_IS_FULL:
            reason = "the disk is full"
        raise StorageError(
            f"could not write {path}: {reason}; files that were complete before are unchanged. "
            "Free disk space or choose another folder, then try again"
        ) from error


def _concerns(name: Path, path: Path) -> bool:
    """Whether ``name`` is ``path``, a folder above it, or inside one of its temporary siblings."""
    if name == path or name in path.parents:
        return True
    for folder in (name, *name.parents):
        is_sibling = folder.parent == path.parent
        if is_sibling and folder.name.startswith(f".{path.name}."):
            return True
    return False
