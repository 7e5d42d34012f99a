"""Rows times a sparse matrix of labels, by lists: each feature has a list of the labels that give it weight.

A row adds up the lists of its own features. What it costs is the length of those lists, not the number of labels, and
labels that share no feature with the row are never seen.
"""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.linalg.blocks import spans
from rembrandt.linalg.threads import Workspace, for_each

Array = NDArray[Any]
ROWS = 512  # rows of one call: many calls balance the threads


def list_top_k(X: sparse.csr_array, S: sparse.csr_array, bias: Array, k: int) -> tuple[NDArray[np.int32], Array]:
    """The ``k`` best labels of every row by ``X S + bias`` among those that share a feature with it, in no order.

    ``S`` is features × labels. Where fewer than ``k`` labels are met the rest is -1, with a score of -inf.
    """
    best = np.full((X.shape[0], k), -1, dtype=np.int32)
    scores = np.full((X.shape[0], k), -np.inf, dtype=np.float32)
    space = Workspace(lambda: np.zeros(S.shape[1], dtype=np.float32))
    rest = (X.indptr, X.indices, X.data, S.indptr, S.indices, S.data, bias)

    def fill(rows: slice) -> None:
        with space.borrowed() as sums:
            _top(*rest, sums, rows.start, best[rows], scores[rows])

    for_each(fill, ((rows,) for rows in spans(X.shape[0], ROWS)))
    return best, scores


def list_above(
    X: sparse.csr_array, S: sparse.csr_array, bias: Array, level: float, most: int
) -> tuple[NDArray[np.int32], Array]:
    """As `list_top_k` with those below ``level`` left out."""
    best, scores = list_top_k(X, S, bias - np.float32(level), most)
    best[scores <= 0] = -1
    return best, scores + np.float32(level)


@njit(nogil=True, cache=True, error_model="numpy")
def _top(
    indptr: Array,
    indices: Array,
    data: Array,
    list_at: Array,
    list_labels: Array,
    list_weights: Array,
    bias: Array,
    sums: Array,
    start: int,
    best: Array,
    scores: Array,
) -> None:
    k = best.shape[1]
    for row in range(best.shape[0]):
        i = start + row
        for at in range(indptr[i], indptr[i + 1]):
            x = data[at]
            f = indices[at]
            for t in range(list_at[f], list_at[f + 1]):
                sums[list_labels[t]] += x * list_weights[t]
        kept, owner = scores[row], best[row]
        for at in range(indptr[i], indptr[i + 1]):
            f = indices[at]
            for t in range(list_at[f], list_at[f + 1]):
                label = list_labels[t]
                if sums[label] == 0:
                    continue
                score = sums[label] + bias[label]
                sums[label] = 0
                if not score > kept[0]:
                    continue
                hole = 0
                while True:
                    child = 2 * hole + 1
                    if child >= k:
                        break
                    if child + 1 < k and kept[child + 1] < kept[child]:
                        child += 1
                    if kept[child] >= score:
                        break
                    kept[hole], owner[hole] = kept[child], owner[child]
                    hole = child
                kept[hole], owner[hole] = score, label
