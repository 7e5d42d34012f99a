"""A shortlist of labels for every row: clusters of the decoder's columns, searched for the largest scores.

A score is an inner product, ``[φ, 1]·[q, b]``, so labels whose columns are near each other have scores near each other.
Columns are cut into clusters by k-means. A row looks into the clusters that promise most until it has seen as many
labels as were asked for; every label that it sees gets the score that full decoding gives it. A cluster of m columns
with mean μ and root mean squared distance r promises ``φ·μ + ‖φ‖ r √(2 ln m / D)``: the mean of its scores, and how far
above that the largest of m normal draws comes. By the mean alone a cluster with one long column is found too late.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rembrandt import memory
from rembrandt.decoders.decoder import Decoder
from rembrandt.errors import MemoryEstimateError
from rembrandt.linalg.blocks import spans
from rembrandt.linalg.kmeans import cluster_means, kmeans
from rembrandt.linalg.threads import for_each, n_threads, own_threads
from rembrandt.metrics import rank
from rembrandt.progress import Report, silent

Array = NDArray[Any]

ROWS = 2048  # rows that a thread looks up together: enough for a product with each cluster, few enough for the cache
LABELS = 4096  # columns copied at a time, so that what is read and what is written stay in the cache
LEAST = 1000  # labels that a row sees where nobody says how many, at least
SHARE = 40  # and of more labels than that, one in this many


@dataclass(frozen=True)
class Shortlist:
    """The clusters of a decoder's columns; laid out for the search when it is first asked."""

    decoder: Decoder
    clusters: Array  # c: all that a file needs to hold, the rest is the decoder's

    @classmethod
    def of(cls, decoder: Decoder, report: Report = silent) -> "Shortlist":
        """That of ``decoder``."""
        joined = _joined(decoder)
        return cls(decoder, kmeans(joined, n_clusters(len(joined)), report=report).astype(np.int32))

    @cached_property
    def layout(self) -> "_Layout":
        joined = _joined(self.decoder)
        sizes = np.bincount(self.clusters)
        centres = cluster_means(joined, self.clusters)
        squares = np.einsum("ij,ij->i", joined, joined).astype(np.float64)
        # The mean squared distance from the mean is the mean square less the mean's.
        spread = np.bincount(self.clusters, squares) / np.maximum(sizes, 1) - np.einsum("ij,ij->i", centres, centres)
        reach = np.sqrt(np.maximum(spread, 0) * 2 * np.log(np.maximum(sizes, 1)) / joined.shape[1])
        labels = np.argsort(self.clusters, kind="stable")
        bounds = np.concatenate([[0], np.cumsum(sizes)])
        return _Layout(labels, bounds, joined[labels], centres, reach.astype(joined.dtype))

    def top_k(self, Phi: Array, k: int, look_at: int, allowed: Array | None = None) -> tuple[Array, Array]:
        """The ``k`` best of at least ``look_at`` labels of each row and their scores, best first, -1 where none is.

        ``allowed`` limits the answer, and the labels that count as looked at, to these label indices.
        """
        layout = self.layout
        best = np.full((len(Phi), k), -1, dtype=np.int64)
        scores = np.full((len(Phi), k), -np.inf, dtype=Phi.dtype)
        wanted = None
        if allowed is not None:
            wanted = np.zeros(len(layout.labels), dtype=bool)
            wanted[allowed] = True
            wanted = wanted[layout.labels]

        def look_up(rows: slice) -> None:
            layout.look_up(Phi[rows], best[rows], scores[rows], look_at, wanted)

        step = max(1, min(ROWS, -(-len(Phi) // n_threads())))
        with own_threads():
            for_each(look_up, [(rows,) for rows in spans(len(Phi), step)])
        return rank(best, scores)

    def scores(self, Phi: Array, labels: Array) -> Array:
        """The scores of the ``labels`` (n × m) of every row; -inf where the label is -1."""
        layout = self.layout
        place = np.empty(len(layout.labels), dtype=np.int64)
        place[layout.labels] = np.arange(len(layout.labels))
        out = np.empty(labels.shape, dtype=Phi.dtype)
        at = np.where(labels < 0, -1, place[labels])
        shares = spans(len(Phi), max(1, -(-len(Phi) // (4 * n_threads()))))
        for_each(_pairs, [(Phi[rows], layout.columns, at[rows], out[rows]) for rows in shares])
        return out


@dataclass(frozen=True)
class _Layout:
    """Columns by cluster."""

    labels: Array  # c, by cluster; rising within one
    bounds: Array  # where each cluster begins among them, and c
    columns: Array  # c × (D + 1), in the order of ``labels``, the bias last
    centres: Array  # C × (D + 1), the means of the clusters
    reach: Array  # C: how far beyond its mean a cluster's best may be, for a row of length one

    def look_up(self, Phi: Array, best: Array, scores: Array, look_at: int, wanted: Array | None) -> None:
        """Fill ``best`` and ``scores`` with what the rows find, cluster by cluster."""
        promise = Phi @ self.centres[:, :-1].T
        promise += self.centres[:, -1]
        promise += np.linalg.norm(Phi, axis=1, keepdims=True) * self.reach
        sizes = np.diff(self.bounds)
        if wanted is not None:
            sizes = np.diff(np.concatenate([[0], np.cumsum(wanted)])[self.bounds])
        visits = np.zeros(promise.shape, dtype=np.bool_)
        _choose(promise, sizes, look_at, visits)
        visitors = np.ascontiguousarray(visits.T)
        for cluster in np.flatnonzero(visitors.any(axis=1)):
            rows = np.flatnonzero(visitors[cluster])
            at: Any = slice(self.bounds[cluster], self.bounds[cluster + 1])
            if wanted is not None:
                at = at.start + np.flatnonzero(wanted[at])
            columns = self.columns[at]
            _keep_best(Phi[rows] @ columns[:, :-1].T, columns[:, -1], self.labels[at], rows, best, scores)


def _joined(decoder: Decoder) -> Array:
    """The decoder's columns as rows, each with its bias, c × (D + 1)."""
    size = decoder.weights.nbytes
    if 3 * size > memory.available():
        raise MemoryEstimateError(
            f"a shortlist of these labels takes {3 * size / 2**30:.1f} GiB while it is made, and "
            f"{memory.available() / 2**30:.1f} GiB is free; predict without one, or fit with fewer n_components"
        )
    weights = decoder.weights
    joined = np.empty((weights.shape[1], weights.shape[0] + 1), dtype=weights.dtype)
    for labels in spans(len(joined), LABELS):
        joined[labels, :-1] = weights[:, labels].T
    joined[:, -1] = decoder.bias
    return joined


def n_clusters(c: int) -> int:
    """Clusters for ``c`` labels: a row compares itself with all of them, and with the labels of a few."""
    return max(1, min(c, round(4.6 * c**0.5)))


def usual(c: int) -> int:
    """How many of ``c`` labels a row looks at where nobody says."""
    return min(c, max(LEAST, c // SHARE))


@njit(nogil=True, cache=True)
def _choose(promise: Array, sizes: Array, look_at: int, visits: Array) -> None:
    """Mark the clusters that promise most, for each row until they hold ``look_at`` labels.

    A heap gives the few best of many in order, for a tenth of the time that sorting all takes.
    """
    C = sizes.shape[0]
    heap = np.empty(C, np.int64)
    for i in range(promise.shape[0]):
        row = promise[i]
        heap[:] = np.arange(C)
        for start in range(C // 2 - 1, -1, -1):
            _sink(heap, row, start, C)
        found, left = 0, C
        while found < look_at and left > 0:
            cluster = heap[0]
            left -= 1
            heap[0] = heap[left]
            _sink(heap, row, 0, left)
            if sizes[cluster] > 0:
                visits[i, cluster] = True
                found += sizes[cluster]


@njit(nogil=True, cache=True)
def _sink(heap: Array, key: Array, at: int, size: int) -> None:
    """Let the entry at ``at`` down to where nothing below it has a larger key."""
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
def _keep_best(seen: Array, bias: Array, labels: Array, rows: Array, best: Array, scores: Array) -> None:
    """Put the labels of a cluster in their places among the best of each row; equal scores by label."""
    k = best.shape[1]
    for r in range(rows.shape[0]):
        owner, kept = best[rows[r]], scores[rows[r]]
        for j in range(labels.shape[0]):
            score, label = seen[r, j] + bias[j], labels[j]
            if not (score > kept[k - 1] or (score == kept[k - 1] and label < owner[k - 1])):
                continue
            at = k - 1
            while at > 0 and (score > kept[at - 1] or (score == kept[at - 1] and label < owner[at - 1])):
                kept[at], owner[at] = kept[at - 1], owner[at - 1]
                at -= 1
            kept[at], owner[at] = score, label


@njit(nogil=True, cache=True, fastmath={"contract", "reassoc"})
def _pairs(Phi: Array, columns: Array, at: Array, out: Array) -> None:
    """The score of each row with each of its own columns."""
    for i in range(at.shape[0]):
        for j in range(at.shape[1]):
            place = at[i, j]
            if place < 0:
                out[i, j] = -np.inf
                continue
            total = columns[place, Phi.shape[1]]
            for f in range(Phi.shape[1]):
                total += Phi[i, f] * columns[place, f]
            out[i, j] = total
