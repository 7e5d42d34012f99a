"""Import SciPy and other packages without what they import and do not use here.

What takes long to import is stood in for meanwhile, and loads where it is first used. Importing
this module imports SciPy's sparse matrices and the array namespaces in this way: they would import
NumPy's tests, its polynomials and its compiler of Fortran, which take longer than the rest.
"""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import numpy  # noqa: F401  whose attributes the stand-ins are

# Modules of NumPy that others import by ``from numpy import *``.
OF_NUMPY = ("numpy.f2py", "numpy.polynomial", "numpy.testing")


class _StandIn(ModuleType):
    """A module that is imported when an attribute of it is first read."""

    def __getattr__(self, name: str) -> Any:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(importlib.import_module(self.__name__), name)


@contextmanager
def deferred(*names: str) -> Iterator[None]:
    """Import nothing of these packages here, if they are installed and nothing imported them."""
    stand_ins = {}
    for name in names:
        if name not in sys.modules and find_spec(name) is not None:
            stand_in = _StandIn(name)
            stand_in.__spec__ = find_spec(name)
            stand_ins[name] = stand_in
            package, _, attribute = name.rpartition(".")
            if package == "numpy":  # which would import it for the attribute
                setattr(sys.modules[package], attribute, stand_in)
    sys.modules.update(stand_ins)
    try:
        yield
    finally:
        for name, stand_in in stand_ins.items():
            if sys.modules.get(name) is stand_in:
                del sys.modules[name]
            package, _, attribute = name.rpartition(".")
            if package and vars(sys.modules[package]).get(attribute) is stand_in:
                delattr(sys.modules[package], attribute)


with deferred(*OF_NUMPY):
    import array_api_compat.numpy  # noqa: F401
    import scipy.sparse  # noqa: F401
