"""Checks of output paths before any work is done, and the sizes of outputs."""

import os
from collections.abc import Iterable
from pathlib import Path

import typer
from rich.filesize import decimal

from rembrandt.errors import OutputExistsError, RembrandtError
from rembrandt.storage.atomic import atomic_file

__all__ = [
    "atomic_file",
    "check_file_target",
    "check_free",
    "check_model_target",
    "decimal",
    "folder_size",
]


def check_model_target(path: Path, force: bool) -> None:
    """Refuse a folder that a model cannot be saved to."""
    from rembrandt.model.folder import why_not_a_model

    check_free(path, force)
    if not path.exists():
        return
    objection = why_not_a_model(path)
    if objection:
        raise OutputExistsError(
            f"{path} cannot be replaced: {objection}; choose another name, or move it away"
        )


def check_file_target(path: Path, force: bool, suffixes: Iterable[str] = ()) -> None:
    """Refuse a file that exists, whose folder does not, or with a suffix that is not one of
    ``suffixes``.
    """
    if suffixes and path.suffix not in suffixes:
        raise typer.BadParameter(
            f"{path} does not end in {', '.join(suffixes)}", param_hint="--output"
        )
    check_free(path, force)
    if path.is_dir():
        raise OutputExistsError(f"{path} is a folder; name a file")
    if not path.absolute().parent.is_dir():
        raise RembrandtError(
            f"{path} cannot be written: there is no folder {path.parent}; make it first"
        )


def check_free(path: Path, force: bool) -> None:
    """Refuse a path that exists, or that cannot be written."""
    if os.path.lexists(path) and not force:
        raise OutputExistsError(
            f"{path} already exists; choose another name, or replace it with --force"
        )
    parent = next(folder for folder in path.absolute().parents if folder.exists())
    if not (parent.is_dir() and os.access(parent, os.W_OK)):
        raise RembrandtError(
            f"{path} cannot be written: {parent} is not a writable folder; choose another name"
        )


def folder_size(path: Path) -> int:
    """Return the bytes of all files in a folder."""
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
