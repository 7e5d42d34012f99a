"""Which predictions are true labels."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from rembrandt.errors import DataError


def as_truth(truth: Any) -> sparse.csr_array:
    """Return the true labels as CSR with sorted columns, without duplicates and stored zeros."""
    Y = sparse.csr_array(truth)
    if not Y.has_canonical_format or not Y.data.all():
        Y = Y.copy()  # leave the caller's matrix unchanged
        Y.sum_duplicates()
        Y.eliminate_zeros()
    return Y


def as_ranked(labels: ArrayLike, truth: sparse.csr_array) -> NDArray[np.int64]:
    """Check ranked predictions: integers within the columns of the truth, no label twice in a
    row.
    """
    ranked = np.asarray(labels)
    n, c = truth.shape
    if ranked.ndim != 2 or len(ranked) != n or not np.issubdtype(ranked.dtype, np.integer):
        found = (
            f"predictions are {ranked.dtype} of shape {ranked.shape}, but the truth has {n} rows"
        )
        raise DataError(
            f"{found}; pass an integer array of {n} rows with the best labels in rank order"
        )
    ranked = ranked.astype(np.int64, copy=False)
    if ranked.size and (ranked.min() < -1 or ranked.max() >= c):
        found = (
            f"predicted labels are in {ranked.min()}…{ranked.max()}, but the truth has {c} columns"
        )
        raise DataError(f"{found}; use indices 0…{c - 1}, and -1 for no prediction")
    ordered = np.sort(ranked, axis=1)
    repeated = ((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)).any(axis=1)
    if repeated.any():
        raise DataError(
            f"row {int(repeated.argmax())} predicts a label twice; keep the best rank of each "
            "label only"
        )
    return ranked


def hits(truth: Any, labels: ArrayLike) -> NDArray[np.bool_]:
    """Return which predictions are true labels, n × k.

    The entry (row, label) is found by binary search among the entries of the truth, numbered
    ``row·c + label``.
    """
    Y = as_truth(truth)
    ranked = as_ranked(labels, Y)
    n, c = Y.shape
    if Y.nnz == 0:
        return np.zeros(ranked.shape, dtype=bool)
    entries = rows_of(Y) * c + Y.indices
    wanted = np.arange(n, dtype=np.int64)[:, None] * c + ranked
    nearest = entries[np.minimum(np.searchsorted(entries, wanted), Y.nnz - 1)]
    return (nearest == wanted) & (ranked >= 0)


def label_counts(
    truth: Any, labels: ArrayLike
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return how often each label is true, predicted, and both."""
    Y = as_truth(truth)
    ranked = as_ranked(labels, Y)
    entries = Y.indices, ranked[ranked >= 0], ranked[hits(Y, ranked)]
    true, predicted, found = (np.bincount(columns, minlength=Y.shape[1]) for columns in entries)
    return true, predicted, found


def rows_of(Y: sparse.csr_array) -> NDArray[np.int64]:
    """Return the row of every stored entry."""
    return np.repeat(np.arange(Y.shape[0], dtype=np.int64), np.diff(Y.indptr))
