"""Scores by label centroids: the cosine between a row and the mean direction of a label's
examples.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.data.arrays import move_columns
from rembrandt.forks import cached_property
from rembrandt.linalg import Array
from rembrandt.linalg.blocks import for_each_span
from rembrandt.linalg.inverted import add_lists, add_products, csr_arrays
from rembrandt.linalg.ranking import rank, top_k
from rembrandt.linalg.sparse import (
    Matrix,
    as_csr,
    row_sums_of_squares,
    select_entries,
    unit_rows,
)
from rembrandt.linalg.threads import Workspace
from rembrandt.parts.contributions import Contributions
from rembrandt.parts.protocol import Facts, Labels, Part
from rembrandt.storage.arrays import Arrays, checked, pack_csr, unpack_csr

# Rows scored by one call.
CALL_ROWS = 256
# Labels from which an exact search is slow: candidates are found by the heavy entries of a row.
MANY_LABELS = 20_000
# Share of the mean square of a row's entries from which one is heavy: those are mostly rare words,
# which few labels have.
HEAVY_SHARE = 0.3
# Candidates per label asked for, whose exact cosines are then computed.
CANDIDATES_PER_LABEL = 2
# Cosines computed by one call, which stay in the cache.
CALL_COSINES = 1 << 20


@dataclass(frozen=True)
class Centroids(Part):
    """The mean direction of each label's examples (c × d, sparse), pruned to its largest entries.

    A score is a cosine. It lies between 0 and 1 for features that are not negative, so it is also
    the likelihood.
    """

    learns_columns: ClassVar[bool] = True

    centroids: sparse.csr_array
    lengths: Array  # of the sums of unit rows, for updates

    @property
    def n_labels(self) -> int:
        return int(self.centroids.shape[0])

    @property
    def n_features(self) -> int:
        return int(self.centroids.shape[1])

    @cached_property
    def _by_feature(self) -> sparse.csr_array:
        return as_csr(self.centroids.T)

    def prepare(self, X: Matrix) -> sparse.csr_array:
        """Return the rows with unit length."""
        return unit_rows(X)

    def top(self, rows: sparse.csr_array, k: int) -> tuple[Labels, Array]:
        """Return the labels with the largest cosines; of many labels, nearly all of them."""
        if self.n_labels < MANY_LABELS:
            return self._search(rows, k)
        heavy = heavy_entries(rows)
        n_candidates = CANDIDATES_PER_LABEL * k
        candidates, _ = self._search(heavy, n_candidates)
        cosines = self.at(rows, candidates)
        labels, scores = rank(candidates, cosines)
        return labels[:, :k], scores[:, :k]

    def _search(self, rows: sparse.csr_array, k: int) -> tuple[Labels, Array]:
        """Return the labels with the largest of all cosines."""
        n = rows.shape[0]
        X = csr_arrays(rows)
        lists = csr_arrays(self._by_feature)
        best = np.full((n, k), -1, dtype=np.int64)
        scores = np.full((n, k), -np.inf, dtype=np.float32)

        def fill(span: slice) -> None:
            shape = (span.stop - span.start, self.n_labels)
            cosines = np.zeros(shape, dtype=np.float32)
            add_lists(X, span.start, lists, cosines)
            best[span], scores[span] = top_k(cosines, k)

        affordable = CALL_COSINES // self.n_labels
        step = max(1, min(CALL_ROWS, affordable))
        for_each_span(fill, n, step)
        return best, scores

    def at(self, rows: sparse.csr_array, labels: Labels) -> Array:
        n = rows.shape[0]
        X = csr_arrays(rows)
        centroids = csr_arrays(self.centroids)
        labels = np.ascontiguousarray(labels)
        cosines = np.where(labels < 0, np.float32(-np.inf), np.float32(0))
        space = Workspace(lambda: np.zeros(self.n_features, dtype=np.float32))

        def fill(span: slice) -> None:
            with space.borrowed() as dense:
                add_products(X, span.start, labels[span], centroids, dense, cosines[span])

        for_each_span(fill, n, CALL_ROWS)
        return cosines

    def every(self, rows: sparse.csr_array) -> Array:
        """See `Part`. Cosines are computed by inverted lists."""
        n = rows.shape[0]
        X = csr_arrays(rows)
        lists = csr_arrays(self._by_feature)
        cosines = np.zeros((n, self.n_labels), dtype=np.float32)

        def add(span: slice) -> None:
            add_lists(X, span.start, lists, cosines[span])

        for_each_span(add, n, CALL_ROWS)
        return cosines

    def label_weights(self) -> sparse.csr_array:
        return self.centroids

    def label_directions(self) -> sparse.csr_array:
        return self.centroids

    def with_columns(self, columns: NDArray[np.int64], n_features: int) -> "Centroids":
        centroids = move_columns(self.centroids, columns, n_features)
        return replace(self, centroids=centroids)

    def explain(self, row: sparse.csr_array, labels: Labels) -> Contributions:
        unit = unit_rows(row).astype(np.float64)
        weights = self.centroids[labels][:, unit.indices].toarray().T
        base = np.zeros(len(labels))
        values = weights * unit.data[:, None]
        return Contributions(base, values)

    def arrays(self) -> tuple[Arrays, Facts]:
        arrays = pack_csr("centroids", self.centroids)
        arrays["lengths"] = self.lengths
        return arrays, {}

    @classmethod
    def from_arrays(cls, arrays: Arrays, facts: Facts) -> "Centroids":
        centroids = unpack_csr("centroids", arrays)
        n_labels, _ = centroids.shape
        lengths = checked("lengths", arrays, (n_labels,), "f", 0)
        return cls(centroids, lengths)


def heavy_entries(A: sparse.csr_array, share: float = HEAVY_SHARE) -> sparse.csr_array:
    """Keep the entries whose square is at least this share of the mean square in their row."""
    sizes = np.diff(A.indptr)
    squares = A.data.astype(np.float64) ** 2
    sums = row_sums_of_squares(A)
    limits = share * sums / np.maximum(sizes, 1)
    is_heavy = squares >= np.repeat(limits, sizes)
    return select_entries(A, is_heavy)
