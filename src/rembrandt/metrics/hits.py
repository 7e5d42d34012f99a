"""Which predictions are true labels."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from rembrandt.errors import DataError
from rembrandt.linalg import Indices
from rembrandt.linalg.sparse import csr_of, is_sparse
from rembrandt.linalg.validation import check_sparse, refusals

Hits = NDArray[np.bool_]  # n × k: which predictions are true labels


def as_truth(truth: Any) -> sparse.csr_array:
    """Return the true labels as CSR with sorted columns, without duplicates and stored zeros."""
    if is_sparse(truth):
        check_sparse(truth, "the truth")
    with refusals("the truth"):
        Y = csr_of(truth)
    if Y.ndim != 2:
        raise DataError(
            f"the truth has {Y.ndim} dimension; give a matrix with a row for each example and a "
            "column for each label"
        )
    if not Y.has_canonical_format or not Y.data.all():
        Y = Y.copy()  # leave the caller's matrix unchanged
        Y.sum_duplicates()
        Y.eliminate_zeros()
    return Y


def as_ranked(labels: ArrayLike, truth: sparse.csr_array) -> Indices:
    """Return ranked predictions after checking them.

    They must be integers within the columns of the truth, without a label twice in a row.
    """
    ranked = np.asarray(labels)
    n, c = truth.shape
    is_integer = np.issubdtype(ranked.dtype, np.integer)
    if ranked.ndim != 2 or len(ranked) != n or not is_integer:
        raise DataError(
            f"predictions are {ranked.dtype} of shape {ranked.shape}, but the truth has {n} rows; "
            f"pass an integer array of {n} rows with the best labels in rank order"
        )
    ranked = ranked.astype(np.int64, copy=False)
    if ranked.size > 0:
        lowest = ranked.min()
        highest = ranked.max()
        if lowest < -1 or highest >= c:
            raise DataError(
                f"predicted labels are in {lowest}…{highest}, but the truth has {c} columns; "
                f"use indices 0…{c - 1}, and -1 for no prediction"
            )
    is_repeated = _has_repeated_labels(ranked)
    if is_repeated.any():
        row = int(is_repeated.argmax())
        raise DataError(f"row {row} predicts a label twice; keep the best rank of each label only")
    return ranked


def _has_repeated_labels(ranked: Indices) -> NDArray[np.bool_]:
    """Return which rows contain a label twice; -1 is not a label."""
    ordered = np.sort(ranked, axis=1)
    previous = ordered[:, :-1]
    following = ordered[:, 1:]
    is_repeated = (following == previous) & (following >= 0)
    return np.asarray(is_repeated.any(axis=1))


def hits(truth: Any, labels: ArrayLike) -> Hits:
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
    rows = np.arange(n, dtype=np.int64)
    wanted = rows[:, None] * c + ranked
    places = np.searchsorted(entries, wanted)
    nearest = entries[np.minimum(places, Y.nnz - 1)]
    return (nearest == wanted) & (ranked >= 0)


def label_counts(truth: Any, labels: ArrayLike) -> tuple[Indices, Indices, Indices]:
    """Return how often each label is true, predicted, and both."""
    Y = as_truth(truth)
    ranked = as_ranked(labels, Y)
    n_labels = Y.shape[1]
    predicted_labels = ranked[ranked >= 0]
    hit_labels = ranked[hits(Y, ranked)]
    n_true = np.bincount(Y.indices, minlength=n_labels)
    n_predicted = np.bincount(predicted_labels, minlength=n_labels)
    n_hits = np.bincount(hit_labels, minlength=n_labels)
    return n_true, n_predicted, n_hits


def rows_of(Y: sparse.csr_array) -> Indices:
    """Return the row of every stored entry."""
    rows = np.arange(Y.shape[0], dtype=np.int64)
    return np.repeat(rows, np.diff(Y.indptr))
