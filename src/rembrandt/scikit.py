"""What the package uses of scikit-learn, without loading all that scikit-learn loads.

Importing it imports SciPy's statistics and special functions and pandas, which take longer
than all the rest of a short command, and uses them in functions that are not called here. They are
stood in for while it is imported, and load where they are first used.
"""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import scipy

__all__ = [
    "BaseEstimator",
    "ClassNamePrefixFeaturesOutMixin",
    "ClassifierMixin",
    "TransformerMixin",
    "_check_feature_names",
    "_check_sample_weight",
    "available_if",
    "check_array",
    "check_classification_targets",
    "check_is_fitted",
    "column_or_1d",
    "validate_data",
]


class _StandIn(ModuleType):
    """A module that is imported when an attribute of it is first read."""

    def __getattr__(self, name: str) -> Any:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(importlib.import_module(self.__name__), name)


@contextmanager
def _deferred(*names: str) -> Iterator[None]:
    """Import nothing of these packages here, if they are installed and nothing imported them."""
    stand_ins = {}
    for name in names:
        if name not in sys.modules and find_spec(name) is not None:
            stand_in = _StandIn(name)
            stand_in.__spec__ = find_spec(name)
            stand_ins[name] = stand_in
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


# SciPy itself is loaded before: its submodules load when they are read.
_ = scipy.__version__
with _deferred("scipy.special", "scipy.stats", "pandas"):
    from sklearn.base import (
        BaseEstimator,
        ClassifierMixin,
        ClassNamePrefixFeaturesOutMixin,
        TransformerMixin,
    )
    from sklearn.utils import column_or_1d
    from sklearn.utils.metaestimators import available_if
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import (
        _check_feature_names,
        _check_sample_weight,
        check_array,
        check_is_fitted,
        validate_data,
    )
