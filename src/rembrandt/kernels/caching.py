"""Where compiled kernels are kept.

The folders are, in this order, ``NUMBA_CACHE_DIR`` if it is set, ``__pycache__`` in the installed
package, and the user's cache folder. Compiled code is read from all of them and written to the
first one that can be written. It belongs to one version of the source: that of the kernel, of the
kernels that it calls and of the constants that they use.
"""

import hashlib
import os
import platform
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from threading import Event
from types import CodeType
from typing import Any

import numpy as np
from numba.core.caching import IndexDataCacheFile
from numba.core.compiler import CompileResult
from numba.core.runtime import rtsys
from platformdirs import user_cache_path

import rembrandt
from rembrandt.errors import RembrandtWarning

# Characters of the hash of the installed package's path, which keeps installations apart.
_HASH_LENGTH = 16

_announced = Event()


class KernelCache:
    """The compiled variants of one kernel, with the methods that numba calls."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        version = source_version(function, **options)
        file_name = f"{function.__module__}.{function.__qualname__}-{_python()}"
        self._files = []
        for folder in readable_folders():
            self._files.append(IndexDataCacheFile(str(folder), file_name, version))
        self._written = None
        folder_to_write = writable_folder()
        if folder_to_write is not None:
            self._written = IndexDataCacheFile(str(folder_to_write), file_name, version)

    @property
    def cache_path(self) -> str | None:
        """The folder that is written."""
        folder = writable_folder()
        return None if folder is None else str(folder)

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        """Return a compiled variant, None if there is none.

        The types and functions that numba can compile are not loaded for it, which would take three
        times as long as all the rest.
        """
        rtsys.initialize(target_context)
        key = _key(signature, target_context.codegen())
        for file in self._files:
            data = file.load(key)
            if data is not None:
                return CompileResult._rebuild(target_context, *data)
        announce()
        return None

    def save_overload(self, signature: Any, result: Any) -> None:
        """Keep a compiled variant."""
        if self._written is not None:
            self._written.save(_key(signature, result.codegen), result._reduce())

    def has(self, signature: Any, target_context: Any) -> bool:
        """Return whether a variant is kept."""
        key = _key(signature, target_context.codegen())
        return any(key in file._load_index() for file in self._files)

    def enable(self) -> None:
        """Do nothing: it is always enabled."""

    def disable(self) -> None:
        """Do nothing: numba disables caches only for code that was typed by hand."""

    def flush(self) -> None:
        """Forget the variants that were written."""
        if self._written is not None:
            self._written.flush()


def _key(signature: Any, codegen: Any) -> tuple[Any, ...]:
    """Name a variant: the types of the arguments, and the processor."""
    return signature, codegen.magic_tuple()


def _python() -> str:
    version = sys.version_info
    return f"py{version.major}{version.minor}-{platform.machine()}"


def source_version(function: Callable[..., Any], **options: Any) -> str:
    """Return a hash of the code of a kernel, the kernels that it calls, their constants and their
    options.
    """
    digest = hashlib.sha256(_written_out(options))
    for part in _source_parts(function, set()):
        digest.update(part)
        digest.update(b"\0")
    return digest.hexdigest()


def _source_parts(function: Any, seen: set[str]) -> Iterator[bytes]:
    """Yield all that the compiled code depends on."""
    code: CodeType = function.__code__
    yield code.co_code
    yield _written_out((code.co_consts, code.co_names, code.co_varnames))
    for name in code.co_names:
        value = function.__globals__.get(name)
        called = getattr(value, "py_func", None)
        if called is not None:
            if name not in seen:
                seen.add(name)
                yield _written_out(value.targetoptions)
                yield from _source_parts(called, seen)
        elif isinstance(value, np.ndarray):
            yield value.tobytes()
        elif isinstance(value, bool | int | float | np.generic):
            yield _written_out((name, value))


def _written_out(value: Any) -> bytes:
    """Return a text of constants that is the same in every process.

    The order of a set of strings depends on the hash seed of the process.
    """
    if isinstance(value, dict):
        items = sorted(value.items())
        return b"{%b}" % _written_out(items)
    if isinstance(value, set | frozenset):
        texts = sorted(map(_written_out, value))
        return b"{%b}" % b",".join(texts)
    if isinstance(value, list | tuple):
        return b"(%b)" % b",".join(map(_written_out, value))
    return repr(value).encode()


def _folders() -> Iterator[Path]:
    """Yield the folders that may hold compiled code, in order."""
    package = Path(rembrandt.__file__).parent
    installation = hashlib.sha256(str(package).encode()).hexdigest()[:_HASH_LENGTH]
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    if chosen:
        yield Path(chosen) / f"rembrandt-{installation}"
    yield package / "__pycache__" / "kernels"
    user_folder = user_cache_path("rembrandt")
    if user_folder.is_absolute():  # it is not where the user has no home
        yield user_folder / f"kernels-{installation}"


@cache
def writable_folder() -> Path | None:
    """Return the folder where compiled code is written; None, with a warning, if there is none."""
    for folder in _folders():
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                return folder
        except OSError:
            continue  # the next folder may do; without any, there is a warning
    message = (
        "no folder for compiled code can be written, so every process compiles it again; set "
        "NUMBA_CACHE_DIR to a folder that can be written, or run `rembrandt compile` where the "
        "package is installed"
    )
    warnings.warn(RembrandtWarning(message), stacklevel=2)
    return None


@cache
def readable_folders() -> tuple[Path, ...]:
    """Return the folders that compiled code is read from, the one that is written included."""
    _ = writable_folder()  # makes it
    return tuple(folder for folder in _folders() if os.access(folder, os.R_OK | os.X_OK))


def announce(is_said: bool = False) -> None:
    """Say, once in a process, what takes so long; with ``is_said`` somebody else has."""
    if not is_said and not _announced.is_set():
        print("Compiling for this machine, once ...", file=sys.stderr, flush=True)
    _announced.set()
