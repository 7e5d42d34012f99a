"""Rows times sparse weights: all nodes by inverted lists, or a few labels by their own lists.

With inverted lists a row adds up the lists of its features: it costs their length, not the number
of nodes. Labels have such lists for each cluster. For a few labels a row is laid out densely once,
and the list of each label is read.
"""

from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from rembrandt.kernels import inner_kernel, kernel
from rembrandt.linalg import Array, Arrays
from rembrandt.linalg.ranking import replace_worst
from rembrandt.linalg.sparse import short_indices

# Clusters of a row that are visited before any are skipped: they give the labels to beat.
UNCONDITIONAL_CLUSTERS = 3

# Types of CSR arrays, as they are declared.
_CSR = "Tuple((int64[::1], uint32[::1], float32[::1]))"
# Of positions within a cluster; clusters with more labels have another variant, compiled on demand.
_POSITIONS = "uint16[::1]"

# Rows with the same cluster from which its features are laid out instead of searched.
MIN_ROWS_TO_LAY_OUT = 8

# A label's list with more than this many times a row's entries is searched for them.
MAX_READ_RATIO = 10


def csr_arrays(A: sparse.csr_array) -> Arrays:
    """Return the arrays of a matrix, with unsigned columns.

    Compiled code tests signed indices for being negative.
    """
    indices = short_indices(A)
    return A.indptr.astype(np.int64, copy=False), indices.view(f"u{indices.itemsize}"), A.data


@kernel(
    f"void({_CSR}, int64, {_CSR}, float32[:,::1])",
    error_model="numpy",
)
def add_lists(X: Arrays, start: int, lists: Arrays, out: Array) -> None:
    """Add ``X S`` to ``out``, for as many rows of X from ``start`` on as ``out`` has.

    X and ``lists``, which is S, are CSR arrays.
    """
    indptr, indices, data = X
    list_starts, nodes, weights = lists
    for row in range(out.shape[0]):
        into = out[row]
        for x in range(indptr[start + row], indptr[start + row + 1]):
            value = data[x]
            feature = indices[x]
            first = np.uint64(list_starts[feature])
            last = np.uint64(list_starts[feature + 1])
            for at in range(first, last):
                into[nodes[at]] += value * weights[at]


def lists_by_cluster(
    by_feature: Arrays, cluster: Array, rank: Array, n_clusters: int
) -> tuple[Array, ...]:
    """Arrange weights by cluster, feature and label.

    ``by_feature`` are CSR arrays, features × labels; ``rank`` is a label's number within its
    cluster. Return where the features of each cluster start, the features, where the list of each
    starts, and the labels' numbers and weights of all lists.
    """
    cluster = cluster.astype(np.int64, copy=False)
    n_lists = np.zeros(n_clusters, dtype=np.int64)
    n_entries = np.zeros(n_clusters, dtype=np.int64)
    last_feature = np.full(n_clusters, -1, dtype=np.int64)
    _count_lists(by_feature, cluster, n_lists, n_entries, last_feature)
    starts = np.append(0, np.cumsum(n_lists))
    first_entry = np.append(0, np.cumsum(n_entries))
    features = np.empty(starts[-1], dtype=np.int32)
    list_starts = np.empty(starts[-1] + 1, dtype=np.int64)
    list_starts[-1] = first_entry[-1]
    members = np.empty(first_entry[-1], dtype=rank.dtype)
    values = np.empty(first_entry[-1], dtype=np.float32)
    last_feature[:] = -1
    place = (starts[:-1] - 1, first_entry[:-1].copy(), last_feature)
    _fill_lists(by_feature, cluster, rank, place, features, list_starts, members, values)
    return starts, features, list_starts, members, values


@kernel(f"void({_CSR}, int64[::1], int64[::1], int64[::1], int64[::1])", error_model="numpy")
def _count_lists(
    by_feature: Arrays, cluster: Array, n_lists: Array, n_entries: Array, last_feature: Array
) -> None:
    """Count the lists and the entries of each cluster."""
    indptr, labels, _ = by_feature
    for f in range(indptr.shape[0] - 1):
        for at in range(indptr[f], indptr[f + 1]):
            q = cluster[labels[at]]
            n_entries[q] += 1
            n_lists[q] += last_feature[q] != f
            last_feature[q] = f


@kernel(
    f"void({_CSR}, int64[::1], {_POSITIONS}, UniTuple(int64[::1], 3), int32[::1], int64[::1], "
    f"{_POSITIONS}, float32[::1])",
    error_model="numpy",
)
def _fill_lists(
    by_feature: Arrays,
    cluster: Array,
    rank: Array,
    place: Arrays,
    features: Array,
    list_starts: Array,
    members: Array,
    values: Array,
) -> None:
    """Fill the lists in the order of the features.

    ``place`` are the current list, the next entry and the last feature of each cluster.
    """
    indptr, labels, weights = by_feature
    current_list, next_entry, last_feature = place
    for f in range(indptr.shape[0] - 1):
        for at in range(indptr[f], indptr[f + 1]):
            q = cluster[labels[at]]
            if last_feature[q] != f:
                current_list[q] += 1
                features[current_list[q]] = f
                list_starts[current_list[q]] = next_entry[q]
                last_feature[q] = f
            members[next_entry[q]] = rank[labels[at]]
            values[next_entry[q]] = weights[at]
            next_entry[q] += 1


def best_members(
    X: Arrays,
    start: int,
    clusters: Array,
    so_far: Array,
    members: Arrays,
    lists: Arrays,
    bias: Array,
    power: float,
    position: Array,
    best: Array,
    scores: Array,
) -> None:
    """Find each row's best labels of its ``clusters``, in heap order.

    Labels are ranked by ``so_far − max(0, 1 − (xᵀs + b))^power``. ``clusters`` are ordered by
    ``so_far``, best first. The few best clusters of all rows come first. A label's own term is
    never positive, so other clusters that start below the worst label kept are skipped. Rows with
    the same cluster follow each other, so that its lists stay in the cache. ``members`` are the
    starts and labels of every cluster, ``lists`` the weights of `lists_by_cluster` and ``bias`` the
    biases in the order of the members. ``position`` is work space, a -1 for each feature, and is
    restored.
    """
    member_starts, _ = members
    margins = np.empty(np.diff(member_starts).max(), dtype=np.float32)
    visits = np.empty(clusters.size, dtype=np.int64)
    first_visit = np.empty(len(member_starts) + 1, dtype=np.int64)
    space = (position, margins, visits, first_visit)
    visited = (0, min(UNCONDITIONAL_CLUSTERS, clusters.shape[1]), clusters.shape[1])
    for low, high in pairwise(visited):
        _search_clusters(
            X, start, clusters, so_far, low, high, members, lists, bias, float(power), space, best,
            scores,
        )  # fmt: skip


@kernel(
    f"void({_CSR}, int64, int64[:,::1], float32[:,::1], int64, int64, UniTuple(int64[::1], 2), "
    f"Tuple((int64[::1], int32[::1], int64[::1], {_POSITIONS}, float32[::1])), float32[::1], "
    "float64, Tuple((int32[::1], float32[::1], int64[::1], int64[::1])), int64[:,::1], "
    "float32[:,::1])",
    error_model="numpy",
)
def _search_clusters(
    X: Arrays,
    start: int,
    clusters: Array,
    so_far: Array,
    low: int,
    high: int,
    members: Arrays,
    lists: Arrays,
    bias: Array,
    power: float,
    space: Arrays,
    best: Array,
    scores: Array,
) -> None:
    """Search the clusters from ``low`` to ``high`` of every row.

    ``space`` are the ``position`` of `best_members`, the margins of a cluster, the visits, and
    where those of each cluster start.
    """
    member_starts, member_labels = members
    starts = lists[0]
    features = lists[1]
    position, margins, visits, first_visit = space
    n, width = clusters.shape
    n_clusters = member_starts.shape[0] - 1

    # Sort the visits by cluster.
    for q in range(first_visit.shape[0]):
        first_visit[q] = 0
    for row in range(n):
        for q in range(low, high):
            first_visit[clusters[row, q] + 2] += so_far[row, q] > scores[row, 0]
    for q in range(1, first_visit.shape[0]):
        first_visit[q] += first_visit[q - 1]
    for row in range(n):
        for q in range(low, high):
            if so_far[row, q] > scores[row, 0]:
                visits[first_visit[clusters[row, q] + 1]] = row * width + q
                first_visit[clusters[row, q] + 1] += 1

    for cluster in range(n_clusters):
        cluster_visits = visits[first_visit[cluster] : first_visit[cluster + 1]]
        laid_out = cluster_visits.shape[0] >= MIN_ROWS_TO_LAY_OUT
        if laid_out:
            for at in range(starts[cluster], starts[cluster + 1]):
                position[features[at]] = at
        begin = member_starts[cluster]
        end = member_starts[cluster + 1]
        labels = member_labels[begin:end]
        list_position = position if laid_out else position[:0]
        for visit in cluster_visits:
            row = visit // width
            base = so_far[row, visit % width]
            if base > scores[row, 0]:
                for m in range(end - begin):
                    margins[m] = bias[begin + m]
                _add_list(X, start + row, lists, cluster, list_position, margins)
                _keep(base, margins, labels, power, best[row], scores[row])
        if laid_out:
            for at in range(starts[cluster], starts[cluster + 1]):
                position[features[at]] = -1


@inner_kernel(error_model="numpy")
def _add_list(
    X: Arrays, row: int, lists: Arrays, cluster: int, position: Array, out: Array
) -> None:
    """Add the lists of a row's features.

    ``position`` says where the lists are, or it is empty and they are searched.
    """
    indptr, indices, data = X
    starts, features, list_starts, members, weights = lists
    at_list = starts[cluster]
    stop = starts[cluster + 1]
    for x in range(indptr[row], indptr[row + 1]):
        if position.shape[0] > 0:
            at_list = np.int64(position[indices[x]])
            if at_list < 0:
                continue
        else:
            at_list = _search(features, at_list, stop, indices[x])
            if at_list == stop:
                break
            if features[at_list] != indices[x]:
                continue
        value = data[x]
        first = np.uint64(list_starts[at_list])
        last = np.uint64(list_starts[at_list + 1])
        for at in range(first, last):
            out[members[at]] += value * weights[at]


@inner_kernel(error_model="numpy")
def _keep(
    base: Any,
    margins: Array,
    labels: Array,
    power: float,
    row_labels: Array,
    row_scores: Array,
) -> None:
    """Keep the labels of a cluster that are better than the worst so far, in heap order."""
    limit = _root(base - row_scores[0], power)  # no label with a larger hinge is kept
    for m in range(labels.shape[0]):
        hinge = max(np.float32(0), np.float32(1) - margins[m])
        if not hinge <= limit:
            continue
        score = np.float32(base - _raised(hinge, power))
        if not score > row_scores[0]:
            continue
        replace_worst(row_scores, row_labels, score, labels[m])
        limit = _root(base - row_scores[0], power)


@inner_kernel(error_model="numpy")
def _raised(hinge: Any, power: float) -> Any:
    """``hinge ** power``; the usual power without a call."""
    if power == 3.0:
        return hinge * hinge * hinge
    return np.float32(hinge**power)


@inner_kernel(error_model="numpy")
def _root(loss: Any, power: float) -> Any:
    """The hinge that has this loss, and a little more, so that rounding excludes no label."""
    slack = np.float32(1.0001)
    if power == 3.0:
        return slack * np.float32(np.cbrt(loss))
    return slack * np.float32(loss ** (1 / power))


@inner_kernel(error_model="numpy")
def _search(features: Array, low: int, stop: int, feature: int) -> int:
    """The first position from ``low`` on that has ``feature`` or a larger one.

    The columns of a row increase, so a search continues where the one before it ended.
    """
    while low < stop:
        middle = (low + stop) >> 1
        if features[middle] < feature:
            low = middle + 1
        else:
            stop = middle
    return low


@kernel(
    f"void({_CSR}, int64, int64[:,::1], {_CSR}, float32[::1], float32[:,::1])",
    error_model="numpy",
)
def add_products(
    X: Arrays, start: int, wanted: Array, labels: Arrays, dense: Array, out: Array
) -> None:
    """Add ``xᵀs`` to ``out`` for the ``wanted`` labels of each row of X from ``start`` on.

    Label -1 is skipped. ``labels`` are the CSR arrays of the labels' weights. ``dense`` is work
    space, a zero for each feature, and is restored.
    """
    indptr, indices, data = X
    label_starts, features, weights = labels
    for row in range(wanted.shape[0]):
        first = indptr[start + row]
        last = indptr[start + row + 1]
        for x in range(first, last):
            dense[indices[x]] = data[x]
        for j in range(wanted.shape[1]):
            label = wanted[row, j]
            if label < 0:
                continue
            score = np.float32(0)
            low = label_starts[label]
            stop = label_starts[label + 1]
            if stop - low < MAX_READ_RATIO * (last - first):
                for at in range(low, stop):
                    score += weights[at] * dense[features[at]]
            else:
                for x in range(first, last):
                    low = _search(features, low, stop, indices[x])
                    if low < stop and features[low] == indices[x]:
                        score += weights[low] * data[x]
            out[row, j] += score
        for x in range(first, last):
            dense[indices[x]] = 0
