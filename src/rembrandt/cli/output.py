"""Outputs that are whole or absent, refused before any work is done when they would replace something."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from rembrandt.errors import OutputExistsError, RembrandtError


def check_model_target(path: Path, force: bool) -> None:
    """Refuse a folder that a model could not be saved to."""
    from rembrandt.model.folder import why_not_a_model

    _check_free(path, force)
    if path.exists() and (objection := why_not_a_model(path)):
        raise OutputExistsError(f"{path} cannot be replaced: {objection}; choose another name, or move it away")


def check_file_target(path: Path, force: bool) -> None:
    """Refuse a file that is there already, or whose folder is not."""
    _check_free(path, force)
    if path.is_dir():
        raise OutputExistsError(f"{path} is a folder; name a file")
    if not path.absolute().parent.is_dir():
        raise RembrandtError(f"{path} cannot be written: there is no folder {path.parent}; make it first")


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write to that takes its name when the block ends well."""
    with tempfile.NamedTemporaryFile(dir=path.absolute().parent, prefix=f".{path.name}.", delete=False) as file:
        unfinished = Path(file.name)
        try:
            yield file  # type: ignore[misc]
            file.flush()
            unfinished.chmod(0o666 & ~_umask())
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)


def folder_size(path: Path) -> int:
    """Bytes in a folder's files."""
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def _check_free(path: Path, force: bool) -> None:
    if os.path.lexists(path) and not force:
        raise OutputExistsError(f"{path} already exists; choose another name, or replace it with --force")
    parent = next(folder for folder in path.absolute().parents if folder.exists())
    if not (parent.is_dir() and os.access(parent, os.W_OK)):
        raise RembrandtError(f"{path} cannot be written: {parent} takes no new files; choose another place")


def _umask() -> int:
    """What new files are not allowed; it can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
