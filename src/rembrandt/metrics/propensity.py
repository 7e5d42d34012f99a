"""Propensity-scored precision.

Hits on rare labels count more, because rare labels are more often missing in the truth.

Jain, Prabhu & Varma, "Extreme multi-label loss functions for recommendation, tagging, ranking &
other missing label applications", KDD 2016.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from rembrandt.errors import DataError
from rembrandt.linalg import Floats, Indices
from rembrandt.metrics.hits import Hits, as_truth, hits, rows_of
from rembrandt.metrics.ranking import as_missing, first


def inverse_propensity(counts: ArrayLike, n_train: int, A: float = 0.55, B: float = 1.5) -> Floats:
    """Return the inverse propensities ``1/p = 1 + C·(N + B)^-A`` with ``C = (ln n − 1)(B + 1)^A``.

    Parameters
    ----------
    counts : array
        N, the number of training examples of each label.
    n_train : int
        n, the number of training examples.
    A, B : float, default=0.55, 1.5
        Constants of the data set. The Extreme Classification Repository uses 0.5 and 0.4 for
        Wikipedia, 0.6 and 2.6 for Amazon, and the defaults otherwise.

    Returns
    -------
    ndarray of the shape of ``counts``
        Inverse propensities, 1 or larger.
    """
    if n_train < 1 or B <= 0:
        raise DataError(
            f"propensities need n_train ≥ 1 and B > 0, not n_train = {n_train} and B = {B}"
        )
    # For n < 3, ln n < 1, and a negative C would give propensities above one.
    C = max(np.log(n_train) - 1.0, 0.0) * (B + 1.0) ** A
    N = np.asarray(counts, dtype=np.float64)
    return 1.0 + C * (N + B) ** -A


def psp_at_k(
    truth: Any,
    labels: ArrayLike,
    k: int,
    inverse: ArrayLike,
    missing_labels: ArrayLike | None = None,
    missing_inverse: float = 0.0,
) -> float:
    """Return PSP@k, propensity-scored precision.

    This is the sum of 1/p over the hits among the first ``k`` predictions, divided by that of the
    best ``k`` labels.

    Parameters
    ----------
    truth : sparse matrix of shape (n_samples, n_labels)
        True labels.
    labels : ndarray of shape (n_samples, n_ranks)
        Predicted label indices in rank order, -1 for no prediction.
    k : int
        Number of predictions that count.
    inverse : ndarray of shape (n_labels,)
        Inverse propensities; see `inverse_propensity`.
    missing_labels : ndarray of shape (n_samples,), optional
        Number of true labels of each row that have no column.
    missing_inverse : float, default=0.0
        Inverse propensity of those labels: that of a label with count 0, which no other label
        exceeds.

    Returns
    -------
    float
        A fraction between 0 and 1.
    """
    Y = as_truth(truth)
    missing = as_missing(missing_labels, Y.shape[0])
    ranked = np.asarray(labels)
    is_hit = hits(Y, ranked)
    gains, ideal_gains = psp(Y, ranked, is_hit, np.asarray(inverse), missing, missing_inverse, k)
    if not ideal_gains.any():
        return 0.0
    return float(gains.sum() / ideal_gains.sum())


def psp(
    Y: sparse.csr_array,
    labels: Indices,
    is_hit: Hits,
    inverse: Floats,
    missing: Indices,
    missing_inverse: float,
    k: int,
) -> tuple[Floats, Floats]:
    """Return the gain of each row and that of the ideal ranking.

    PSP@k is the quotient of their sums.
    """
    if inverse.shape != (Y.shape[1],):
        raise DataError(f"{inverse.size} propensities for {Y.shape[1]} labels; pass one per column")
    # The ideal ranking has missing labels first, then the true labels of the row, the best first.
    rows = rows_of(Y)
    true_gains = inverse[Y.indices]
    order = np.lexsort((-true_gains, rows))
    true_gains = true_gains[order]
    rank_among_true = np.arange(Y.nnz) - Y.indptr[rows]
    ideal_rank = rank_among_true + missing[rows]
    counted_gains = np.where(ideal_rank < k, true_gains, 0.0)
    ideal_gains = np.bincount(rows, counted_gains, minlength=Y.shape[0])
    missing_gains = missing_inverse * np.minimum(missing, k)

    hit_gains = np.where(is_hit, inverse[labels], 0.0)
    gains = first(hit_gains, k).sum(axis=1)
    return gains, ideal_gains + missing_gains
