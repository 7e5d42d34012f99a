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
        if hasattr(regressor, "get_params"):
            unfitted = clone(regressor)
        else:
            unfitted = copy.deepcopy(regressor)
        fit_params = {}
        if weights is not None:
            if not has_fit_parameter(unfitted, "sample_weight"):
                raise SettingsError(
                    f"{type(regressor).__name__} takes no sample_weight; fit without weights, or "
                    "use another regressor"
                )
            fit_params["sample_weight"] = weights
        # A fit that does not return its regressor has changed it in place.
        fitted = unfitted.fit(X, T, **fit_params) or unfitted
        return cls(fitted, X.shape[1], T.shape[1])

    def __call__(self, X: Matrix) -> Array:
        predictions = np.asarray(self.regressor.predict(X))
        if predictions.ndim == 1:
            predictions = predictions.reshape(-1, 1)
        expected_shape = (X.shape[0], self.width)
        if (
            predictions.shape != expected_shape
            or predictions.dtype.kind != "f"
            or not np.isfinite(predictions).all()
        ):
            raise DataError(
                f"{type(self.regressor).__name__} predicted an array of shape {predictions.shape} "
                f"and type {predictions.dtype}; {expected_shape} finite numbers were expected. It "
                "must support several outputs"
            )
        return predictions.astype(X.dtype, copy=False)


def embed_with_regressor(
    X: Matrix, Y: sparse.csr_array, weights: Array | None, recipe: Recipe, report: Report = silent
) -> tuple[Embedding, FittedRegressor]:
    """Embed the labels, and return the regressor fitted to ``YV``, whose predictions are the
    projected rows.

    The regressor is fitted ``n_iter + 2`` times.
    """
    regressor = recipe.regressor
    settings = recipe.embedding
    if settings.center:
        raise SettingsError(
            "center=True needs a linear regression; a regressor has its own intercept", "center"
        )
    factors = label_factors(Y, weights, settings.label_power)
    if factors is not None:
        factors = factors.astype(X.dtype)
    Y = with_scaled_rows(Y.astype(X.dtype), settings.row_power)
    if factors is not None:
        Y = Y @ sparse.diags_array(factors, format="csr")
    V, sigma = _search(X, Y, weights, recipe, report)
    rank_reason = ""
    if recipe.n_components == "auto":
        rank, rank_reason = choose_rank(sigma)
        V = V[:, :rank]
        sigma = sigma[:rank]
    fitted = FittedRegressor.fit(regressor, X, csr_matmul(Y, V), weights)
    # The predictions are the projection: W is the identity with a constant of zero.
    k = V.shape[1]
    identity = np.eye(k, dtype=X.dtype)
    constant = np.zeros((1, k), dtype=X.dtype)
    W = np.vstack([identity, constant])
    back = V
    if factors is not None:
        back = V / factors[:, None]
    embedding = Embedding(V, sigma, W, back, 0.0, 0.0, 1, None, rank_reason, factors)
    return embedding, fitted


def _search(
    X: Matrix, Y: sparse.csr_array, weights: Array | None, recipe: Recipe, report: Report
) -> tuple[Array, Array]:
    """Return the vectors of ``Q ↦ Yᵀ f_Q(X)`` and their values, for scaled labels."""
    regressor = recipe.regressor
    settings = recipe.embedding
    n, c = Y.shape
    k = recipe.n_components
    if k == "auto":
        k = largest_rank(n, n, c)
    Y_t = Transposed.of(Y)
    n_fits = 0

    def operator(Q: Array) -> Array:
        nonlocal n_fits
        fitted = FittedRegressor.fit(regressor, X, csr_matmul(Y, Q), weights)
        predictions = fitted(X)
        n_fits += 1
        report("embedding (regressor)", n_fits, None)
        if weights is not None:
            predictions = predictions * weights[:, None].astype(predictions.dtype)
        return Y_t @ predictions

    report("embedding (regressor)", 0, None)
    start = gaussian(c, min(k + settings.n_oversamples, c), recipe.seed).astype(X.dtype)
    V, sigma = ritz(operator, start, min(k, c), settings.n_iter)
    if V.shape[1] == 0:
        raise DataError(
            f"{type(regressor).__name__} predicts nothing of the labels: use another regressor, or "
            "other features"
        )
    return V, sigma
