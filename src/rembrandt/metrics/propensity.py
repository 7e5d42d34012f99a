"""Propensity-scored precision: a hit on a rare label counts for more, as rare labels are more often left out of truth.

Jain, Prabhu & Varma, "Extreme multi-label loss functions for recommendation, tagging, ranking & other missing label
applications", KDD 2016.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from rembrandt.errors import DataError
from rembrandt.metrics.hits import as_truth, hits, rows_of
from rembrandt.metrics.ranking import as_missing, first


def inverse_propensity(counts: ArrayLike, n_train: int, A: float = 0.55, B: float = 1.5) -> NDArray[np.float64]:
    """Return 1/p = 1 + C·(N + B)^-A with C = (ln n − 1)(B + 1)^A for labels seen N times in n training examples.

    The repository uses A = 0.5, B = 0.4 for Wikipedia's sets, A = 0.6, B = 2.6 for Amazon's and the defaults elsewhere.
    """
    if n_train < 1 or B <= 0:
        raise DataError(f"propensities need n_train ≥ 1 and B > 0, not n_train = {n_train} and B = {B}")
    # below three examples ln n < 1, and a negative C would make propensities that exceed one
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
    """Return the sum of 1/p over all hits among the first k, divided by the sum that the ideal k labels reach.

    ``inverse`` is each column's 1/p, see `inverse_propensity`. True labels without a column (``missing_labels`` of
    them per row) are worth ``missing_inverse`` each in the ideal: that of a label never seen, hence no less than any
    other.
    """
    Y = as_truth(truth)
    missing = as_missing(missing_labels, Y.shape[0])
    ranked, worth = np.asarray(labels), np.asarray(inverse)
    [(gained, ideal)] = psp(Y, ranked, hits(Y, ranked), worth, missing, missing_inverse, [k])
    return float(gained.sum() / ideal.sum()) if ideal.any() else 0.0


def psp(
    Y: sparse.csr_array,
    labels: NDArray[np.int64],
    found: NDArray[np.bool_],
    inverse: NDArray[np.float64],
    missing: NDArray[np.int64],
    missing_inverse: float,
    ks: Sequence[int],
) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Return for every k what each row gained and what the ideal would have; PSP@k is the quotient of their sums."""
    if inverse.shape != (Y.shape[1],):
        raise DataError(f"{inverse.size} propensities for {Y.shape[1]} labels; count the training labels by column")
    n = Y.shape[0]
    rows = rows_of(Y)
    worth = inverse[Y.indices]
    worth = worth[np.lexsort((-worth, rows))]  # each row's true labels, dearest first
    place = np.arange(Y.nnz) - Y.indptr[rows] + missing[rows]  # the missing ones are dearer still
    value = np.where(found, inverse[labels], 0.0)

    def sums(k: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        best = np.bincount(rows, np.where(place < k, worth, 0.0), minlength=n)
        return first(value, k).sum(axis=1), best + missing_inverse * np.minimum(missing, k)

    return [sums(k) for k in ks]
