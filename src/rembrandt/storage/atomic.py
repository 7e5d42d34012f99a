"""Files and folders that appear complete or not at all: written under a temporary name, then renamed."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from rembrandt.errors import OutputExistsError, StorageError


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
def atomic_folder(path: Path, may_replace: Callable[[Path], str | None] | None = None) -> Iterator[Path]:
    """Create an empty folder next to ``path`` that replaces ``path`` when the block ends without an error.

    ``may_replace(path)`` returns the reason why an existing ``path`` must be kept, or None if it may be replaced.
    Without it nothing is replaced. If anything fails, the new folder is removed and ``path`` is unchanged. Only a
    crash of the machine between two renames can leave the old folder under another name: see `interrupted`.
    """
    path = Path(os.path.realpath(path))  # a link stays; the folder it points to is replaced
    if os.path.lexists(path):
        if may_replace is None:
            raise OutputExistsError(f"{path} already exists; choose another name, or replace it with force=True")
        if reason := may_replace(path):
            raise OutputExistsError(f"{path} was not overwritten: {reason}; choose another name, or move it away")
    new = _sibling(path, "new")
    with write_errors(path):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            new.mkdir()
            yield new
            fsync_folder(new)
            _swap(new, path)
            fsync_folder(path.parent)
        finally:
            shutil.rmtree(new, ignore_errors=True)


def _swap(new: Path, path: Path) -> None:
    """Rename ``new`` to ``path``; an existing ``path`` is restored on failure and removed on success."""
    if not path.exists():
        new.rename(path)
        return
    old = _sibling(path, "old")
    try:
        path.rename(old)
        new.rename(path)
    except BaseException:
        if old.exists() and not path.exists():
            old.rename(path)
        raise
    finally:
        if path.exists():
            shutil.rmtree(old, ignore_errors=True)


def interrupted(path: Path) -> list[Path]:
    """Complete old folders that a crash during `atomic_folder` may have left next to ``path``."""
    return sorted(path.parent.glob(f".{path.name}.old-*"))


def remove_partial_files(folder: Path) -> None:
    """Delete what killed calls of `atomic_file` left in a folder; no other process may be writing there."""
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
    temporary = (p.parent == path.parent and p.name.startswith(f".{path.name}.") for p in (name, *name.parents))
    return name == path or name in path.parents or any(temporary)
