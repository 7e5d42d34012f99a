"""Sparse times dense on several threads; the result does not depend on their number.

``A @ Z`` gathers rows of Z. SciPy does it on one thread; here the non-zeros are cut into pieces of
equal size, if necessary in the middle of a row. A piece that starts inside a row keeps its part of
that row apart, and these parts are added in order at the end. Products with the transpose are in
`transposed`.
"""

from itertools import pairwise
from typing import Any

import numpy as np
from numba import njit
from scipy import sparse

from rembrandt.linalg import Array, Floats, Indices
from rembrandt.linalg.threads import for_each, n_threads

Matrix = Any  # a SciPy CSR matrix or a NumPy array

# Non-zeros: enough to amortise a call, few enough to balance threads and to sum well in float32
PIECE = 16_384


@njit(inline="always")
def add_rows(into: Array, Z: Array, rows: Array, values: Array, at: int, end: int) -> None:
    """``into += Σ value · Z[row]`` over the entries from ``at`` to ``end``.

    Four at a time: one load and one store of the result for four rows of Z.
    """
    while at + 4 <= end:
        v0, v1, v2, v3 = values[at], values[at + 1], values[at + 2], values[at + 3]
        z0, z1, z2, z3 = Z[rows[at]], Z[rows[at + 1]], Z[rows[at + 2]], Z[rows[at + 3]]
        for j in range(Z.shape[1]):
            into[j] += v0 * z0[j] + v1 * z1[j] + v2 * z2[j] + v3 * z3[j]
        at += 4
    while at < end:
        v0 = values[at]
        z0 = Z[rows[at]]
        for j in range(Z.shape[1]):
            into[j] += v0 * z0[j]
        at += 1


@njit(nogil=True, cache=True, fastmath={"contract"}, error_model="numpy")
def _multiply_pieces(
    indptr: Array,
    indices: Array,
    data: Array,
    Z: Array,
    out: Array,
    aside: Array,
    piece: int,
    first: int,
    last: int,
) -> None:
    """``out[row] = Σ data · Z[index]`` for the non-zeros of pieces ``first`` to ``last``."""
    for p in range(first, last):
        at = p * piece
        stop = min(at + piece, indices.shape[0])
        row = np.searchsorted(indptr, at, side="right") - 1
        while at < stop:
            while indptr[row + 1] <= at:
                row += 1
            end = min(indptr[row + 1], stop)
            add_rows(out[row] if at == indptr[row] else aside[p], Z, indices, data, at, end)
            at = end


def is_sparse(A: Any) -> bool:
    return bool(sparse.issparse(A))


def csr_matmul(A: sparse.csr_array, Z: Array) -> Array:
    """``A @ Z`` for a CSR matrix and a dense block, in the wider of their two precisions."""
    dtype = np.result_type(A.dtype, Z.dtype)
    out = np.zeros((A.shape[0], Z.shape[1]), dtype=dtype)
    if A.nnz == 0 or Z.shape[1] == 0:
        return out
    Z = np.ascontiguousarray(Z, dtype=dtype)
    indptr = A.indptr.astype(np.int64, copy=False)
    pieces = -(-A.nnz // PIECE)
    aside = np.zeros((pieces, Z.shape[1]), dtype=dtype)
    shares = np.unique(np.linspace(0, pieces, min(pieces, 8 * n_threads()) + 1).astype(np.int64))
    for_each(
        _multiply_pieces,
        (
            (indptr, A.indices, A.data, Z, out, aside, PIECE, first, last)
            for first, last in pairwise(shares)
        ),
    )
    starts = np.arange(pieces) * PIECE
    rows = np.searchsorted(indptr, starts, side="right") - 1
    inside = indptr[rows] < starts
    np.add.at(out, rows[inside], aside[inside])
    return out


def matmul(A: Matrix, Z: Array) -> Array:
    """``A @ Z`` for sparse or dense ``A``."""
    return csr_matmul(A, Z) if is_sparse(A) else A @ Z


def as_csr(A: Any, dtype: Any = None) -> sparse.csr_array:
    """``A`` as CSR with sorted, summed entries and 32-bit column indices where they fit."""
    A = sparse.csr_array(A, dtype=dtype)
    if not A.has_canonical_format:
        A = A.copy()  # the argument is not changed
        A.sum_duplicates()
    if A.indices.dtype != np.int32 and A.shape[1] < 2**31:
        A.indices = A.indices.astype(np.int32)
    return A


def used_columns(A: Matrix) -> Indices:
    """Return the columns with at least one stored entry; all of a dense matrix."""
    used = np.ones(A.shape[1], dtype=bool)
    if is_sparse(A):
        used[:] = False
        used[A.indices] = True
    return np.flatnonzero(used)


def append_constant(X: Matrix) -> Matrix:
    """``[X, 1]``: append a constant feature for the intercept."""
    ones = np.ones((X.shape[0], 1), dtype=X.dtype)
    if is_sparse(X):
        both: Any = [X, sparse.csr_array(ones)]
        return as_csr(sparse.hstack(both, format="csr"))
    return np.hstack([X, ones])


def project(X: Matrix, W: Array) -> Array:
    """``[X, 1] W``: rows in the embedding."""
    return matmul(X, W[:-1]) + W[-1]


def scale_rows(A: Matrix, factors: Array) -> Matrix:
    """``diag(factors) A``."""
    if is_sparse(A):
        scaled = A.copy()
        scaled.data *= np.repeat(factors, np.diff(A.indptr)).astype(A.dtype)
        return scaled
    return A * factors[:, None].astype(A.dtype)


def normalize_rows(A: Matrix) -> Matrix:
    """Scale rows to unit length; rows of zeros stay zero."""
    return scale_rows(A, inverse_lengths(A))


def inverse_lengths(A: Matrix) -> Floats:
    """One over the length of each row; zero for a row of zeros."""
    lengths = np.sqrt(row_sums_of_squares(A))
    return np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)


def unit_rows(A: Matrix) -> sparse.csr_array:
    """Rows scaled to unit length, as CSR in single precision."""
    return normalize_rows(as_csr(A, np.float32))


def row_sums_of_squares(A: Matrix) -> Floats:
    if not is_sparse(A):
        return np.einsum("ij,ij->i", A, A, dtype=np.float64)
    rows = np.repeat(np.arange(A.shape[0]), np.diff(A.indptr))
    return np.bincount(rows, A.data.astype(np.float64) ** 2, minlength=A.shape[0]).astype(
        np.float64, copy=False
    )
