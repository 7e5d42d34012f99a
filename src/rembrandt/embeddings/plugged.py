"""Rembrandt with any regressor in the place of the linear one: line 5 of Algorithm 2 is "fit YQ from X".

The operator is ``Q ↦ Yᵀ f_Q(X)``, with ``f_Q`` the regressor fitted to ``YQ``. For a linear smoother, ``f_Q(X) = S YQ``
with a symmetric S (ridge and kernel ridge are such), it is the symmetric ``YᵀSY`` and all is exact. Others are neither
linear in Q nor symmetric. What is then kept of the algorithm: the search follows the directions ``Yᵀ f_Q(X)``, and the
last step takes the strength of a direction in the basis found from the symmetric part of ``QᵀYᵀ f_Q(X)``, as if the
regressor fitted to a combination of targets were the combination of those fitted to each.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.embeddings.fit import Embedding, Settings, warn_if_fewer
from rembrandt.errors import DataError, SettingsError
from rembrandt.linalg.eigen import Operator, gaussian, ritz
from rembrandt.linalg.sparse import Matrix, csr_matmul
from rembrandt.linalg.transposed import Transposed
from rembrandt.progress import Report, silent
from rembrandt.regressors.foreign import fitted, predicted

Array = NDArray[Any]


def plugged(X: Matrix, Y: sparse.csr_array, weights: Array | None, regressor: Any, report: Report = silent) -> Operator:
    """``Yᵀ f_Q(X)``."""
    back = Transposed.of(Y)
    fits = 0

    def operator(Q: Array) -> Array:
        nonlocal fits
        found = predicted(fitted(regressor, X, csr_matmul(Y, Q), weights), X, Q.shape[1])
        fits += 1
        report("embedding (regressor)", fits, None)
        return back @ (found if weights is None else found * weights[:, None].astype(found.dtype))

    return operator


def embed_plugged(
    X: Matrix, Y: sparse.csr_array, weights: Array | None, regressor: Any, settings: Settings, report: Report = silent
) -> tuple[Embedding, Any]:
    """The embedding, and the regressor fitted to ``YV``, whose predictions are the projected rows.

    The number of fits is two and one more for each power iteration.
    """
    if settings.method != "rembrandt":
        raise SettingsError(
            f"method={settings.method!r} has no learning step to plug a regressor into: use 'rembrandt'"
        )
    c, k = Y.shape[1], settings.n_components
    Y = Y.astype(X.dtype)
    report("embedding (regressor)", 0, None)
    start = gaussian(c, min(k + settings.n_oversamples, c), settings.seed).astype(X.dtype)
    V, sigma = ritz(plugged(X, Y, weights, regressor, report), start, min(k, c), settings.n_iter)
    if V.shape[1] == 0:
        raise DataError(f"{type(regressor).__name__} predicts nothing of the labels: use another, or other features")
    warn_if_fewer(V.shape[1], settings)
    final = fitted(regressor, X, csr_matmul(Y, V), weights)
    width = V.shape[1]
    # Its predictions are the projection already: they go through the identity, and a constant of zero.
    W = np.vstack([np.eye(width, dtype=X.dtype), np.zeros((1, width), dtype=X.dtype)])
    return Embedding(V, sigma, W, V, residual=0.0, leverage=0.0, iterations=1), final
