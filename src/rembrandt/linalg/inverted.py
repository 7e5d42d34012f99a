"""Rows times sparse weights: all nodes by inverted lists, or a few labels by their own lists.

With inverted lists a row adds up the lists of its features: it costs their length, not the number of nodes. For a few
labels a row is laid out densely once, and the short list of each label is read.
"""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[Any]
Arrays = tuple[Array, ...]


@njit(nogil=True, cache=True, error_model="numpy")
def add_lists(X: Arrays, start: int, lists: Arrays, out: Array) -> None:
    """Add ``X S`` to ``out`` for its number of rows of X from ``start`` on; X and ``lists``, S, are CSR arrays."""
    indptr, indices, data = X
    at, nodes, weights = lists
    for row in range(out.shape[0]):
        into = out[row]
        for x in range(indptr[start + row], indptr[start + row + 1]):
            value, feature = data[x], indices[x]
            for t in range(at[feature], at[feature + 1]):
                into[nodes[t]] += value * weights[t]


@njit(nogil=True, cache=True, error_model="numpy")
def best_members(
    X: Arrays, start: int, clusters: Array, so_far: Array, members: Arrays, labels: Arrays, power: float,
    allowed: Array, dense: Array, best: Array, scores: Array,
) -> None:  # fmt: skip
    """Find each row's best labels of its ``clusters``, by ``so_far − max(0, 1 − (xᵀs + b))^power``, in heap order.

    ``clusters`` are ordered by ``so_far``, best first. A label's own term is never positive, so clusters that start
    below the worst label kept are skipped. ``members`` are the starts and labels of every cluster, ``labels`` the CSR
    arrays and biases of the labels' weights; ``allowed`` says which labels may be returned. ``dense`` is work space, a
    zero for each feature, and is restored.
    """
    indptr, indices, data = X
    at, features, weights, bias = labels
    k = best.shape[1]
    for row in range(best.shape[0]):
        first, last = indptr[start + row], indptr[start + row + 1]
        for x in range(first, last):
            dense[indices[x]] = data[x]
        kept, owner = scores[row], best[row]
        for q in range(clusters.shape[1]):
            base = so_far[row, q]
            if not base > kept[0]:
                break
            for m in range(members[0][clusters[row, q]], members[0][clusters[row, q] + 1]):
                label = members[1][m]
                if not allowed[label]:
                    continue
                score = bias[label]
                for t in range(at[label], at[label + 1]):
                    score += weights[t] * dense[features[t]]
                score = np.float32(base - max(0.0, 1.0 - score) ** power)
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
        for x in range(first, last):
            dense[indices[x]] = 0


@njit(nogil=True, cache=True, error_model="numpy")
def label_scores(
    X: Arrays, start: int, wanted: Array, above: Array, parent: Array, labels: Arrays, power: float,
    dense: Array, out: Array,
) -> None:  # fmt: skip
    """Score the ``wanted`` labels of each row by ``above[parent] − max(0, 1 − (xᵀs + b))^power``; -inf for label -1.

    ``labels`` are the CSR arrays and biases of the labels' weights. ``dense`` is work space, a zero for each feature,
    and is restored.
    """
    indptr, indices, data = X
    at, features, weights, bias = labels
    for row in range(wanted.shape[0]):
        first, last = indptr[start + row], indptr[start + row + 1]
        for x in range(first, last):
            dense[indices[x]] = data[x]
        for j in range(wanted.shape[1]):
            label = wanted[row, j]
            if label < 0:
                out[row, j] = -np.inf
                continue
            score = bias[label]
            for t in range(at[label], at[label + 1]):
                score += weights[t] * dense[features[t]]
            out[row, j] = np.float32(above[row, parent[label]] - max(0.0, 1.0 - score) ** power)
        for x in range(first, last):
            dense[indices[x]] = 0
