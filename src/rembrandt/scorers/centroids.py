"""Scores by label centroids: the cosine between a row and the mean direction of a label's
examples.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numba import njit
from scipy import sparse

from rembrandt.data.rows import Rows
from rembrandt.linalg.blocks import spans
from rembrandt.linalg.inverted import add_lists, add_products, csr_arrays
from rembrandt.linalg.ranking import rank, top_k
from rembrandt.linalg.sparse import (
    Matrix,
    as_csr,
    normalize_rows,
    row_sums_of_squares,
    scale_rows,
    unit_rows,
)
from rembrandt.linalg.threads import Workspace, for_each
from rembrandt.progress import Report, silent
from rembrandt.scorers.explanations import Contributions
from rembrandt.scorers.protocol import Array, Labels, Scorer
from rembrandt.storage.arrays import Arrays, as_half, checked, pack_csr, unpack_csr

KEPT = 100  # largest entries of a centroid that are kept
SUMMED = 1 << 15  # rows added up at a time
ENTRIES = 1 << 24  # of the sums, before small ones are dropped
BLOCK = 256  # rows scored by one call
# Labels above which an exact search is slow: candidates are found by the heavy entries of a row
MANY = 20_000
# Of the mean square of a row's entries: those above it are mostly rare words, which few labels have
HEAVY = 0.3
WIDER = 2  # candidates per label asked for; their exact cosines are then computed
SCORES = 1 << 20  # cosines computed by one call, which stay in the cache


@dataclass(frozen=True)
class Centroids(Scorer):
    """The mean direction of each label's examples (c × d, sparse), pruned to its largest entries.

    A score is a cosine. It lies between 0 and 1 for features that are not negative, so it is also
    the likelihood.
    """

    centroids: sparse.csr_array
    lengths: Array | None = None  # of the sums of unit rows, for updates

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
        if self.n_labels < MANY:
            return self._search(rows, k)
        candidates, _ = self._search(heavy_entries(rows, HEAVY), WIDER * k)
        best, scores = rank(candidates, self.at(rows, candidates))
        return best[:, :k], scores[:, :k]

    def _search(self, rows: sparse.csr_array, k: int) -> tuple[Labels, Array]:
        lists = csr_arrays(self._by_feature)
        n = rows.shape[0]
        best = np.full((n, k), -1, dtype=np.int64)
        scores = np.full((n, k), -np.inf, dtype=np.float32)

        def fill(part: slice) -> None:
            cosines = np.zeros((part.stop - part.start, self.n_labels), dtype=np.float32)
            add_lists(csr_arrays(rows), part.start, lists, cosines)
            best[part], scores[part] = top_k(cosines, k)

        for_each(fill, ((part,) for part in spans(n, max(1, min(BLOCK, SCORES // self.n_labels)))))
        return best, scores

    def at(self, rows: sparse.csr_array, labels: Labels) -> Array:
        out = np.where(labels < 0, np.float32(-np.inf), np.float32(0))
        space = Workspace(lambda: np.zeros(self.n_features, dtype=np.float32))

        def fill(part: slice) -> None:
            with space.borrowed() as dense:
                work = (labels[part], csr_arrays(self.centroids), dense, out[part])
                add_products(csr_arrays(rows), part.start, *work)

        for_each(fill, ((part,) for part in spans(rows.shape[0], BLOCK)))
        return out

    def every(self, rows: sparse.csr_array) -> Array:
        """See `Scorer`. Cosines are computed by inverted lists."""
        cosines = np.zeros((rows.shape[0], self.n_labels), dtype=np.float32)
        lists = csr_arrays(self._by_feature)

        def add(span: slice) -> None:
            add_lists(csr_arrays(rows), span.start, lists, cosines[span])

        for_each(add, ((span,) for span in spans(rows.shape[0], BLOCK)))
        return cosines

    def label_weights(self) -> sparse.csr_array:
        """Return the weights of the features for each label, c × d."""
        return self.centroids

    def explain(
        self, row: sparse.csr_array, labels: Labels, likelihood: bool = False
    ) -> Contributions:
        unit = unit_rows(row).astype(np.float64)
        weights = self.centroids[labels][:, unit.indices].toarray().T
        return Contributions(np.zeros(len(labels)), weights * unit.data[:, None])

    def arrays(self) -> tuple[Arrays, dict[str, Any]]:
        lengths = {} if self.lengths is None else {"lengths": self.lengths}
        return pack_csr("centroids", self.centroids) | lengths, {}

    @classmethod
    def from_arrays(cls, arrays: Arrays, facts: dict[str, Any]) -> "Centroids":
        centroids = unpack_csr("centroids", arrays)
        lengths = (
            checked("lengths", arrays, centroids.shape[:1], "f", 0) if "lengths" in arrays else None
        )
        return cls(centroids, lengths)


def fit_centroids(
    X: Rows,
    Y: sparse.csr_array,
    weights: Array | None = None,
    report: Report = silent,
    kept: int = KEPT,
) -> Centroids:
    """Sum the unit rows of each label's examples, keep the largest entries, and scale to unit
    length.
    """
    return _of_sums(label_sums(X, Y, weights, report, kept), kept)


def add_rows(
    before: Centroids,
    counts: Array,
    X: Rows,
    Y: sparse.csr_array,
    weights: Array | None = None,
    kept: int = KEPT,
) -> Centroids:
    """Return the centroids after more examples, whose labels are those of ``before`` and then new
    ones.

    Entries that were too small to be kept count as zero. ``counts`` of examples stand for unknown
    lengths of sums.
    """
    lengths = counts if before.lengths is None else before.lengths
    sums = scale_rows(before.centroids, lengths.astype(np.float32))
    new = sparse.csr_array((Y.shape[1] - before.n_labels, before.n_features), dtype=np.float32)
    total = sparse.vstack([sums, new], format="csr") + label_sums(X, Y, weights, kept=kept)
    return _of_sums(as_csr(total), kept)


def label_sums(
    X: Rows,
    Y: sparse.csr_array,
    weights: Array | None = None,
    report: Report = silent,
    kept: int = KEPT,
) -> sparse.csr_array:
    """Return the sum of the unit rows of each label's examples, c × d.

    Whenever the sums have more than `ENTRIES` entries, each label keeps its largest, so that memory
    is bounded.
    """
    total: Any = sparse.csr_array((Y.shape[1], X.shape[1]), dtype=np.float32)
    room = max(2 * kept, ENTRIES // (2 * Y.shape[1]))  # entries of a label
    for part, rows in X.blocks(SUMMED):
        report("centroids", part.start, X.shape[0])
        labels = Y[part] if weights is None else scale_rows(Y[part], weights[part])
        total = total + as_csr(labels.T, np.float32) @ unit_rows(rows)
        if total.nnz > ENTRIES:
            total = largest_entries(as_csr(total), room)
    report("centroids", X.shape[0], X.shape[0])
    return as_csr(total)


def _of_sums(total: sparse.csr_array, kept: int) -> Centroids:
    pruned = largest_entries(total, kept)
    found = normalize_rows(pruned)
    found.data = as_half(found.data).astype(np.float32)  # as they are stored
    return Centroids(found, np.sqrt(row_sums_of_squares(pruned)).astype(np.float32))


def largest_entries(A: sparse.csr_array, kept: int) -> sparse.csr_array:
    """Keep the ``kept`` largest entries of every row by absolute value."""
    chosen = np.zeros(A.nnz, dtype=np.bool_)
    _mark_largest(A.indptr, np.abs(A.data), kept, chosen)
    return _selected(A, chosen)


def heavy_entries(A: sparse.csr_array, share: float) -> sparse.csr_array:
    """Keep the entries whose square is at least this share of the mean square in their row."""
    sizes, squares = np.diff(A.indptr), A.data.astype(np.float64) ** 2
    limits = share * row_sums_of_squares(A) / np.maximum(sizes, 1)
    return _selected(A, squares >= np.repeat(limits, sizes))


def _selected(A: sparse.csr_array, chosen: Array) -> sparse.csr_array:
    kept = np.flatnonzero(chosen)
    return as_csr(
        sparse.csr_array(
            (A.data[kept], A.indices[kept], np.searchsorted(kept, A.indptr)), shape=A.shape
        )
    )


@njit(nogil=True, cache=True)
def _mark_largest(indptr: Array, sizes: Array, kept: int, chosen: Array) -> None:
    for row in range(len(indptr) - 1):
        first, last = indptr[row], indptr[row + 1]
        if last - first <= kept:
            chosen[first:last] = True
        else:
            limit = np.partition(sizes[first:last], last - first - kept)[last - first - kept]
            chosen[first:last] = sizes[first:last] > limit
            missing = kept - chosen[first:last].sum()
            for at in range(first, last):  # the first ones among equal values
                if missing > 0 and sizes[at] == limit:
                    chosen[at] = True
                    missing -= 1
