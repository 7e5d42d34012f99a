"""Transposed sparse times dense on several threads; the result does not depend on their number.

``Aᵀ @ U`` sums, for each column of A, the rows of U in which it occurs. Over the whole matrix those
rows come from main memory. So A is cut into blocks of rows whose part of U stays in the cache, and
within a block the non-zeros are sorted by column: what a block adds to a column is gathered from
the cache, and the result is written once for each column and block instead of once for each
non-zero. Threads own columns, in shares of equal cost. The blocks of a column are added in order,
in short sums, to limit the rounding errors of float32.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numba import njit
from scipy import sparse

from rembrandt.linalg import Array
from rembrandt.linalg.blocks import spans
from rembrandt.linalg.sparse import add_rows
from rembrandt.linalg.threads import for_each, n_threads

ROWS = 16_384  # rows of A in a block
SAMPLE = 1 << 18  # non-zeros from which the cost of columns is estimated
SLAB = 128  # columns of U at a time: eight megabytes with ROWS rows


@njit(nogil=True, cache=True)
def _sort_block(
    A: tuple[Array, ...], n_columns: int, step: int, block: int, out: tuple[Array, ...]
) -> None:
    """Sort the non-zeros of one block by column, into runs of one column each.

    Sorting by counting takes a fifth of the time of a comparison sort, so that a layout can be made
    in every pass.
    """
    indptr, indices, data = A
    rows, values, run_column, run_start, run_end = out
    n = indptr.shape[0] - 1
    first, last = block * step, min((block + 1) * step, n)
    begin, end = indptr[first], indptr[last]
    position = np.zeros(n_columns, np.int32)
    for at in range(begin, end):
        position[np.uint32(indices[at])] += 1
    run, so_far = begin + block, begin
    for column in range(n_columns):
        count = position[column]
        if count:
            run_column[run], run_start[run] = column, so_far
            run += 1
            position[column] = so_far - begin
            so_far += count
    run_start[run] = so_far
    run_end[block] = run
    for row in range(first, last):
        for source in range(indptr[row], indptr[row + 1]):
            into = np.uint32(indices[source])
            at = begin + position[into]
            position[into] += 1
            rows[at], values[at] = row - first, data[source]


def _sort_blocks(A: sparse.csr_array, step: int) -> tuple[Array, ...]:
    """Sort the non-zeros by block and column; return them, the runs, and where the runs of each
    block begin and end.

    A block has room for as many runs as non-zeros, and one for the end; pages that are not written
    take no memory.
    """
    (n, d), nnz = A.shape, A.nnz
    indptr = A.indptr.astype(np.int64, copy=False)
    blocks = -(-n // step)
    rows, values = np.empty(nnz, np.uint16), np.empty(nnz, A.dtype)
    run_column, run_start = np.empty(nnz + blocks, np.int32), np.empty(nnz + blocks, np.int64)
    run_end = np.zeros(blocks, np.int64)
    into = (rows, values, run_column, run_start, run_end)
    for_each(
        _sort_block,
        (((indptr, A.indices, A.data), d, step, block, into) for block in range(blocks)),
    )
    numbers = np.arange(blocks)
    return rows, values, run_column, run_start, indptr[numbers * step] + numbers, run_end


@njit(nogil=True, cache=True, fastmath={"contract"}, error_model="numpy")
def _sum_columns(
    layout: tuple[Array, ...], step: int, U: Array, out: Array, first_column: int, last_column: int
) -> None:
    """``out[column] += Σ value · U[row]`` for the columns from ``first_column`` to ``last_column``
    of A.
    """
    rows, values, run_column, run_start, run_begin, run_end = layout
    k = U.shape[1]
    part = np.zeros(k, out.dtype)
    for block in range(run_begin.shape[0]):
        columns = run_column[run_begin[block] : run_end[block]]
        first = run_begin[block] + np.searchsorted(columns, first_column)
        last = run_begin[block] + np.searchsorted(columns, last_column)
        near = U[block * step :]
        for run in range(first, last):
            part[:] = 0
            add_rows(part, near, rows, values, run_start[run], run_start[run + 1])
            into = out[run_column[run]]
            for j in range(k):
                into[j] += part[j]


@dataclass(frozen=True)
class Transposed:
    """A sparse matrix laid out for products with its transpose; about as large as the matrix."""

    shape: tuple[int, int]  # of the transpose
    step: int  # rows in a block
    layout: tuple[
        Array, ...
    ]  # rows within their block, values, columns and starts of runs, runs of each block
    column_costs: Array

    @classmethod
    def of(cls, A: sparse.csr_array) -> "Transposed":
        n, d = A.shape
        step = min(ROWS, 1 << 16)
        return cls((d, n), step, _sort_blocks(A, step), _column_costs(A, step))

    def __matmul__(self, U: Array) -> Array:
        dtype = np.result_type(self.layout[1].dtype, U.dtype)
        out = np.zeros((self.shape[0], U.shape[1]), dtype=dtype)
        self.add_to(out, U)
        return out

    def add_to(self, out: Array, U: Array) -> None:
        """``out += Aᵀ U``; only rows of the columns that A has are written."""
        shares = self._shares()
        for columns in spans(U.shape[1], SLAB):
            slab = np.ascontiguousarray(U[:, columns], dtype=out.dtype)
            into = out[:, columns]
            for_each(
                _sum_columns,
                ((self.layout, self.step, slab, into, first, last) for first, last in shares),
            )

    def _shares(self) -> list[tuple[int, int]]:
        """Cut the columns into one share for each thread, of about equal cost."""
        running = np.cumsum(self.column_costs)
        total = int(running[-1]) if len(running) else 0
        cuts = np.searchsorted(running, np.linspace(0, total, n_threads() + 1)[1:-1])
        edges = np.unique(np.concatenate([[0], cuts + 1, [self.shape[0]]]))
        return [(int(a), int(b)) for a, b in pairwise(edges)]


def _column_costs(A: sparse.csr_array, step: int) -> Array:
    """Estimate the cost of each column from a sample of the non-zeros.

    Writing a run to the result costs about as much as gathering a few non-zeros from the cache.
    """
    n, d = A.shape
    seen = A.indices
    if A.nnz > SAMPLE:
        starts = np.linspace(0, A.nnz - SAMPLE // 16, 16).astype(np.int64)
        seen = np.concatenate([A.indices[start : start + SAMPLE // 16] for start in starts])
    share = len(seen) / max(1, A.nnz)
    counts = np.bincount(seen, minlength=d)
    return counts + 4 * np.minimum(counts, share * -(-n // step))
