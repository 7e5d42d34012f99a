"""Rows times sparse weights: all nodes by inverted lists, or a few labels by their own lists.

With inverted lists a row adds up the lists of its features: it costs their length, not the number of nodes. For a few
labels a row is laid out densely once, and the short list of each label is read.
"""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[Any]


@njit(nogil=True, cache=True, error_model="numpy")
def add_lists(
    indptr: Array, indices: Array, data: Array, start: int, at: Array, nodes: Array, weights: Array, out: Array
) -> None:
    """Add ``X S`` to ``out`` for its number of rows of X from ``start`` on; S, features × nodes, is CSR too."""
    for row in range(out.shape[0]):
        into = out[row]
        for x in range(indptr[start + row], indptr[start + row + 1]):
            value, feature = data[x], indices[x]
            for t in range(at[feature], at[feature + 1]):
                into[nodes[t]] += value * weights[t]


@njit(nogil=True, cache=True, error_model="numpy")
def best_members(
    indptr: Array,
    indices: Array,
    data: Array,
    start: int,
    clusters: Array,
    so_far: Array,
    members_at: Array,
    members: Array,
    at: Array,
    features: Array,
    weights: Array,
    bias: Array,
    power: float,
    allowed: Array,
    dense: Array,
    best: Array,
    scores: Array,
) -> None:
    """Find each row's best labels of its ``clusters``, by ``so_far − max(0, 1 − (xᵀs + b))^power``, in heap order.

    ``clusters`` are ordered by ``so_far``, best first. A label's own term is never positive, so clusters that start
    below the worst label kept are skipped. ``allowed`` says which labels may be returned. ``dense`` is work space, a
    zero for each feature, and is restored.
    """
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
            for m in range(members_at[clusters[row, q]], members_at[clusters[row, q] + 1]):
                label = members[m]
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
    indptr: Array,
    indices: Array,
    data: Array,
    start: int,
    labels: Array,
    above: Array,
    parent: Array,
    at: Array,
    features: Array,
    weights: Array,
    bias: Array,
    power: float,
    dense: Array,
    out: Array,
) -> None:
    """Score the given ``labels`` of each row by ``above[parent] − max(0, 1 − (xᵀs + b))^power``; -inf for label -1.

    ``dense`` is work space, a zero for each feature, and is restored.
    """
    for row in range(labels.shape[0]):
        first, last = indptr[start + row], indptr[start + row + 1]
        for x in range(first, last):
            dense[indices[x]] = data[x]
        for j in range(labels.shape[1]):
            label = labels[row, j]
            if label < 0:
                out[row, j] = -np.inf
                continue
            score = bias[label]
            for t in range(at[label], at[label + 1]):
                score += weights[t] * dense[features[t]]
            out[row, j] = np.float32(above[row, parent[label]] - max(0.0, 1.0 - score) ** power)
        for x in range(first, last):
            dense[indices[x]] = 0
