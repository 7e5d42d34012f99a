"""Compile all declared kernels ahead, in several processes.

``python -m rembrandt.kernels.compiling NUMBER OF`` is one of the processes that help.
"""

import gc
import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from threading import Event
from typing import Any

from rembrandt.kernels import DECLARED, Kernel
from rembrandt.kernels.caching import announce, writable_folder
from rembrandt.progress import Report, silent

# Modules with declared kernels.
MODULES = (
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
    "rembrandt.parts.names.index",
    "rembrandt.parts.names.part",
    "rembrandt.parts.names.terms",
)
# Processes at most: each takes most of a second to start.
MAX_PROCESSES = 4
STAGE = "compiling for this machine, once"
_all_compiled = Event()


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


def compile_kernels(report: Report = silent) -> int:
    """Compile the declared kernels that no folder has; return their number.

    Where nothing can be kept, nothing is compiled ahead. A process looks once.
    """
    if _all_compiled.is_set() or writable_folder() is None:
        return 0
    _all_compiled.set()
    missing = _missing()
    if not missing:
        return 0
    announce(is_said=report is not silent)
    report(STAGE, 0, len(missing))
    n_processes = min(_n_cpus(), MAX_PROCESSES, len(missing))
    if not sys.executable:  # Python is a part of another program
        n_processes = 1
    command = [sys.executable, "-m", "rembrandt.kernels.compiling"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    helpers = []
    for number in range(1, n_processes):
        arguments = [*command, str(number), str(n_processes)]
        helpers.append(subprocess.Popen(arguments, env=environment))
    for done in _compiled(_share(missing, 0, n_processes)):
        report(STAGE, done * n_processes, len(missing))
    for helper in helpers:
        helper.wait()
    for _ in _compiled(_missing()):  # of a process that failed; here the error is seen
        report(STAGE, len(missing) - 1, len(missing))
    report(STAGE, len(missing), len(missing))
    return len(missing)


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


def _missing() -> list[Variant]:
    for name in MODULES:
        importlib.import_module(name)
    variants = []
    for declared in DECLARED:
        variants += [Variant(declared, signature) for signature in declared.signatures]
    return [variant for variant in variants if variant.is_missing()]


def _share(variants: list[Variant], number: int, n_shares: int) -> list[Variant]:
    """Return the variants that one of some processes compiles: shares of about equal size."""
    loads = [0] * n_shares
    share = []
    for variant in sorted(variants, key=lambda variant: variant.size, reverse=True):
        smallest = loads.index(min(loads))
        loads[smallest] += variant.size
        if smallest == number:
            share.append(variant)
    return share


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
    share = _share(_missing(), int(sys.argv[1]), int(sys.argv[2]))
    for _ in _compiled(share):
        pass
