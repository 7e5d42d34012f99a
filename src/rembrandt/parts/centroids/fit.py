"""Label centroids: the mean direction of each label's examples, pruned to its largest entries."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from rembrandt.data.rows import Rows
from rembrandt.kernels import kernel
from rembrandt.linalg import Array
from rembrandt.linalg.blocks import spans
from rembrandt.linalg.selection import nth_smallest
from rembrandt.linalg.sparse import (
    as_csr,
    normalize_rows,
    row_sums_of_squares,
    scale_rows,
    select_entries,
    unit_rows,
)
from rembrandt.linalg.threads import for_each
from rembrandt.progress import Report, silent
from rembrandt.storage.arrays import as_half

# Largest entries of a centroid that are kept.
N_ENTRIES = 100
# Rows that are added up at a time.
SUMMED_BLOCK_ROWS = 1 << 15
# Blocks of labels whose sums are computed at the same time, whatever the number of threads.
LABEL_BLOCKS = 32
# Entries of the sums before small ones are dropped.
MAX_SUM_ENTRIES = 1 << 24


@dataclass(frozen=True)
class LabelSums:
    """Centroids of labels (c × d), and the lengths of the sums that they are the directions of."""

    centroids: sparse.csr_array
    lengths: Array

    @classmethod
    def of(cls, sums: sparse.csr_array, n_entries: int) -> "LabelSums":
        """Keep the largest entries of each sum, and scale them to unit length."""
        pruned = largest_entries(sums, n_entries)
        centroids = normalize_rows(pruned)
        centroids.data = as_half(centroids.data).astype(np.float32)  # as they are stored
        squares = row_sums_of_squares(pruned)
        lengths = np.sqrt(squares).astype(np.float32)
        return cls(centroids, lengths)

    def with_examples(
        self,
        X: Rows,
        Y: sparse.csr_array,
        weights: Array | None = None,
    ) -> "LabelSums":
        """Return the sums after more examples, whose labels are these and then new ones.

        Entries that were too small to be kept count as zero.
        """
        before = scale_rows(self.centroids, self.lengths.astype(np.float32))
        n_labels, n_features = self.centroids.shape
        n_new = Y.shape[1] - n_labels
        new = sparse.csr_array((n_new, n_features), dtype=np.float32)
        total = sparse.vstack([before, new], format="csr")
        total = total + label_sums(X, Y, weights)
        return LabelSums.of(as_csr(total), N_ENTRIES)


def label_centroids(
    X: Rows,
    Y: sparse.csr_array,
    n_entries: int = N_ENTRIES,
) -> sparse.csr_array:
    """Return the centroids of labels, c × d, with ``n_entries`` entries each at most."""
    sums = label_sums(X, Y, n_entries=n_entries)
    return LabelSums.of(sums, n_entries).centroids


def label_sums(
    X: Rows,
    Y: sparse.csr_array,
    weights: Array | None = None,
    report: Report = silent,
    n_entries: int = N_ENTRIES,
) -> sparse.csr_array:
    """Return the sum of the unit rows of each label's examples, c × d.

    Whenever the sums have more than `MAX_SUM_ENTRIES` entries, each label keeps its largest, so
    that memory is bounded.
    """
    n, d = X.shape
    n_labels = Y.shape[1]
    labels_of_block = -(-n_labels // LABEL_BLOCKS)
    label_spans = list(spans(n_labels, max(1, labels_of_block)))
    totals: list[Any] = []
    for span in label_spans:
        shape = (span.stop - span.start, d)
        totals.append(sparse.csr_array(shape, dtype=np.float32))
    affordable = MAX_SUM_ENTRIES // (2 * n_labels)
    n_kept = max(2 * n_entries, affordable)

    def add(number: int, by_label: sparse.csr_array, unit: sparse.csr_array) -> None:
        labels = label_spans[number]
        sums_of_block = by_label[labels] @ unit
        totals[number] = totals[number] + sums_of_block

    def prune(number: int) -> None:
        totals[number] = largest_entries(as_csr(totals[number]), n_kept)

    def sort(number: int) -> None:
        totals[number] = as_csr(totals[number])

    numbers = range(len(totals))
    each_block = [(number,) for number in numbers]
    for block, rows in X.blocks(SUMMED_BLOCK_ROWS):
        report("centroids", block.start, n)
        labels = Y[block]
        if weights is not None:
            labels = scale_rows(labels, weights[block])
        by_label = as_csr(labels.T, np.float32)
        unit = unit_rows(rows)
        for_each(add, [(number, by_label, unit) for number in numbers])
        n_sum_entries = sum(total.nnz for total in totals)
        if n_sum_entries > MAX_SUM_ENTRIES:
            for_each(prune, each_block)
    report("centroids", n, n)
    for_each(sort, each_block)
    return as_csr(sparse.vstack(totals, format="csr"))


def largest_entries(A: sparse.csr_array, n_entries: int) -> sparse.csr_array:
    """Keep the ``n_entries`` largest entries of every row by absolute value."""
    is_kept = np.zeros(A.nnz, dtype=bool)
    indptr = A.indptr.astype(np.int64, copy=False)
    longest = np.diff(indptr).max(initial=0)
    space = np.empty(longest, dtype=A.dtype)
    _mark_largest(indptr, np.abs(A.data), n_entries, is_kept, space)
    return select_entries(A, is_kept)


@kernel("void(int64[::1], float32[::1], int64, boolean[::1], float32[::1])", error_model="numpy")
def _mark_largest(
    indptr: Array, sizes: Array, n_entries: int, is_kept: Array, space: Array
) -> None:
    """Mark the largest entries of every row; ``space`` has room for the entries of a row."""
    for row in range(indptr.shape[0] - 1):
        first = indptr[row]
        n_stored = indptr[row + 1] - first
        if n_stored <= n_entries:
            for at in range(n_stored):
                is_kept[first + at] = True
            continue
        for at in range(n_stored):
            space[at] = sizes[first + at]
        limit = nth_smallest(space[:n_stored], n_stored - n_entries)
        n_missing = n_entries
        for at in range(first, first + n_stored):
            is_kept[at] = sizes[at] > limit
            n_missing -= is_kept[at]
        for at in range(first, first + n_stored):  # the first ones among equal values
            if n_missing > 0 and sizes[at] == limit:
                is_kept[at] = True
                n_missing -= 1
