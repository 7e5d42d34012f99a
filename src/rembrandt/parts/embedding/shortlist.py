"""The shortlist index: clusters of a decoder's columns, searched for the largest scores.

A score is an inner product, ``[φ, 1]·[q, b]``, so labels with similar columns have similar scores.
The columns are clustered by k-means. A row scores the labels of the clusters with the highest
expected maximum until it has scored as many as requested; the scores are those of full decoding.
For a cluster of m columns with mean μ and root mean squared distance r the expected maximum is
``φ·μ + ‖φ‖ r √(2 ln m / D)``: the mean score, and how far the largest of m normal draws lies above
it. By the mean alone a cluster with one long column would come too late.
"""

import math
from dataclasses import dataclass

import numpy as np

from rembrandt import memory
from rembrandt.errors import MemoryEstimateError, ModelError
from rembrandt.forks import cached_property
from rembrandt.linalg import Array
from rembrandt.linalg.blocks import for_each_span, spans
from rembrandt.linalg.cluster_search import choose_clusters, merge_best
from rembrandt.linalg.kmeans import cluster_means, kmeans
from rembrandt.linalg.ranking import rank
from rembrandt.linalg.threads import n_threads, own_threads
from rembrandt.parts.embedding.decoders.decoder import Decoder
from rembrandt.progress import Report, silent

# Rows that a thread searches together: enough for a product with each cluster, few enough for the
# cache.
SEARCHED_BLOCK_ROWS = 2048
# Columns copied at a time, so that both layouts stay in the cache.
COPIED_BLOCK_COLUMNS = 4096
# Clusters over the square root of the number of labels.
CLUSTERS_PER_ROOT = 4.6
# Labels that a row scores by default, at least.
FEWEST_SCORED_LABELS = 1000
# Of more labels than that, one in this many.
SCORED_LABEL_STEP = 40


@dataclass(frozen=True)
class Shortlist:
    """The clusters of a decoder's columns; the layout for the search is made on first use."""

    decoder: Decoder
    clusters: Array  # c; all that a file needs beside the decoder

    @classmethod
    def build(cls, decoder: Decoder, report: Report = silent) -> "Shortlist":
        """Cluster the columns of ``decoder``."""
        joined = joined_columns(decoder)
        clusters = kmeans(joined, n_clusters(len(joined)), report=report)
        return cls(decoder, clusters.astype(np.int32))

    @classmethod
    def from_clusters(cls, decoder: Decoder, clusters: Array) -> "Shortlist":
        """Rebuild the index from the clusters of a saved model."""
        c = decoder.bias.shape[0]
        fits = clusters.shape == (c,) and clusters.dtype.kind == "i"
        if not fits or (c and not 0 <= clusters.min() <= clusters.max() < c):
            raise ModelError(
                f"the clusters do not belong to {c:,} labels; fit and save the model again"
            )
        return cls(decoder, clusters)

    @cached_property
    def layout(self) -> "_Layout":
        joined = joined_columns(self.decoder)
        sizes = np.bincount(self.clusters)
        divisors = np.maximum(sizes, 1)
        centres = cluster_means(joined, self.clusters)
        squares = _squared_lengths(joined).astype(np.float64)
        # The variance is the mean square minus the square of the mean.
        mean_squares = np.bincount(self.clusters, squares) / divisors
        spread = np.maximum(mean_squares - _squared_lengths(centres), 0)
        n_dimensions = joined.shape[1]
        reach = np.sqrt(spread * 2 * np.log(divisors) / n_dimensions)
        labels = np.argsort(self.clusters, kind="stable")
        ends = np.cumsum(sizes)
        return _Layout(
            labels=labels,
            bounds=np.concatenate([[0], ends]),
            columns=joined[labels],
            centres=centres,
            reach=reach.astype(joined.dtype),
        )

    def top_k(self, Phi: Array, k: int, n_scored: int) -> tuple[Array, Array]:
        """Return the ``k`` best of at least ``n_scored`` labels of each row and their scores, best
        first.

        Where there are fewer than ``k``, the label is -1 and the score -inf.
        """
        layout = self.layout
        n_rows = len(Phi)
        best = np.full((n_rows, k), -1, dtype=np.int64)
        scores = np.full((n_rows, k), -np.inf, dtype=Phi.dtype)

        def search(rows: slice) -> None:
            layout.search(Phi[rows], best[rows], scores[rows], n_scored)

        rows_of_thread = math.ceil(n_rows / n_threads())
        step = max(1, min(SEARCHED_BLOCK_ROWS, rows_of_thread))
        with own_threads():
            for_each_span(search, n_rows, step)
        return rank(best, scores)


@dataclass(frozen=True)
class _Layout:
    """Columns by cluster."""

    labels: Array  # c, by cluster; ascending within each
    bounds: Array  # where each cluster starts among them, and c
    columns: Array  # c × (D + 1), in the order of ``labels``, the bias last
    centres: Array  # C × (D + 1), the means of the clusters
    # C: expected distance of a cluster's best score from its mean, for a row of unit length
    reach: Array

    def search(self, Phi: Array, best: Array, scores: Array, n_scored: int) -> None:
        """Fill ``best`` and ``scores``, cluster by cluster."""
        lengths = np.linalg.norm(Phi, axis=1, keepdims=True)
        expected = Phi @ self.centres[:, :-1].T
        expected += self.centres[:, -1]
        expected += lengths * self.reach
        sizes = np.diff(self.bounds)
        visits = np.zeros(expected.shape, dtype=np.bool_)
        heap = np.empty(len(sizes), dtype=np.int64)
        choose_clusters(expected, sizes, n_scored, heap, visits)
        visitors = np.ascontiguousarray(visits.T)
        visited = np.flatnonzero(visitors.any(axis=1))
        for cluster in visited:
            rows = np.flatnonzero(visitors[cluster])
            at = slice(self.bounds[cluster], self.bounds[cluster + 1])
            labels = self.labels[at]
            weights = self.columns[at, :-1]
            bias = self.columns[at, -1]
            products = Phi[rows] @ weights.T
            merge_best(products, bias, labels, rows, best, scores)


def _squared_lengths(rows: Array) -> Array:
    return np.asarray(np.einsum("ij,ij->i", rows, rows))


def joined_columns(decoder: Decoder) -> Array:
    """Return the decoder's columns as rows, each with its bias, c × (D + 1)."""
    size = decoder.weights.nbytes
    if 3 * size > memory.available():
        raise MemoryEstimateError(
            f"building a shortlist of these labels takes {3 * size / 2**30:.1f} GiB, and "
            f"{memory.available() / 2**30:.1f} GiB is free; predict without one, or fit with fewer "
            "n_components"
        )
    weights = decoder.weights
    D, c = weights.shape
    joined = np.empty((c, D + 1), dtype=weights.dtype)
    for labels in spans(c, COPIED_BLOCK_COLUMNS):
        joined[labels, :-1] = weights[:, labels].T
    joined[:, -1] = decoder.bias
    return joined


def n_clusters(c: int) -> int:
    """Number of clusters for ``c`` labels: a row is compared with all clusters, and with the labels
    of a few.
    """
    n_wanted = round(CLUSTERS_PER_ROOT * math.sqrt(c))
    return max(1, min(c, n_wanted))


def default_size(c: int) -> int:
    """Number of ``c`` labels that a row scores by default."""
    return min(c, max(FEWEST_SCORED_LABELS, c // SCORED_LABEL_STEP))
