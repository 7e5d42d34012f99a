"""Small exact pieces over tall blocks, for NumPy and torch arrays alike."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from rembrandt.linalg.threads import own_threads

Block = Any  # an array of the engine's library: rows of data, labels or features by a few hundred columns

ROWS = 65_536  # rows turned to float64 at a time
SMALL_EIGH = 256  # rows: a device takes longer for such a matrix than the way to the processor and back


def spans(size: int, step: int) -> Iterator[slice]:
    """``size`` cut in slices of at most ``step``."""
    for start in range(0, size, step):
        yield slice(start, min(start + step, size))


def gram64(A: Block, B: Block | None = None) -> Block:
    """``AᵀB`` (``AᵀA`` without ``B``) accumulated in float64, for it is factored later and must be definite."""
    xp = array_namespace(A)
    total = None
    for rows in spans(A.shape[0], ROWS):
        left = xp.astype(A[rows], xp.float64)
        right = left if B is None else xp.astype(B[rows], xp.float64)
        part = left.T @ right
        total = part if total is None else total + part
    if total is None:
        return xp.zeros((A.shape[1], (A if B is None else B).shape[1]), dtype=xp.float64, device=A.device)
    return total


def on_device(A: Block) -> bool:
    """Whether ``A`` lives elsewhere than in this process's memory."""
    return getattr(A.device, "type", "cpu") != "cpu"


def as_numpy(A: Block) -> NDArray[Any]:
    """``A`` in this process's memory."""
    return np.asarray(A.cpu() if hasattr(A, "cpu") else A)


def cache_rows(A: Block) -> int:
    """Rows of ``A`` that stay in a core's cache together; on a device many more, for launches cost more than misses."""
    return max(1, (1 << (26 if on_device(A) else 18)) // max(1, A.shape[1]))


def add_scaled(A: Block, B: Block, factors: Block) -> None:
    """``A += factors · B`` in place; in one trip through memory where the library has a word for it."""
    if hasattr(A, "addcmul_"):
        A.addcmul_(B, factors)
    else:
        A += factors * B


def column_dots(A: Block, B: Block) -> Block:
    """The inner product of each column of ``A`` with that of ``B``: short sums as they come, their total in float64."""
    xp = array_namespace(A)
    total = xp.zeros((A.shape[1],), dtype=xp.float64, device=A.device)
    for rows in spans(A.shape[0], cache_rows(A)):
        total += xp.sum(A[rows] * B[rows], axis=0)
    return total


def eigh(A: Block) -> tuple[Block, Block]:
    """Eigenvalues, ascending, and eigenvectors of a small symmetric matrix."""
    xp = array_namespace(A)
    with own_threads():
        if on_device(A) and A.shape[0] <= SMALL_EIGH:
            values, vectors = xp.linalg.eigh(A.cpu())
            return values.to(A.device), vectors.to(A.device)
        values, vectors = xp.linalg.eigh(A)
        return values, vectors


def inverse_factor(A: Block) -> Block:
    """``T`` with ``TTᵀ = A⁻¹`` for a positive definite ``A``: what whitens vectors of covariance ``A``."""
    xp = array_namespace(A)
    factor = xp.linalg.cholesky(A)
    identity = xp.eye(A.shape[0], dtype=A.dtype, device=A.device)
    if isinstance(factor, np.ndarray):
        return solve_triangular(factor, identity, lower=True, check_finite=False).T
    return xp.linalg.solve_triangular(factor, identity, upper=False).T


def orthonormalize(A: Block, metric: Callable[[Block], Block] | None = None) -> Block:
    """A basis of the columns of ``A``, orthonormal in the inner product ``xᵀ metric(y)`` (the usual one without it).

    Two rounds with the inverse root of the small Gram matrix: block products only, and exact to rounding when the
    columns are well apart. Where they are not, directions that are rounding and nothing else are left out.
    """
    xp = array_namespace(A)
    for _ in range(2):
        if A.shape[1] == 0:
            break
        eigenvalues, E = eigh(gram64(A, metric and metric(A)))
        kept = eigenvalues > (xp.finfo(A.dtype).eps ** 2) * eigenvalues[-1]
        A = A @ xp.astype(E[:, kept] / xp.sqrt(eigenvalues[kept]), A.dtype)
    return A
