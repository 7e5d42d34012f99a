"""Operations on tall blocks, for NumPy and torch arrays."""

from collections.abc import Callable, Iterator
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray
from scipy.linalg.lapack import dtrtri

from rembrandt.linalg.threads import for_each, own_threads

Block = Any  # an array of the engine's library: rows, labels or features × a few hundred columns

ROWS = 65_536  # rows converted to float64 at a time
WELL_CONDITIONED = (
    1e-3  # ratio of the smallest to the largest pivot above which a Cholesky factor is used
)


def spans(size: int, step: int) -> Iterator[slice]:
    """Cut ``size`` into slices of at most ``step``."""
    for start in range(0, size, step):
        yield slice(start, min(start + step, size))


def gram64(A: Block, B: Block | None = None) -> Block:
    """``AᵀB`` (``AᵀA`` without ``B``), accumulated in float64 because it is factored later."""
    xp = array_namespace(A)
    total = xp.zeros(
        (A.shape[1], (A if B is None else B).shape[1]), dtype=xp.float64, device=A.device
    )
    for rows in spans(A.shape[0], ROWS):
        left = xp.astype(A[rows], xp.float64)
        total += left.T @ (left if B is None else xp.astype(B[rows], xp.float64))
    return total


def on_device(A: Block) -> bool:
    """Return whether ``A`` is on a device."""
    return getattr(A.device, "type", "cpu") != "cpu"


def as_numpy(A: Block) -> NDArray[Any]:
    """Return ``A`` as a NumPy array."""
    return np.asarray(A.cpu() if hasattr(A, "cpu") else A)


def in_rows(A: Block) -> Block:
    """Return ``A`` in row-major order, as arrays read from a file are: products then round in the
    same way.
    """
    return A.contiguous() if hasattr(A, "contiguous") else np.ascontiguousarray(A)


def cache_rows(A: Block) -> int:
    """Rows of ``A`` that fit in a core's cache; many more on a device, where launches are
    expensive.
    """
    return max(1, (1 << (26 if on_device(A) else 18)) // max(1, A.shape[1]))


@cache
def has_triton() -> bool:
    return find_spec("triton") is not None


def fused(*blocks: Block) -> Any:
    """Return the module of kernels that read ``blocks`` once, or None when they do not apply."""
    if not (on_device(blocks[0]) and has_triton()):
        return None
    from rembrandt.linalg import triton_columns

    return triton_columns if triton_columns.usable(*blocks) else None


def column_sums(A: NDArray[Any]) -> NDArray[np.float64]:
    """Sum each column in float64; the parts of the rows do not depend on the number of threads."""
    parts = list(spans(len(A), ROWS // 4))
    sums = np.zeros((len(parts), A.shape[1]))
    for_each(lambda i, rows: A[rows].sum(axis=0, dtype=np.float64, out=sums[i]), enumerate(parts))
    return np.asarray(sums.sum(axis=0))


def column_dots(A: Block, B: Block) -> Block:
    """Inner products of the columns of ``A`` and ``B``: short sums in their precision, the total in
    float64.
    """
    if kernels := fused(A, B):
        return kernels.column_dots(A, B)
    xp = array_namespace(A)
    total = xp.zeros((A.shape[1],), dtype=xp.float64, device=A.device)
    for rows in spans(A.shape[0], cache_rows(A)):
        total += xp.sum(A[rows] * B[rows], axis=0)
    return total


def plus_product(A: Block, B: Block, C: Block, out: Block | None = None) -> Block:
    """``A + BC``; ``out`` may be ``A``."""
    xp = array_namespace(A)
    if not isinstance(A, np.ndarray):
        return xp.addmm(A, B, C, out=out)
    return np.add(A, B @ C, out=out)


def eigh(A: Block) -> tuple[Block, Block]:
    """Eigenvalues in ascending order and eigenvectors of a small symmetric matrix."""
    xp = array_namespace(A)
    with own_threads():
        values, vectors = xp.linalg.eigh(A)
        return values, vectors


def inverse_of_lower(factor: Block) -> Block:
    """Invert a lower triangular matrix of float64 with a positive diagonal."""
    xp = array_namespace(factor)
    if isinstance(factor, np.ndarray):
        return dtrtri(factor.T, lower=0)[0].T  # of the transpose, because LAPACK expects columns
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
        A = A @ xp.astype(
            inverse_root(gram64(A, metric and metric(A)), xp.finfo(A.dtype).eps ** 2), A.dtype
        )
    return A


def inverse_root(G: Block, smallest: float) -> Block:
    """``T`` with ``TᵀGT = I`` over the eigenvalues of ``G`` above ``smallest`` times the largest.

    Eigenvalues that the precision of ``G`` cannot tell from zero are left out too. When a Cholesky
    factor shows that ``G`` is well conditioned it is used: it costs a tenth of the eigenvalues.
    """
    xp = array_namespace(G)
    if G.shape[0] == 0:
        return G
    factor = _sound_factor(0.5 * (G + G.T))
    if factor is not None:
        return inverse_of_lower(factor).T
    eigenvalues, E = eigh(G)
    kept = eigenvalues > max(smallest, G.shape[0] * xp.finfo(G.dtype).eps) * eigenvalues[-1]
    return E[:, kept] / xp.sqrt(eigenvalues[kept])


def _sound_factor(G: Block) -> Block | None:
    """Return the Cholesky factor of ``G``, or None when ``G`` is not well conditioned."""
    xp = array_namespace(G)
    if isinstance(G, np.ndarray):
        try:
            factor, found = np.linalg.cholesky(G), True
        except np.linalg.LinAlgError:
            return None
    else:
        factor, info = xp.linalg.cholesky_ex(G)
        found = info == 0
    pivots = xp.linalg.diagonal(factor)
    return factor if bool(found & (xp.min(pivots) > WELL_CONDITIONED * xp.max(pivots))) else None
