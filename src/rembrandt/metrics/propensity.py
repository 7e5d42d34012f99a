"""Propensity-scored precision: hits on rare labels count more, because rare labels are more often
missing in the truth.

Jain, Prabhu & Varma, "Extreme multi-label loss functions for recommendation, tagging, ranking &
other missing label applications", KDD 2016.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from rembrandt.errors import DataError
from rembrandt.metrics.hits import as_truth, hits, rows_of
from rembrandt.metrics.ranking import as_missing, first


def inverse_propensity(
    counts: ArrayLike, n_train: int, A: float = 0.55, B: float = 1.5
) -> NDArray[np.float64]:
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
    return 1.0 + C * (np.asarray(counts, dtype=np.float64) + B) ** -A


def psp_at_k(
    truth: Any,
    labels: ArrayLike,
    k: int,
    inverse: ArrayLike,
    missing_labels: ArrayLike | None = None,
    missing_inverse: float = 0.0,
) -> float:
    """Return PSP@k, the sum of 1/p over the hits among the first ``k``, divided by that of the best
    ``k`` labels.

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
    ranked, worth = np.asarray(labels), np.asarray(inverse)
    gained, ideal = psp(Y, ranked, hits(Y, ranked), worth, missing, missing_inverse, k)
    return float(gained.sum() / ideal.sum()) if ideal.any() else 0.0


def psp(
    Y: sparse.csr_array,
    labels: NDArray[np.int64],
    found: NDArray[np.bool_],
    inverse: NDArray[np.float64],
    missing: NDArray[np.int64],
    missing_inverse: float,
    k: int,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the gain of each row and that of the ideal ranking; PSP@k is the quotient of their
    sums.
    """
    if inverse.shape != (Y.shape[1],):
        raise DataError(f"{inverse.size} propensities for {Y.shape[1]} labels; pass one per column")
    rows = rows_of(Y)
    worth = inverse[Y.indices]
    worth = worth[np.lexsort((-worth, rows))]  # the true labels of each row, the highest first
    ideal_rank = np.arange(Y.nnz) - Y.indptr[rows] + missing[rows]  # missing labels come first
    best = np.bincount(rows, np.where(ideal_rank < k, worth, 0.0), minlength=Y.shape[0])
    gained = first(np.where(found, inverse[labels], 0.0), k).sum(axis=1)
    return gained, best + missing_inverse * np.minimum(missing, k)
