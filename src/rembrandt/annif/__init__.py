"""Rembrandt inside Annif, the libraries' tool for subject indexing: a backend, and the way it becomes known there."""

from collections.abc import Callable
from typing import Any


def register() -> None:
    """Make the backend ``rembrandt`` known to Annif in this process; Annif has no other way in for a package."""
    import annif.backend

    annif.backend._backend_fns["rembrandt"] = _backend


def create_app(*arguments: Any, **more: Any) -> Any:
    """Annif's web application with this backend: ``uvicorn --factory rembrandt.annif:create_app`` serves it."""
    import annif

    register()
    create: Callable[..., Any] = annif.create_app
    return create(*arguments, **more)


def _backend() -> Any:
    from rembrandt.annif.backend import RembrandtBackend

    return RembrandtBackend
