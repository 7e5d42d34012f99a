"""Sparse times dense on several threads; the result does not depend on their number.

``A @ Z`` gathers rows of Z. SciPy does it on one thread; here the non-zeros are cut into pieces of
about equal size. A long row is cut, too, at fixed distances from its own start, so that its product
does not depend on the rows around it. A piece that starts inside a row keeps its part of that row
apart, and these parts are added in order at the end. Products with the transpose are in
`transposed`.
"""

from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from rembrandt.kernels import kernel
from rembrandt.linalg import Array, Floats, Indices
from rembrandt.linalg.blocks import for_each_span
from rembrandt.linalg.threads import for_each, n_threads

Matrix = Any  # a SciPy CSR matrix or a NumPy array

# Non-zeros of a piece: enough to amortise a call, few enough to balance threads and to sum well in
# float32.
PIECE_NONZEROS = 16_384

# Columns per non-zero above which work over all columns is avoided.
WIDE_RATIO = 32

# Rows that one thread sorts.
SORTED_ROWS = 128

# Calls per thread, so that a thread that is done early can help the others.
CALLS_PER_THREAD = 8


@kernel(inline="always")
def add_rows(into: Array, Z: Array, rows: Array, values: Array, at: int, end: int) -> None:
    """``into += Σ value · Z[row]`` over the entries from ``at`` to ``end``.

    Four at a time: one load and one store of the result for four rows of Z.
    """
    while at + 4 <= end:
        v0 = values[at]
        v1 = values[at + 1]
        v2 = values[at + 2]
        v3 = values[at + 3]
        z0 = Z[rows[at]]
        z1 = Z[rows[at + 1]]
        z2 = Z[rows[at + 2]]
        z3 = Z[rows[at + 3]]
        for j in range(Z.shape[1]):
            into[j] += v0 * z0[j] + v1 * z1[j] + v2 * z2[j] + v3 * z3[j]
        at += 4
    while at < end:
        v0 = values[at]
        z0 = Z[rows[at]]
        for j in range(Z.shape[1]):
            into[j] += v0 * z0[j]
        at += 1


@kernel(
    # Z may be written, or belong to a model that was loaded.
    *(
        f"void(int64[::1], int32[::1], float32[::1], {Z}, float32[:,::1], float32[:,::1], "
        "int64[::1], int64[::1], int64, int64)"
        for Z in ("float32[:,::1]", "Array(float32, 2, 'C', True)")
    ),
    fastmath={"contract"},
    error_model="numpy",
)
def _multiply_pieces(
    indptr: Array,
    indices: Array,
    data: Array,
    Z: Array,
    out: Array,
    aside: Array,
    cuts: Array,
    rows: Array,
    first: int,
    last: int,
) -> None:
    """``out[row] = Σ data · Z[index]`` for the non-zeros of pieces ``first`` to ``last``.

    ``rows`` are the rows that pieces start in. What a piece adds to a row that began in the piece
    before it goes to ``aside``.
    """
    for p in range(first, last):
        at = cuts[p]
        stop = cuts[p + 1]
        row = rows[p]
        while at < stop:
            while indptr[row + 1] <= at:
                row += 1
            end = min(indptr[row + 1], stop)
            into = out[row] if at == indptr[row] else aside[p]
            add_rows(into, Z, indices, data, at, end)
            at = end


def is_sparse(A: Any) -> bool:
    """Return whether ``A`` is a sparse matrix or array of SciPy."""
    return bool(sparse.issparse(A))


def csr_matmul(A: sparse.csr_array, Z: Array) -> Array:
    """``A @ Z`` for a CSR matrix and a dense block, in the wider of their two precisions."""
    dtype = np.result_type(A.dtype, Z.dtype)
    n_rows = A.shape[0]
    n_columns = Z.shape[1]
    out = np.zeros((n_rows, n_columns), dtype=dtype)
    if A.nnz == 0 or n_columns == 0:
        return out
    Z = np.ascontiguousarray(Z, dtype=dtype)
    indptr = A.indptr.astype(np.int64, copy=False)
    indices = short_indices(A)
    cuts = _piece_cuts(indptr)
    starts = cuts[:-1]
    n_pieces = len(starts)
    rows = np.searchsorted(indptr, starts, side="right") - 1
    aside = np.zeros((n_pieces, n_columns), dtype=dtype)
    data = A.data

    def multiply(first: int, last: int) -> None:
        _multiply_pieces(indptr, indices, data, Z, out, aside, cuts, rows, first, last)

    n_calls = min(n_pieces, CALLS_PER_THREAD * n_threads())
    bounds = np.linspace(0, n_pieces, n_calls + 1)
    bounds = np.unique(bounds.astype(np.int64))
    for_each(multiply, pairwise(bounds))

    # Add what pieces that start inside a row kept apart.
    starts_inside = indptr[rows] < starts
    np.add.at(out, rows[starts_inside], aside[starts_inside])
    return out


def _piece_cuts(indptr: Indices) -> Indices:
    """Return where the pieces of the non-zeros start, and the number of non-zeros.

    Short rows are whole. A row with more than `PIECE_NONZEROS` is cut at multiples of that number,
    counted from its start.
    """
    n_nonzeros = int(indptr[-1])
    targets = np.arange(0, n_nonzeros, PIECE_NONZEROS)
    first_rows = np.searchsorted(indptr, targets)
    cuts: list[Any] = [indptr[first_rows], [n_nonzeros]]
    row_sizes = np.diff(indptr)
    long_rows = np.flatnonzero(row_sizes > PIECE_NONZEROS)
    for row in long_rows.tolist():  # few: each has more non-zeros than a piece
        start = indptr[row]
        end = indptr[row + 1]
        cuts.append(np.arange(start, end, PIECE_NONZEROS))
        cuts.append([end])
    all_cuts = np.concatenate(cuts)
    return np.unique(all_cuts).astype(np.int64)


def matmul(A: Matrix, Z: Array) -> Array:
    """``A @ Z`` for sparse or dense ``A``."""
    if is_sparse(A):
        return csr_matmul(A, Z)
    return A @ Z


# Other types of indices are unknown to the compiled functions of SciPy.
_INDEX_TYPES = {np.dtype(np.int32), np.dtype(np.int64)}


def csr_of(A: Any, dtype: Any = None) -> sparse.csr_array:
    """``A`` as CSR with indices of a type that SciPy takes; entries may be in any order."""
    A = sparse.csr_array(A, dtype=dtype)
    index_types = {A.indices.dtype, A.indptr.dtype}
    if not index_types <= _INDEX_TYPES:
        arrays = (A.data, A.indices, A.indptr)
        A = sparse.csr_array(arrays, shape=A.shape)  # which converts them
    return A


def as_csr(A: Any, dtype: Any = None) -> sparse.csr_array:
    """``A`` as CSR with sorted, summed entries and 32-bit column indices where they fit."""
    A = csr_of(A, dtype)
    if len(A.data) > A.indptr[-1]:
        A = A.copy()
        A.prune()  # room for more entries, which SciPy allows
    if not A.has_canonical_format:
        A = A.copy()  # the argument is not changed
        A.sum_duplicates()
    if _has_short_columns(A):
        A.indices = A.indices.astype(np.int32, copy=False)
    return A


def _has_short_columns(A: sparse.csr_array) -> bool:
    """Return whether 32 bits suffice for the number of every column."""
    return A.shape[1] < 2**31


def sort_rows(A: sparse.csr_array) -> None:
    """Sort the entries of every row by column, in place; SciPy does it on one thread."""

    n_rows, n_columns = A.shape

    def sort(rows: slice) -> None:
        starts = A.indptr[rows.start : rows.stop + 1]
        first = starts[0]
        last = starts[-1]
        indices = A.indices[first:last]
        data = A.data[first:last]
        part: Any = sparse.csr_array(
            (data, indices, starts - first),
            shape=(rows.stop - rows.start, n_columns),
        )
        part.sort_indices()
        indices[:] = part.indices  # which are a copy where SciPy has changed their type
        data[:] = part.data

    for_each_span(sort, n_rows, SORTED_ROWS)
    A.has_sorted_indices = True


def short_indices(A: sparse.csr_array) -> Array:
    """Return the column of every entry, with 32 bits where they suffice, as kernels expect."""
    indices = A.indices
    if _has_short_columns(A):
        indices = indices.astype(np.int32, copy=False)
    return np.asarray(indices)


def used_columns(A: Matrix) -> Indices:
    """Return the columns with at least one stored entry; all of a dense matrix."""
    n_columns = A.shape[1]
    if not is_sparse(A):
        return np.arange(n_columns)
    if is_wide(A):
        return np.unique(A.indices).astype(np.int64)
    is_used = np.zeros(n_columns, dtype=bool)
    is_used[A.indices] = True
    return np.flatnonzero(is_used)


def is_wide(A: sparse.csr_array) -> bool:
    """Return whether there are so many columns that an array over them costs more than sorting."""
    n_columns = A.shape[1]
    return n_columns > WIDE_RATIO * max(A.nnz, 1)


def without_empty_columns(A: sparse.csr_array) -> sparse.csr_array:
    """Return ``A`` without its empty columns if it `is_wide`, else ``A`` itself."""
    if not is_wide(A):
        return A
    columns, positions = np.unique(A.indices, return_inverse=True)
    positions = positions.astype(np.int32)
    shape = (A.shape[0], len(columns))
    return sparse.csr_array((A.data, positions, A.indptr), shape=shape)


def append_constant(X: Matrix) -> Matrix:
    """``[X, 1]``: append a constant feature for the intercept."""
    n_rows = X.shape[0]
    ones = np.ones((n_rows, 1), dtype=X.dtype)
    if not is_sparse(X):
        return np.hstack([X, ones])
    columns: Any = [X, sparse.csr_array(ones)]
    joined = sparse.hstack(columns, format="csr")
    return as_csr(joined)


def project(X: Matrix, W: Array) -> Array:
    """``[X, 1] W``: rows in the embedding."""
    weights = W[:-1]
    intercept = W[-1]
    return matmul(X, weights) + intercept


def scale_rows(A: Matrix, factors: Array) -> Matrix:
    """``diag(factors) A``."""
    if not is_sparse(A):
        column = factors[:, None]
        return A * column.astype(A.dtype)
    row_sizes = np.diff(A.indptr)
    entry_factors = np.repeat(factors, row_sizes)
    scaled = A.copy()
    scaled.data *= entry_factors.astype(A.dtype)
    if scaled.indices.dtype != A.indices.dtype:  # SciPy widens them to match the row starts
        scaled.indices = A.indices.copy()
    return scaled


def normalize_rows(A: Matrix) -> Matrix:
    """Scale rows to unit length; rows of zeros stay zero."""
    return scale_rows(A, inverse_lengths(A))


def inverse_lengths(A: Matrix) -> Floats:
    """One over the length of each row; zero for a row of zeros."""
    lengths = np.sqrt(row_sums_of_squares(A))
    inverse = np.zeros_like(lengths)
    return np.divide(1.0, lengths, out=inverse, where=lengths > 0)


def unit_rows(A: Matrix) -> sparse.csr_array:
    """Rows scaled to unit length, as CSR in single precision."""
    return normalize_rows(as_csr(A, np.float32))


def row_sums_of_squares(A: Matrix) -> Floats:
    """Return the squared length of each row, summed in float64."""
    if not is_sparse(A):
        return np.einsum("ij,ij->i", A, A, dtype=np.float64)
    n_rows = A.shape[0]
    row_sizes = np.diff(A.indptr)
    rows = np.repeat(np.arange(n_rows), row_sizes)
    squares = A.data.astype(np.float64) ** 2
    sums = np.bincount(rows, squares, minlength=n_rows)
    return sums.astype(np.float64, copy=False)  # counts of no entries would be integers


def select_entries(A: sparse.csr_array, is_kept: Array) -> sparse.csr_array:
    """Return the matrix with some of its stored entries, which are marked, and no others."""
    kept = np.flatnonzero(is_kept)
    indptr = np.searchsorted(kept, A.indptr)
    return as_csr(sparse.csr_array((A.data[kept], A.indices[kept], indptr), shape=A.shape))
