"""Folders that appear all at once: written aside, then renamed into place, so that a failure leaves what was there."""

import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rembrandt.errors import ModelError, OutputExistsError


@contextmanager
def folder_in_place_of(path: Path, may_replace: Callable[[Path], str | None] | None) -> Iterator[Path]:
    """Hand out an empty folder beside ``path`` that becomes ``path`` when the block ends well.

    ``may_replace`` says why an existing ``path`` must stay, or None when it may go; without it nothing existing goes.
    When the block or the renaming fails, for whatever reason including Ctrl-C, the folder is removed and ``path`` is
    as it was. Only a crash of the machine between two renames can leave ``path`` under its other name, see `aside`.
    """
    path = Path(os.path.realpath(path))  # what a link points to is replaced, not the link
    if os.path.lexists(path):
        if may_replace is None:
            raise OutputExistsError(f"{path} already exists; choose another name, or ask to overwrite it")
        if objection := may_replace(path):
            raise OutputExistsError(f"{path} was not overwritten: {objection}; choose another name, or move it away")
    fresh = _sibling(path, "new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh.mkdir()
        yield fresh
        _force(fresh)
        _swap(fresh, path)
    except OSError as cause:
        raise ModelError(
            f"could not write {path}: {cause.strerror or cause}; nothing was changed there, "
            "make room or choose another place and save again"
        ) from cause
    finally:
        shutil.rmtree(fresh, ignore_errors=True)  # when all went well it is not there any more
    _force(path.parent)


def _swap(fresh: Path, path: Path) -> None:
    """Rename ``fresh`` to ``path``; what was there before is put back on failure and removed on success."""
    if not path.exists():
        fresh.rename(path)
        return
    old = _sibling(path, "old")
    try:
        path.rename(old)
        fresh.rename(path)
    except BaseException:
        if old.exists() and not path.exists():
            old.rename(path)
        raise
    finally:
        if path.exists():
            shutil.rmtree(old, ignore_errors=True)


def aside(path: Path) -> list[Path]:
    """Return the complete folders that a crash during replacement may have left beside ``path``."""
    return sorted(path.parent.glob(f".{path.name}.old-*"))


def _sibling(path: Path, role: str) -> Path:
    return path.with_name(f".{path.name}.{role}-{secrets.token_hex(4)}")


def _force(folder: Path) -> None:
    """Force a folder's list of names to the disk, where the system knows how to."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
