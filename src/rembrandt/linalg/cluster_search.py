"""Kernels of a search over clusters of columns for the largest inner products."""

import numpy as np
from numba import njit

from rembrandt.linalg import Array


@njit(nogil=True, cache=True)
def choose_clusters(bounds: Array, sizes: Array, wanted: int, visits: Array) -> None:
    """Mark the clusters with the highest ``bounds`` of each row until they hold ``wanted`` labels.

    A heap yields the few best in order, in a tenth of the time of a sort.
    """
    C = sizes.shape[0]
    heap = np.empty(C, np.int64)
    for i in range(bounds.shape[0]):
        row = bounds[i]
        heap[:] = np.arange(C)
        for start in range(C // 2 - 1, -1, -1):
            _sink(heap, row, start, C)
        found, left = 0, C
        while found < wanted and left > 0:
            cluster = heap[0]
            left -= 1
            heap[0] = heap[left]
            _sink(heap, row, 0, left)
            if sizes[cluster] > 0:
                visits[i, cluster] = True
                found += sizes[cluster]


@njit(nogil=True, cache=True)
def _sink(heap: Array, key: Array, at: int, size: int) -> None:
    """Move the entry at ``at`` down until no entry below it has a larger key."""
    moved = heap[at]
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and key[heap[child + 1]] > key[heap[child]]:
            child += 1
        if key[heap[child]] <= key[moved]:
            break
        heap[at] = heap[child]
        at = child
    heap[at] = moved


@njit(nogil=True, cache=True)
def merge_best(
    seen: Array, bias: Array, labels: Array, rows: Array, best: Array, scores: Array
) -> None:
    """Insert the labels of a cluster into the sorted lists of the best of each row; equal scores by
    label.
    """
    k = best.shape[1]
    for r in range(rows.shape[0]):
        owner, kept = best[rows[r]], scores[rows[r]]
        for j in range(labels.shape[0]):
            score, label = seen[r, j] + bias[j], labels[j]
            if not (score > kept[k - 1] or (score == kept[k - 1] and label < owner[k - 1])):
                continue
            at = k - 1
            while at > 0 and (
                score > kept[at - 1] or (score == kept[at - 1] and label < owner[at - 1])
            ):
                kept[at], owner[at] = kept[at - 1], owner[at - 1]
                at -= 1
            kept[at], owner[at] = score, label


@njit(nogil=True, cache=True, fastmath={"contract", "reassoc"})
def paired_scores(Phi: Array, columns: Array, at: Array, out: Array) -> None:
    """Score each row with its own columns, those at ``at``; -inf where that is negative."""
    for i in range(at.shape[0]):
        for j in range(at.shape[1]):
            column = at[i, j]
            if column < 0:
                out[i, j] = -np.inf
                continue
            total = columns[column, Phi.shape[1]]
            for f in range(Phi.shape[1]):
                total += Phi[i, f] * columns[column, f]
            out[i, j] = total
