"""Dense products whose rows do not depend on the rows that are computed with them.

A product of a BLAS library rounds a row differently in another block of rows: kernels for whole
tiles and for their edges add in other orders. Predictions must not depend on who else asks, so
where that matters a row is multiplied by a loop with one order of additions.
"""

from typing import Any

import numpy as np

from rembrandt.kernels import kernel
from rembrandt.linalg import Array
from rembrandt.linalg.blocks import spans
from rembrandt.linalg.threads import for_each

PRODUCT_BLOCK_ROWS = 64  # rows of a call: enough to reuse a tile of the other matrix in the cache
SMALL_PRODUCTS = 1 << 20  # handing fewer to other threads takes longer than computing them
PRODUCT_TILE_COLUMNS = 512  # of the other matrix: four rows of sums stay in the first-level cache


def row_products(A: Array, B: Array) -> Array:
    """Return ``A @ B``; every row has the same bits in any block of rows.

    Parameters
    ----------
    A : ndarray of shape (n, k)
    B : ndarray of shape (k, m)

    Returns
    -------
    ndarray of shape (n, m)
    """
    dtype = np.result_type(A.dtype, B.dtype)
    A = _read_only(A, dtype)
    B = _read_only(B, dtype)
    n_rows = A.shape[0]
    n_columns = B.shape[1]
    out = np.empty((n_rows, n_columns), dtype=dtype)
    tasks = []
    for rows in spans(n_rows, PRODUCT_BLOCK_ROWS):
        for columns in spans(n_columns, PRODUCT_TILE_COLUMNS):
            width = columns.stop - columns.start
            sums = np.empty((4, width), dtype=dtype)
            edges = (rows.start, rows.stop, columns.start, columns.stop)
            tasks.append((A, B, out, sums, *edges))
    n_products = n_rows * B.size
    for_each(_multiply, tasks, small=n_products < SMALL_PRODUCTS)
    return out


def _read_only(A: Array, dtype: Any) -> Array:
    """Return an array by rows that cannot be written, as those of a loaded model: for numba it has
    another type, and one of the two is compiled.
    """
    view = np.ascontiguousarray(A, dtype=dtype).view()
    view.flags.writeable = False
    return view


@kernel(
    "void(Array(float32, 2, 'C', True), Array(float32, 2, 'C', True), float32[:,::1], "
    "float32[:,::1], int64, int64, int64, int64)",
    fastmath={"contract"},
    error_model="numpy",
)
def _multiply(
    A: Array,
    B: Array,
    out: Array,
    sums: Array,
    start: int,
    stop: int,
    left: int,
    right: int,
) -> None:
    """``out = A @ B`` for rows ``start`` to ``stop`` and columns ``left`` to ``right``.

    Four rows at a time: one load of B serves all four. A missing fourth row is replaced by another
    one, so that every row goes through the same code. ``sums`` is work space,
    four rows of sums.
    """
    k = A.shape[1]
    m = right - left
    s0 = sums[0]
    s1 = sums[1]
    s2 = sums[2]
    s3 = sums[3]
    for row in range(start, stop, 4):
        last = stop - 1
        a0 = A[row]
        a1 = A[min(row + 1, last)]
        a2 = A[min(row + 2, last)]
        a3 = A[min(row + 3, last)]
        for j in range(m):
            s0[j] = 0
            s1[j] = 0
            s2[j] = 0
            s3[j] = 0
        for i in range(0, k - 1, 2):
            even = B[i, left:right]
            odd = B[i + 1, left:right]
            e0 = a0[i]
            e1 = a1[i]
            e2 = a2[i]
            e3 = a3[i]
            o0 = a0[i + 1]
            o1 = a1[i + 1]
            o2 = a2[i + 1]
            o3 = a3[i + 1]
            for j in range(m):
                s0[j] += e0 * even[j] + o0 * odd[j]
                s1[j] += e1 * even[j] + o1 * odd[j]
                s2[j] += e2 * even[j] + o2 * odd[j]
                s3[j] += e3 * even[j] + o3 * odd[j]
        if k % 2:
            even = B[k - 1, left:right]
            for j in range(m):
                s0[j] += a0[k - 1] * even[j]
                s1[j] += a1[k - 1] * even[j]
                s2[j] += a2[k - 1] * even[j]
                s3[j] += a3[k - 1] * even[j]
        for number in range(min(4, stop - row)):
            for j in range(m):
                out[row + number, left + j] = sums[number, j]
