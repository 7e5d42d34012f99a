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
from scipy import sparse

from rembrandt.kernels import kernel
from rembrandt.linalg import Array, Arrays
from rembrandt.linalg.blocks import spans
from rembrandt.linalg.sparse import add_rows, short_indices
from rembrandt.linalg.threads import for_each, n_threads

# Rows of A in a block; their numbers within it have 16 bits.
TRANSPOSED_BLOCK_ROWS = 16_384

# Columns of U at a time: with the rows of a block, eight megabytes of the cache.
SLAB_COLUMNS = 128

# Non-zeros from which the costs of columns are estimated, in runs from all over the matrix.
SAMPLED_NONZEROS = 1 << 18
SAMPLED_RUNS = 16

# Cost of writing a run to the result, relative to gathering one non-zero from the cache.
RUN_COST = 4


@kernel(
    "void(Tuple((int64[::1], int32[::1], float32[::1])), int64, int64, "
    "Tuple((uint16[::1], float32[::1], int32[::1], int64[::1], int64[::1])), int32[::1])"
)
def _sort_block(A: Arrays, step: int, block: int, out: Arrays, position: Array) -> None:
    """Sort the non-zeros of one block by column, into runs of one column each.

    ``position`` has a zero for each column. Sorting by counting takes a fifth of the time of a
    comparison sort, so that a layout can be made in every pass.
    """
    indptr, indices, data = A
    rows, values, run_column, run_start, run_end = out
    n_rows = indptr.shape[0] - 1
    first = block * step
    last = min((block + 1) * step, n_rows)
    begin = indptr[first]
    end = indptr[last]
    n_columns = position.shape[0]
    for at in range(begin, end):
        position[np.uint32(indices[at])] += 1
    run = begin + block
    so_far = begin
    for column in range(n_columns):
        count = position[column]
        if count:
            run_column[run] = column
            run_start[run] = so_far
            run += 1
            position[column] = so_far - begin
            so_far += count
    run_start[run] = so_far
    run_end[block] = run
    for row in range(first, last):
        for source in range(indptr[row], indptr[row + 1]):
            target = np.uint32(indices[source])
            at = begin + position[target]
            position[target] += 1
            rows[at] = row - first
            values[at] = data[source]


def _sort_blocks(A: sparse.csr_array, step: int) -> Arrays:
    """Sort the non-zeros by block and column.

    Return them, the runs, and where the runs of each block begin and end. A block has room for as
    many runs as non-zeros, and one for the end; pages that are not written take no memory.
    """
    n_rows, n_columns = A.shape
    n_blocks = -(-n_rows // step)
    rows = np.empty(A.nnz, np.uint16)
    values = np.empty(A.nnz, A.dtype)
    run_column = np.empty(A.nnz + n_blocks, np.int32)
    run_start = np.empty(A.nnz + n_blocks, np.int64)
    run_end = np.zeros(n_blocks, np.int64)
    indptr = A.indptr.astype(np.int64, copy=False)
    source = (indptr, short_indices(A), A.data)
    target = (rows, values, run_column, run_start, run_end)

    def sort(block: int) -> None:
        position = np.zeros(n_columns, np.int32)
        _sort_block(source, step, block, target, position)

    for_each(sort, ((block,) for block in range(n_blocks)))
    numbers = np.arange(n_blocks)
    run_begin = indptr[numbers * step] + numbers
    return rows, values, run_column, run_start, run_begin, run_end


@kernel(error_model="numpy", inline="always")
def _first_at_least(columns: Array, low: int, high: int, column: int) -> int:
    """The first position from ``low`` to ``high`` that has ``column`` or a larger one."""
    while low < high:
        middle = (low + high) >> 1
        if columns[middle] < column:
            low = middle + 1
        else:
            high = middle
    return low


# What `_sort_blocks` returns.
_LAYOUT = "Tuple((uint16[::1], float32[::1], int32[::1], int64[::1], int64[::1], int64[::1]))"


@kernel(
    # A result that has one slab of columns is contiguous, and a slab of a wider one is not.
    f"void({_LAYOUT}, int64, float32[:,::1], float32[:,::1], float32[::1], int64, int64)",
    f"void({_LAYOUT}, int64, float32[:,::1], float32[:,:], float32[::1], int64, int64)",
    fastmath={"contract"},
    error_model="numpy",
)
def _sum_columns(
    layout: Arrays,
    step: int,
    U: Array,
    out: Array,
    total: Array,
    first_column: int,
    last_column: int,
) -> None:
    """``out[column] += Σ value · U[row]`` for columns from ``first_column`` to ``last_column``.

    ``total`` is work space, a number for each column of U.
    """
    rows, values, run_column, run_start, run_begin, run_end = layout
    k = U.shape[1]
    for block in range(run_begin.shape[0]):
        begin = run_begin[block]
        end = run_end[block]
        first = _first_at_least(run_column, begin, end, first_column)
        last = _first_at_least(run_column, begin, end, last_column)
        block_U = U[block * step :]
        for run in range(first, last):
            for j in range(k):
                total[j] = 0
            add_rows(total, block_U, rows, values, run_start[run], run_start[run + 1])
            into = out[run_column[run]]
            for j in range(k):
                into[j] += total[j]


@dataclass(frozen=True)
class Transposed:
    """A sparse matrix laid out for products with its transpose; about as large as the matrix."""

    shape: tuple[int, int]  # of the transpose
    step: int  # rows in a block
    layout: Arrays  # what `_sort_blocks` returns
    column_costs: Array

    @classmethod
    def of(cls, A: sparse.csr_array) -> "Transposed":
        """Lay out a CSR matrix."""
        n_rows, n_columns = A.shape
        step = min(TRANSPOSED_BLOCK_ROWS, 1 << 16)
        return cls(
            shape=(n_columns, n_rows),
            step=step,
            layout=_sort_blocks(A, step),
            column_costs=_column_costs(A, step),
        )

    def __matmul__(self, U: Array) -> Array:
        values = self.layout[1]
        dtype = np.result_type(values.dtype, U.dtype)
        out = np.zeros((self.shape[0], U.shape[1]), dtype=dtype)
        self.add_to(out, U)
        return out

    def add_to(self, out: Array, U: Array) -> None:
        """``out += Aᵀ U``; only rows of the columns that A has are written."""
        shares = self._shares()
        for columns in spans(U.shape[1], SLAB_COLUMNS):
            slab = np.ascontiguousarray(U[:, columns], dtype=out.dtype)
            into = out[:, columns]
            calls = []
            for first, last in shares:
                total = np.empty(slab.shape[1], out.dtype)
                calls.append((self.layout, self.step, slab, into, total, first, last))
            for_each(_sum_columns, calls)

    def _shares(self) -> list[tuple[int, int]]:
        """Cut the columns into one share for each thread, of about equal cost."""
        n_columns = self.shape[0]
        running_costs = np.cumsum(self.column_costs)
        total_cost = int(running_costs[-1]) if n_columns > 0 else 0
        equal_costs = np.linspace(0, total_cost, n_threads() + 1)
        cuts = np.searchsorted(running_costs, equal_costs[1:-1])
        edges = np.unique(np.concatenate([[0], cuts + 1, [n_columns]]))
        return list(pairwise(edges.tolist()))


def _column_costs(A: sparse.csr_array, step: int) -> Array:
    """Estimate the cost of each column from a sample of the non-zeros.

    Writing a run to the result costs about as much as gathering a few non-zeros from the cache.
    """
    n_rows, n_columns = A.shape
    sample = A.indices
    if A.nnz > SAMPLED_NONZEROS:
        length = SAMPLED_NONZEROS // SAMPLED_RUNS
        starts = np.linspace(0, A.nnz - length, SAMPLED_RUNS).astype(np.int64)
        sample = np.concatenate([A.indices[start : start + length] for start in starts])
    share = len(sample) / max(1, A.nnz)
    counts = np.bincount(sample, minlength=n_columns)
    n_blocks = -(-n_rows // step)
    n_runs = np.minimum(counts, share * n_blocks)
    return counts + RUN_COST * n_runs
