"""A backend for Annif, the tool for automated subject indexing."""

from importlib import import_module
from typing import Any


def register() -> None:
    """Add the backend ``rembrandt`` to Annif in this process; Annif has no plug-in interface."""
    import annif.backend

    annif.backend._backend_fns["rembrandt"] = _backend_class


def _backend_class() -> Any:
    """Return the class of the backend, which is imported when Annif asks for it."""
    return import_module("rembrandt.annif.backend").RembrandtBackend


def create_app(*arguments: Any, **options: Any) -> Any:
    """Return Annif's web application with this backend, for ``uvicorn --factory
    rembrandt.annif:create_app``.
    """
    import annif

    register()
    return annif.create_app(*arguments, **options)
