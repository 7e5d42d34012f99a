"""Loops that are compiled for this machine when they are first used, and kept for later processes.

``@kernel(...)`` turns a function of arrays and numbers into a `Kernel`. numba is imported when the
first kernel is called, so that what computes nothing does not wait for it.
"""

from collections.abc import Callable
from functools import update_wrapper
from typing import Any, TypeVar, cast

from rembrandt.forks import Lock

Function = TypeVar("Function", bound=Callable[..., Any])

# All kernels with declared signatures, in the order in which their modules were imported.
DECLARED: list["Kernel"] = []
# Kernels allocate nothing. Without counts of references to their arrays they take a seventh less
# time to compile.
OPTIONS: dict[str, Any] = {"nogil": True, "no_cfunc_wrapper": True, "_nrt": False}
# What callers of a kernel read in numba is made once.
_making = Lock()


class Kernel:
    """A function that numba compiles, with one variant for each combination of argument types.

    It stands for numba's dispatcher wherever numba looks at it: where it is called by another
    kernel, and where it is inlined.
    """

    def __init__(
        self, function: Callable[..., Any], signatures: tuple[str, ...], options: dict[str, Any]
    ) -> None:
        update_wrapper(self, function)
        self.py_func = function
        self.signatures = signatures
        self.targetoptions = options
        self._dispatcher: Any = None

    def __call__(self, *arguments: Any) -> Any:
        dispatcher = self._dispatcher
        if dispatcher is None:
            dispatcher = self.dispatcher
        return dispatcher(*arguments)

    def __reduce__(self) -> str:
        return self.py_func.__qualname__  # pickled by reference

    @property
    def dispatcher(self) -> Any:
        """numba's object for this function."""
        with _making:
            if self._dispatcher is None:
                self._dispatcher = self._made()
        return self._dispatcher

    @property
    def is_inner(self) -> bool:
        """Whether only other kernels call it; it is compiled as a part of them."""
        return bool(self.targetoptions.get("no_cpython_wrapper"))

    @property
    def _numba_type_(self) -> Any:
        """How other kernels see this one."""
        return self.dispatcher._numba_type_

    def _made(self) -> Any:
        from numba import njit

        dispatcher: Any = njit(**self.targetoptions)(self.py_func)
        if not self.is_inner and hasattr(dispatcher, "enable_caching"):
            from rembrandt.kernels.caching import KernelCache

            dispatcher._cache = KernelCache(self.py_func, self.targetoptions)
        return dispatcher


def kernel(*signatures: str, **options: Any) -> Callable[[Function], Function]:
    """Compile a function when it is first called; it runs without the lock of the interpreter.

    Parameters
    ----------
    *signatures : str
        Types of the arguments, in numba's notation. `compile_kernels` compiles them ahead. Calls
        with other types compile another variant.
    **options : Any
        Options of ``numba.njit``.

    Returns
    -------
    callable
        The decorator.
    """

    def decorate(function: Function) -> Function:
        made = Kernel(function, signatures, OPTIONS | options)
        if signatures:
            DECLARED.append(made)
        return cast(Function, made)

    return decorate


def inner_kernel(**options: Any) -> Callable[[Function], Function]:
    """Compile a function that only other kernels call; without what calls from Python need."""
    return kernel(no_cpython_wrapper=True, **options)
