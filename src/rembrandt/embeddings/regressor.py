"""Rembrandt with any scikit-learn regressor as the learning step: line 5 of Algorithm 2 is "fit YQ
from X".

The operator is ``Q ↦ Yᵀ f_Q(X)``, with ``f_Q`` the regressor fitted to ``YQ``. For a linear
smoother, ``f_Q(X) = S YQ`` with a symmetric S (ridge and kernel ridge), it is the symmetric
``YᵀSY`` and the algorithm is exact. Other regressors are neither linear in Q nor symmetric. The
search then follows the directions ``Yᵀ f_Q(X)``, and the last step takes the symmetric part of
``QᵀYᵀ f_Q(X)``, as if the regressor fitted to a combination of targets were the combination of the
regressors fitted to each.
"""

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from rembrandt.embeddings.fit import Embedding
from rembrandt.embeddings.rank import choose_rank, largest_rank
from rembrandt.engines.scaling import label_factors, with_scaled_rows
from rembrandt.errors import DataError, SettingsError
from rembrandt.linalg.eigen import gaussian, ritz
from rembrandt.linalg.sparse import Matrix, csr_matmul
from rembrandt.linalg.transposed import Transposed
from rembrandt.progress import Report, silent
from rembrandt.recipe import Recipe

Array = NDArray[Any]


@dataclass(frozen=True)
class FittedRegressor:
    """A fitted regressor: rows to their predicted embedding."""

    regressor: Any
    n_features: int
    width: int  # columns predicted

    @classmethod
    def fit(cls, regressor: Any, X: Matrix, T: Array, weights: Array | None) -> "FittedRegressor":
        """Fit a copy of ``regressor`` to the targets ``T``."""
        fresh = clone(regressor) if hasattr(regressor, "get_params") else copy.deepcopy(regressor)
        more = {}
        if weights is not None:
            if not has_fit_parameter(fresh, "sample_weight"):
                raise SettingsError(
                    f"{type(regressor).__name__} takes no sample_weight; fit without weights, or "
                    "use another regressor"
                )
            more["sample_weight"] = weights
        return cls(fresh.fit(X, T, **more) or fresh, X.shape[1], T.shape[1])

    def __call__(self, X: Matrix) -> Array:
        found = np.asarray(self.regressor.predict(X))
        found = found.reshape(-1, 1) if found.ndim == 1 else found
        if (
            found.shape != (X.shape[0], self.width)
            or found.dtype.kind != "f"
            or not np.isfinite(found).all()
        ):
            raise DataError(
                f"{type(self.regressor).__name__} predicted an array of shape {found.shape} and "
                f"type {found.dtype}; "
                f"{(X.shape[0], self.width)} finite numbers were expected. It must support several "
                "outputs"
            )
        return found.astype(X.dtype, copy=False)


def embed_with_regressor(
    X: Matrix, Y: sparse.csr_array, weights: Array | None, recipe: Recipe, report: Report = silent
) -> tuple[Embedding, FittedRegressor]:
    """Embed the labels, and return the regressor fitted to ``YV``, whose predictions are the
    projected rows.

    The regressor is fitted ``n_iter + 2`` times.
    """
    regressor, settings, (n, c) = recipe.regressor, recipe.embedding, Y.shape
    if settings.center:
        raise SettingsError(
            "center=True needs a linear regression; a regressor has its own intercept", "center"
        )
    k = largest_rank(n, n, c) if recipe.n_components == "auto" else recipe.n_components
    factors = label_factors(Y, weights, settings.label_power)
    Y = with_scaled_rows(Y.astype(X.dtype), settings.row_power)
    if factors is not None:
        Y = Y @ sparse.diags_array(factors.astype(X.dtype), format="csr")
    back, fits = Transposed.of(Y), 0

    def operator(Q: Array) -> Array:
        nonlocal fits
        found = FittedRegressor.fit(regressor, X, csr_matmul(Y, Q), weights)(X)
        fits += 1
        report("embedding (regressor)", fits, None)
        return back @ (found if weights is None else found * weights[:, None].astype(found.dtype))

    report("embedding (regressor)", 0, None)
    start = gaussian(c, min(k + settings.n_oversamples, c), recipe.seed).astype(X.dtype)
    V, sigma = ritz(operator, start, min(k, c), settings.n_iter)
    if V.shape[1] == 0:
        raise DataError(
            f"{type(regressor).__name__} predicts nothing of the labels: use another regressor, or "
            "other features"
        )
    reason = ""
    if recipe.n_components == "auto":
        rank, reason = choose_rank(sigma)
        V, sigma = V[:, :rank], sigma[:rank]
    final = FittedRegressor.fit(regressor, X, csr_matmul(Y, V), weights)
    width = V.shape[1]
    # The predictions are the projection: W is the identity with a constant of zero.
    W = np.vstack([np.eye(width, dtype=X.dtype), np.zeros((1, width), dtype=X.dtype)])
    scale = None if factors is None else factors.astype(X.dtype)
    found = Embedding(
        V, sigma, W, V if scale is None else V / scale[:, None], 0.0, 0.0, 1, None, reason, scale
    )
    return found, final
