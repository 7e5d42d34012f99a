"""Kernels of a search over clusters of columns for the largest inner products."""

import numpy as np

from rembrandt.kernels import inner_kernel, kernel
from rembrandt.linalg import Array


@kernel()
def choose_clusters(bounds: Array, sizes: Array, wanted: int, heap: Array, visits: Array) -> None:
    """Mark the clusters with the highest ``bounds`` of each row until they hold ``wanted`` labels.

    ``heap`` is work space, an integer for each cluster. A heap yields the few best in order, in a
    tenth of the time of a sort.
    """
    n_clusters = sizes.shape[0]
    for i in range(bounds.shape[0]):
        row = bounds[i]
        for cluster in range(n_clusters):
            heap[cluster] = cluster
        for start in range(n_clusters // 2 - 1, -1, -1):
            _sink(heap, row, start, n_clusters)
        n_labels = 0
        heap_size = n_clusters
        while n_labels < wanted and heap_size > 0:
            cluster = heap[0]
            heap_size -= 1
            heap[0] = heap[heap_size]
            _sink(heap, row, 0, heap_size)
            if sizes[cluster] > 0:
                visits[i, cluster] = True
                n_labels += sizes[cluster]


@inner_kernel()
def _sink(heap: Array, key: Array, at: int, size: int) -> None:
    """Move the entry at ``at`` down until no entry below it has a larger key."""
    moved = heap[at]
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        sibling = child + 1
        if sibling < size and key[heap[sibling]] > key[heap[child]]:
            child = sibling
        if key[heap[child]] <= key[moved]:
            break
        heap[at] = heap[child]
        at = child
    heap[at] = moved


@kernel()
def merge_best(
    seen: Array, bias: Array, labels: Array, rows: Array, best: Array, scores: Array
) -> None:
    """Insert the labels of a cluster into the sorted lists of the best labels of each row.

    ``seen`` are the products of the rows with the cluster's columns. Equal scores are ordered by
    label.
    """
    k = best.shape[1]
    for r in range(rows.shape[0]):
        row_labels = best[rows[r]]
        row_scores = scores[rows[r]]
        for j in range(labels.shape[0]):
            score = seen[r, j] + bias[j]
            label = labels[j]
            worst = k - 1
            if not _comes_before(score, label, row_scores[worst], row_labels[worst]):
                continue
            at = worst
            while at > 0 and _comes_before(score, label, row_scores[at - 1], row_labels[at - 1]):
                row_scores[at] = row_scores[at - 1]
                row_labels[at] = row_labels[at - 1]
                at -= 1
            row_scores[at] = score
            row_labels[at] = label


@kernel(inline="always")
def _comes_before(score: float, label: int, other_score: float, other_label: int) -> bool:
    """Whether a label has the higher score, or the same score and the lower number."""
    return score > other_score or (score == other_score and label < other_label)


@kernel(
    "void(float32[:,::1], float32[:,::1], int64[:,::1], float32[:,::1])",
    fastmath={"contract", "reassoc"},
)
def paired_scores(Phi: Array, columns: Array, at: Array, out: Array) -> None:
    """Score each row with the columns that ``at`` names for it; -inf where that is negative.

    The last entry of a column is its bias.
    """
    n_features = Phi.shape[1]
    for i in range(at.shape[0]):
        for j in range(at.shape[1]):
            column = at[i, j]
            if column < 0:
                out[i, j] = -np.inf
                continue
            total = columns[column, n_features]
            for f in range(n_features):
                total += Phi[i, f] * columns[column, f]
            out[i, j] = total
