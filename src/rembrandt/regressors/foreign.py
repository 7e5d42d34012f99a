"""Anybody's regressor: ``fit`` and ``predict`` as scikit-learn has them, with several outputs."""

import copy
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from rembrandt.errors import DataError, ModelError, SettingsError
from rembrandt.linalg.sparse import Matrix
from rembrandt.storage.arrays import Arrays

Array = NDArray[Any]


def check_regressor(regressor: Any) -> None:
    """Refuse what cannot learn."""
    missing = [name for name in ("fit", "predict") if not callable(getattr(regressor, name, None))]
    if missing:
        raise SettingsError(
            f"regressor={regressor!r} has no {missing[0]}: give 'kernel', 'mlp' or a regressor's object"
        )


def fitted(regressor: Any, X: Matrix, T: Array, weights: Array | None) -> Any:
    """A fresh copy of ``regressor`` fitted to the targets ``T``."""
    fresh = clone(regressor) if hasattr(regressor, "get_params") else copy.deepcopy(regressor)
    if weights is None:
        return fresh.fit(X, T) or fresh
    if not has_fit_parameter(fresh, "sample_weight"):
        raise SettingsError(f"{type(regressor).__name__} takes no sample_weight; fit without weights, or use another")
    return fresh.fit(X, T, sample_weight=weights) or fresh


def predicted(regressor: Any, X: Matrix, width: int) -> Array:
    """Its predictions for the rows of ``X``, of ``width`` columns."""
    found = np.asarray(regressor.predict(X))
    found = found.reshape(-1, 1) if found.ndim == 1 else found
    if found.shape != (X.shape[0], width) or found.dtype.kind != "f" or not np.isfinite(found).all():
        raise DataError(
            f"{type(regressor).__name__} predicted an array of shape {found.shape} and type {found.dtype} where "
            f"{(X.shape[0], width)} finite numbers were expected; it must be able to learn several outputs at once"
        )
    return found.astype(X.dtype, copy=False)


@dataclass(frozen=True)
class Foreign:
    """A fitted regressor that is not ours: rows to their embedding."""

    kind: ClassVar[str] = "foreign"

    regressor: Any
    n_features: int
    width: int

    def __call__(self, X: Matrix) -> Array:
        return predicted(self.regressor, X, self.width)

    def packed(self) -> Arrays:
        raise ModelError(
            f"regressor={self.regressor!r} is not Rembrandt's, and only pickle could save it, whose files run code "
            "when they are read; fit with regressor='kernel' or 'mlp' to save a model, or use this one in this process"
        )
