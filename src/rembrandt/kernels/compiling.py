"""Compile all declared kernels ahead, in several processes.

``python -m rembrandt.kernels.compiling`` is one of the processes that help. It reads from its
standard input which variants it compiles.
"""

import gc
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rembrandt.kernels import DECLARED, Kernel
from rembrandt.kernels.caching import announce, writable_folder
from rembrandt.progress import Report, silent

# Modules with declared kernels that nearly every fit calls.
USUAL_MODULES = (
    "rembrandt.features.counting",
    "rembrandt.features.terms",
    "rembrandt.linalg.bisection",
    "rembrandt.linalg.cluster_search",
    "rembrandt.linalg.dense",
    "rembrandt.linalg.hinge",
    "rembrandt.linalg.hinge_panels",
    "rembrandt.linalg.inverted",
    "rembrandt.linalg.ranking",
    "rembrandt.linalg.sparse",
    "rembrandt.linalg.transposed",
    "rembrandt.parts.centroids.fit",
)
# Modules with those of some models alone, which such a fit compiles when it calls them.
MODULES = (
    *USUAL_MODULES,
    "rembrandt.parts.embedding.decoders.candidates",
    "rembrandt.parts.names.index",
    "rembrandt.parts.names.part",
    "rembrandt.parts.names.terms",
)
# Processes at most: each takes most of a second to start.
MAX_PROCESSES = 4
STAGE = "compiling for this machine, once"
# Modules whose kernels this process has looked for.
_seen_modules: set[str] = set()


@dataclass(frozen=True)
class Variant:
    """A kernel for arguments of some types."""

    kernel: Kernel
    signature: str

    @property
    def arguments(self) -> tuple[Any, ...]:
        from numba.core import sigutils

        types, _ = sigutils.normalize_signature(self.signature)
        return tuple(types)

    def reference(self) -> list[str]:
        """Return where another process finds it, as JSON."""
        function: Any = self.kernel.py_func
        return [function.__module__, function.__qualname__, self.signature]

    @classmethod
    def referred(cls, reference: list[str]) -> "Variant":
        """Return the variant that `reference` returned in another process."""
        module, name, signature = reference
        return cls(getattr(importlib.import_module(module), name), signature)

    @property
    def size(self) -> int:
        """About how long it takes to compile."""
        return _size(self.kernel, set())

    def is_missing(self) -> bool:
        """Whether no folder has it."""
        dispatcher = self.kernel.dispatcher
        if not hasattr(dispatcher, "_cache"):
            return False  # numba is told not to compile
        return not dispatcher._cache.has(self.arguments, dispatcher.targetctx)

    def compile(self) -> None:
        self.kernel.dispatcher.compile(self.arguments)


def compile_kernels(report: Report = silent, modules: tuple[str, ...] = MODULES) -> int:
    """Compile the declared kernels of some modules that no folder has; return their number.

    Where nothing can be kept, nothing is compiled ahead. A process looks once.
    """
    if _seen_modules.issuperset(modules) or writable_folder() is None:
        return 0
    _seen_modules.update(modules)
    missing = _missing(modules)
    if not missing:
        return 0
    announce(is_said=report is not silent)
    report(STAGE, 0, len(missing))
    n_processes = min(_n_cpus(), MAX_PROCESSES, len(missing))
    if not sys.executable:  # Python is a part of another program
        n_processes = 1
    command = [sys.executable, "-m", "rembrandt.kernels.compiling"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    own_share, *other_shares = _shares(missing, n_processes)
    helpers = []
    for share in other_shares:
        helper = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, text=True)
        helpers.append(helper)
        _tell(helper, share)
    for done in _compiled(own_share):
        report(STAGE, done * n_processes, len(missing))
    for helper in helpers:
        helper.wait()
    for _ in _compiled(_missing(modules)):  # of a process that failed; here the error is seen
        report(STAGE, len(missing) - 1, len(missing))
    report(STAGE, len(missing), len(missing))
    return len(missing)


def _tell(helper: subprocess.Popen[str], share: list[Variant]) -> None:
    """Tell a process what it compiles: what it would find missing itself depends on when it looks,
    and on the modules that it has imported.
    """
    references = [variant.reference() for variant in share]
    assert helper.stdin is not None
    try:
        with helper.stdin as stream:
            json.dump(references, stream)
    except BrokenPipeError:
        pass  # it has failed, and its share is compiled here


def _compiled(variants: list[Variant]) -> Iterator[int]:
    """Compile variants; yield how many are done.

    numba makes millions of objects and little garbage, which is not looked for meanwhile.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        for number, variant in enumerate(variants):
            variant.compile()
            yield number + 1
    finally:
        if was_enabled:
            gc.enable()


def _n_cpus() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1


def _missing(modules: tuple[str, ...] = MODULES) -> list[Variant]:
    for name in modules:
        importlib.import_module(name)
    variants = []
    for declared in DECLARED:
        if declared.py_func.__module__ in modules:
            variants += [Variant(declared, signature) for signature in declared.signatures]
    return [variant for variant in variants if variant.is_missing()]


def _shares(variants: list[Variant], n_shares: int) -> list[list[Variant]]:
    """Return what each of some processes compiles: shares of about equal size."""
    loads = [0] * n_shares
    shares: list[list[Variant]] = [[] for _ in range(n_shares)]
    for variant in sorted(variants, key=lambda variant: variant.size, reverse=True):
        smallest = loads.index(min(loads))
        loads[smallest] += variant.size
        shares[smallest].append(variant)
    return shares


def _size(kernel: Kernel, seen: set[Kernel]) -> int:
    """Return the length of the code of a kernel and of those that it calls."""
    seen.add(kernel)
    function: Any = kernel.py_func
    size = len(function.__code__.co_code)
    for name in function.__code__.co_names:
        called = function.__globals__.get(name)
        if isinstance(called, Kernel) and called not in seen:
            size += _size(called, seen)
    return size


if __name__ == "__main__":
    announce(is_said=True)
    for _ in _compiled([Variant.referred(reference) for reference in json.load(sys.stdin)]):
        pass
