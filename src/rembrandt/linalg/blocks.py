"""Operations on tall blocks, for NumPy and torch arrays."""

from collections.abc import Callable, Iterator
from functools import cache
from importlib.util import find_spec
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray
from scipy.linalg.lapack import dtrtri

from rembrandt.errors import DataError
from rembrandt.linalg.threads import for_each, own_threads

Block = Any  # an array of the engine's library: rows, labels or features × a few hundred columns

# Rows converted to float64 at a time, so that the copy stays small next to the block.
FLOAT64_BLOCK_ROWS = 65_536

# Rows whose columns one thread sums: enough pieces for all threads.
COLUMN_SUM_ROWS = 16_384

# Entries that one thread scales or converts at a time.
CONVERTED_ENTRIES = 1 << 18

# Columns of a block of a Gram matrix: enough for a product at full speed, and for enough blocks.
GRAM_COLUMNS = 512

# Entries of a block that fit in the cache of a core.
CORE_CACHE_ENTRIES = 1 << 18

# Entries processed at a time on a device, where the launch of a kernel is expensive.
DEVICE_BLOCK_ENTRIES = 1 << 26

# Ratio of the smallest to the largest pivot above which a Cholesky factor is accurate enough.
MIN_PIVOT_RATIO = 1e-3


def spans(size: int, step: int) -> Iterator[slice]:
    """Cut ``size`` into slices of at most ``step``."""
    for start in range(0, size, step):
        stop = min(start + step, size)
        yield slice(start, stop)


def for_each_span(work: Callable[[slice], None], size: int, step: int) -> None:
    """Call ``work`` for every slice of `spans` in parallel."""
    calls = [(span,) for span in spans(size, step)]
    for_each(work, calls)


def gram64(A: Block, B: Block | None = None) -> Block:
    """``AᵀB`` (``AᵀA`` without ``B``), accumulated in float64 because it is factored later."""
    xp = array_namespace(A)
    n_rows, n_left = A.shape
    n_right = n_left
    if B is not None:
        n_right = B.shape[1]
    total = xp.zeros((n_left, n_right), dtype=xp.float64, device=A.device)
    for rows in spans(n_rows, FLOAT64_BLOCK_ROWS):
        left = xp.astype(A[rows], xp.float64)
        right = left
        if B is not None:
            right = xp.astype(B[rows], xp.float64)
        total += left.T @ right
    return total


def on_device(A: Block) -> bool:
    """Return whether ``A`` is on a device."""
    return getattr(A.device, "type", "cpu") != "cpu"


def as_numpy(A: Block) -> NDArray[Any]:
    """Return ``A`` as a NumPy array."""
    if hasattr(A, "cpu"):
        A = A.cpu()
    return np.asarray(A)


def in_rows(A: Block) -> Block:
    """Return ``A`` in row-major order.

    Arrays that are read from a file have this order, and products of arrays with the same order
    round in the same way.
    """
    if hasattr(A, "contiguous"):
        return A.contiguous()
    return np.ascontiguousarray(A)


def cache_rows(A: Block) -> int:
    """Return how many rows of ``A`` to process at a time: those that fit in a core's cache.

    On a device there are many more, because launches are expensive.
    """
    n_entries = CORE_CACHE_ENTRIES
    if on_device(A):
        n_entries = DEVICE_BLOCK_ENTRIES
    n_columns = max(1, A.shape[1])
    return max(1, n_entries // n_columns)


@cache
def has_triton() -> bool:
    """Return whether triton is installed."""
    return find_spec("triton") is not None


def fused(*blocks: Block) -> Any:
    """Return the module of kernels that read ``blocks`` once, or None when they do not apply."""
    if not on_device(blocks[0]):
        return None
    if not has_triton():
        return None
    from rembrandt.linalg import triton_columns

    if not triton_columns.usable(*blocks):
        return None
    return triton_columns


def add_gram(out: NDArray[Any], A: NDArray[Any]) -> None:
    """``out += Aᵀ A``, in blocks of columns that the threads share: the bits do not depend on their
    number.
    """
    n_columns = A.shape[1]
    columns = list(spans(n_columns, GRAM_COLUMNS))
    pairs = combinations_with_replacement(columns, 2)

    def add(left: slice, right: slice) -> None:
        block = A[:, left].T @ A[:, right]
        out[left, right] += block
        if left != right:
            out[right, left] += block.T

    with own_threads():
        for_each(add, pairs)


def scaled_rows(A: Block, factors: Block, out: Block | None = None) -> Block:
    """``factors * A`` with a factor for each row, a column; ``out`` may be ``A``."""
    if not isinstance(A, np.ndarray):
        return factors * A
    result = out
    if result is None:
        result = np.empty_like(A)

    def scale(rows: slice, columns: slice) -> None:
        piece = A[rows, columns]
        np.multiply(factors[rows], piece, out=result[rows, columns])

    for_each(scale, _pieces_in_memory(result))
    return result


def converted(A: Block, dtype: Any, out: Block | None = None) -> Block:
    """Return ``A`` in another precision, in the same order in memory or in ``out``."""
    if not isinstance(A, np.ndarray):
        xp = array_namespace(A)
        if out is None:
            return xp.astype(A, dtype)
        out[...] = xp.astype(A, dtype)
        return out
    result = out
    if result is None:
        result = np.empty_like(A, dtype=dtype)

    def convert(rows: slice, columns: slice) -> None:
        result[rows, columns] = A[rows, columns]

    for_each(convert, _pieces_in_memory(result))
    return result


def _pieces_in_memory(A: NDArray[Any]) -> list[tuple[slice, slice]]:
    """Cut an array into rows or columns that are next to each other in memory.

    The system fills a page of new memory when it is first written. Pieces that share all their
    pages would leave that to the thread that comes first.
    """
    n_rows, n_columns = A.shape
    row_step, column_step = A.strides
    everything = slice(None)
    if row_step >= column_step:
        rows_of_piece = CONVERTED_ENTRIES // max(1, n_columns)
        row_spans = spans(n_rows, max(1, rows_of_piece))
        return [(rows, everything) for rows in row_spans]
    columns_of_piece = CONVERTED_ENTRIES // max(1, n_rows)
    column_spans = spans(n_columns, max(1, columns_of_piece))
    return [(everything, columns) for columns in column_spans]


def column_sums(A: NDArray[Any]) -> NDArray[np.float64]:
    """Sum each column in float64; the result does not depend on the number of threads."""
    n_rows, n_columns = A.shape
    row_spans = list(spans(n_rows, COLUMN_SUM_ROWS))
    partial_sums = np.zeros((len(row_spans), n_columns))

    def sum_rows(number: int, rows: slice) -> None:
        A[rows].sum(axis=0, dtype=np.float64, out=partial_sums[number])

    for_each(sum_rows, enumerate(row_spans))
    total = partial_sums.sum(axis=0)
    return np.asarray(total)


def column_dots(A: Block, B: Block) -> Block:
    """Return the inner products of the columns of ``A`` and ``B``.

    Short sums are taken in the precision of the blocks, the total in float64.
    """
    kernels = fused(A, B)
    if kernels is not None:
        return kernels.column_dots(A, B)
    xp = array_namespace(A)
    n_rows, n_columns = A.shape
    total = xp.zeros((n_columns,), dtype=xp.float64, device=A.device)
    for rows in spans(n_rows, cache_rows(A)):
        products = A[rows] * B[rows]
        total += xp.sum(products, axis=0)
    return total


def plus_product(A: Block, B: Block, C: Block, out: Block | None = None) -> Block:
    """``A + BC``; ``out`` may be ``A``."""
    if isinstance(A, np.ndarray):
        product = B @ C
        return np.add(A, product, out=out)
    xp = array_namespace(A)
    return xp.addmm(A, B, C, out=out)


def eigh(A: Block) -> tuple[Block, Block]:
    """Eigenvalues in ascending order and eigenvectors of a small symmetric matrix."""
    xp = array_namespace(A)
    try:
        with own_threads():
            values, vectors = xp.linalg.eigh(A)
    except (np.linalg.LinAlgError, RuntimeError):  # of NumPy, and of torch
        check_finite(A)
        raise
    if isinstance(A, np.ndarray):  # a device would be waited for
        are_finite = np.isfinite(values).all()
        if not are_finite:
            check_finite(A)
    return values, vectors


def check_finite(A: Block) -> None:
    """Refuse products that overflowed."""
    xp = array_namespace(A)
    is_finite = xp.isfinite(A)
    if not bool(xp.all(is_finite)):
        raise DataError(
            "a product of the features, the labels and the weights is too large for floating "
            "point; divide features or weights that are far above one by a constant"
        )


def inverse_of_lower(factor: Block) -> Block:
    """Invert a lower triangular matrix of float64 with a positive diagonal."""
    if isinstance(factor, np.ndarray):
        # LAPACK expects columns: the transpose of a row-major matrix is passed without a copy.
        inverse_of_transpose, _info = dtrtri(factor.T, lower=0)
        return inverse_of_transpose.T
    xp = array_namespace(factor)
    identity = xp.eye(factor.shape[0], dtype=factor.dtype, device=factor.device)
    return xp.linalg.solve_triangular(factor, identity, upper=False)


def orthonormalize(A: Block, metric: Callable[[Block], Block] | None = None) -> Block:
    """Return a basis of the columns of ``A``, orthonormal in the inner product ``xᵀ metric(y)``.

    Two rounds with the inverse root of the small Gram matrix: only block products, and exact to
    rounding for well conditioned columns. Otherwise directions that consist of rounding errors are
    left out.
    """
    xp = array_namespace(A)
    for _ in range(2):
        if A.shape[1] == 0:
            break
        if metric is None:
            gram = gram64(A)
        else:
            gram = gram64(A, metric(A))
        eps = xp.finfo(A.dtype).eps
        root = inverse_root(gram, eps**2)
        A = A @ xp.astype(root, A.dtype)
    return A


def inverse_root(G: Block, smallest: float) -> Block:
    """``T`` with ``TᵀGT = I`` over the eigenvalues of ``G`` above ``smallest`` times the largest.

    Eigenvalues that the precision of ``G`` cannot tell from zero are left out too. When a Cholesky
    factor shows that ``G`` is well conditioned it is used: it costs a tenth of the eigenvalues.
    """
    size = G.shape[0]
    if size == 0:
        return G
    symmetric = 0.5 * (G + G.T)
    factor = _sound_factor(symmetric)
    if factor is not None:
        return inverse_of_lower(factor).T
    xp = array_namespace(G)
    eigenvalues, eigenvectors = eigh(G)
    rounding = size * xp.finfo(G.dtype).eps
    limit = max(smallest, rounding) * eigenvalues[-1]
    is_kept = eigenvalues > limit
    scales = xp.sqrt(eigenvalues[is_kept])
    return eigenvectors[:, is_kept] / scales


def _sound_factor(G: Block) -> Block | None:
    """Return the Cholesky factor of ``G``, or None when ``G`` is not well conditioned."""
    xp = array_namespace(G)
    succeeded: Any = True
    if isinstance(G, np.ndarray):
        try:
            factor = np.linalg.cholesky(G)
        except np.linalg.LinAlgError:
            return None
    else:
        factor, info = xp.linalg.cholesky_ex(G)
        succeeded = info == 0
    pivots = xp.linalg.diagonal(factor)
    well_conditioned = xp.min(pivots) > MIN_PIVOT_RATIO * xp.max(pivots)
    # Both conditions become one value, so that a device is waited for only once.
    sound = bool(succeeded & well_conditioned)
    if not sound:
        return None
    return factor
