"""Rows times sparse weights: all nodes by inverted lists, or a few labels by their own lists.

With inverted lists a row adds up the lists of its features: it costs their length, not the number
of nodes. Labels have such lists for each cluster. For a few labels a row is laid out densely once,
and the list of each label is read.
"""

from typing import Any

import numpy as np
from numba import njit
from scipy import sparse

from rembrandt.linalg import Array, Arrays
from rembrandt.linalg.ranking import replace_worst

FIRST = 3  # clusters of a row that are visited before any are skipped
SEVERAL = 8  # rows with the same cluster for which its features are laid out
LONG = 10  # times a row's entries: in a label's list that is longer they are searched


def csr_arrays(A: sparse.csr_array) -> Arrays:
    """The arrays of a matrix; columns are unsigned, because compiled code tests signed indices for
    being negative.
    """
    return A.indptr, A.indices.view(f"u{A.indices.itemsize}"), A.data


@njit(nogil=True, cache=True, error_model="numpy")
def add_lists(X: Arrays, start: int, lists: Arrays, out: Array) -> None:
    """Add ``X S`` to ``out`` for its number of rows of X from ``start`` on; X and ``lists``, S, are
    CSR arrays.
    """
    indptr, indices, data = X
    at, nodes, weights = lists
    for row in range(out.shape[0]):
        into = out[row]
        for x in range(indptr[start + row], indptr[start + row + 1]):
            value, feature = data[x], indices[x]
            for t in range(np.uint64(at[feature]), np.uint64(at[feature + 1])):
                into[nodes[t]] += value * weights[t]


@njit(nogil=True, cache=True, error_model="numpy")
def lists_by_cluster(
    by_feature: Arrays, cluster: Array, rank: Array, n_clusters: int
) -> tuple[Array, ...]:
    """Arrange weights by cluster, feature and label; ``rank`` is a label's number within its
    cluster.

    ``by_feature`` are CSR arrays, features × labels. Return where the features of each cluster
    start, the features, where the list of each starts, and the labels' numbers and weights of all
    lists.
    """
    indptr, labels, weights = by_feature
    starts, first = np.zeros(n_clusters + 1, np.int64), np.zeros(n_clusters + 1, np.int64)
    last = np.full(n_clusters, -1, np.int64)
    for f in range(indptr.shape[0] - 1):
        for at in range(indptr[f], indptr[f + 1]):
            q = cluster[labels[at]]
            first[q + 1] += 1
            starts[q + 1] += last[q] != f
            last[q] = f
    starts, first = np.cumsum(starts), np.cumsum(first)
    features, ends = np.empty(starts[-1], np.int32), np.empty(starts[-1] + 1, np.int64)
    who, values = np.empty(first[-1], rank.dtype), np.empty(first[-1], np.float32)
    list_, entry = starts[:-1] - 1, first[:-1].copy()
    last[:] = -1
    ends[-1] = first[-1]
    for f in range(indptr.shape[0] - 1):
        for at in range(indptr[f], indptr[f + 1]):
            q = cluster[labels[at]]
            if last[q] != f:
                list_[q] += 1
                features[list_[q]], ends[list_[q]] = f, entry[q]
                last[q] = f
            who[entry[q]], values[entry[q]] = rank[labels[at]], weights[at]
            entry[q] += 1
    return starts, features, ends, who, values


@njit(nogil=True, cache=True, error_model="numpy")
def best_members(
    X: Arrays, start: int, clusters: Array, so_far: Array, members: Arrays, lists: Arrays,
    bias: Array, power: float,
    allowed: Array, position: Array, best: Array, scores: Array,
) -> None:  # fmt: skip
    """Find each row's best labels of its ``clusters``, by ``so_far − max(0, 1 − (xᵀs + b))^power``,
    in heap order.

    ``clusters`` are ordered by ``so_far``, best first. The few best clusters of all rows come
    first. A label's own term is never positive, so other clusters that start below the worst label
    kept are skipped. Rows with the same cluster follow each other, so that its lists stay in the
    cache. ``members`` are the starts and labels of every cluster, ``lists`` the weights of
    `lists_by_cluster` and ``bias`` the biases in the order of the members; ``allowed`` says which
    labels may be returned. ``position`` is work space, a -1 for each feature, and is restored.
    """
    starts, features = lists[:2]
    n, width = clusters.shape
    margins = np.empty(np.diff(members[0]).max(), np.float32)
    first, visits = np.zeros(members[0].shape[0] + 1, np.int64), np.empty(n * width, np.int64)
    for low, high in ((0, min(FIRST, width)), (min(FIRST, width), width)):
        first[:] = 0
        for row in range(n):  # sort the visits by cluster
            for q in range(low, high):
                first[clusters[row, q] + 2] += so_far[row, q] > scores[row, 0]
        first = np.cumsum(first)
        for row in range(n):
            for q in range(low, high):
                if so_far[row, q] > scores[row, 0]:
                    visits[first[clusters[row, q] + 1]] = row * width + q
                    first[clusters[row, q] + 1] += 1
        for cluster in range(members[0].shape[0] - 1):
            several = first[cluster + 1] - first[cluster] >= SEVERAL
            if several:
                for at in range(starts[cluster], starts[cluster + 1]):
                    position[features[at]] = at
            begin, end = members[0][cluster], members[0][cluster + 1]
            for visit in visits[first[cluster] : first[cluster + 1]]:
                row, base = visit // width, so_far[visit // width, visit % width]
                if base > scores[row, 0]:
                    margins[: end - begin] = bias[begin:end]
                    _add_list(
                        X,
                        start + row,
                        lists,
                        cluster,
                        position if several else position[:0],
                        margins,
                    )
                    _keep(
                        base, margins, members[1][begin:end], power, allowed, best[row], scores[row]
                    )
            if several:
                for at in range(starts[cluster], starts[cluster + 1]):
                    position[features[at]] = -1


@njit(nogil=True, cache=True, error_model="numpy")
def _add_list(
    X: Arrays, row: int, lists: Arrays, cluster: int, position: Array, out: Array
) -> None:
    """Add the lists of a row's features; ``position`` says where they are, or is empty and they are
    searched.
    """
    indptr, indices, data = X
    starts, features, ends, who, weights = lists
    low, stop = starts[cluster], starts[cluster + 1]
    for x in range(indptr[row], indptr[row + 1]):
        if position.shape[0] > 0:
            low = np.int64(position[indices[x]])
            if low < 0:
                continue
        else:
            low = _search(features, low, stop, indices[x])
            if low == stop:
                break
            if features[low] != indices[x]:
                continue
        value = data[x]
        for at in range(np.uint64(ends[low]), np.uint64(ends[low + 1])):
            out[who[at]] += value * weights[at]


@njit(nogil=True, cache=True, error_model="numpy")
def _keep(
    base: Any,
    margins: Array,
    labels: Array,
    power: float,
    allowed: Array,
    owner: Array,
    kept: Array,
) -> None:
    """Keep the labels of a cluster that are better than the worst so far, in heap order."""
    limit = _root(base - kept[0], power)  # no label with a larger hinge is kept
    for m in range(labels.shape[0]):
        hinge = max(np.float32(0), np.float32(1) - margins[m])
        if not hinge <= limit or not allowed[labels[m]]:
            continue
        score = np.float32(base - _raised(hinge, power))
        if not score > kept[0]:
            continue
        replace_worst(kept, owner, score, labels[m])
        limit = _root(base - kept[0], power)


@njit(nogil=True, cache=True, error_model="numpy")
def _raised(hinge: Any, power: float) -> Any:
    """``hinge ** power``; the usual power without a call."""
    return hinge * hinge * hinge if power == 3.0 else np.float32(hinge**power)


@njit(nogil=True, cache=True, error_model="numpy")
def _root(loss: Any, power: float) -> Any:
    """The hinge that has this loss, and a little more, so that rounding excludes no label."""
    return np.float32(1.0001) * np.float32(np.cbrt(loss) if power == 3.0 else loss ** (1 / power))


@njit(nogil=True, cache=True, error_model="numpy")
def _search(features: Array, low: int, stop: int, feature: int) -> int:
    """The first place from ``low`` on with at least ``feature``; columns of a row increase, so
    searches go on.
    """
    while low < stop:
        middle = (low + stop) >> 1
        if features[middle] < feature:
            low = middle + 1
        else:
            stop = middle
    return low


@njit(nogil=True, cache=True, error_model="numpy")
def add_products(
    X: Arrays, start: int, wanted: Array, labels: Arrays, dense: Array, out: Array
) -> None:
    """Add ``xᵀs`` to ``out`` for the ``wanted`` labels of each row of X from ``start`` on; label -1
    is skipped.

    ``labels`` are the CSR arrays of the labels' weights. ``dense`` is work space, a zero for each
    feature, and is restored.
    """
    indptr, indices, data = X
    at, features, weights = labels
    for row in range(wanted.shape[0]):
        first, last = indptr[start + row], indptr[start + row + 1]
        for x in range(first, last):
            dense[indices[x]] = data[x]
        for j in range(wanted.shape[1]):
            label = wanted[row, j]
            if label < 0:
                continue
            score, low, stop = np.float32(0), at[label], at[label + 1]
            if stop - low < LONG * (last - first):
                for t in range(low, stop):
                    score += weights[t] * dense[features[t]]
            else:
                for x in range(first, last):
                    low = _search(features, low, stop, indices[x])
                    if low < stop and features[low] == indices[x]:
                        score += weights[low] * data[x]
            out[row, j] += score
        for x in range(first, last):
            dense[indices[x]] = 0
