"""Small exact pieces over tall blocks, for NumPy and torch arrays alike."""

from collections.abc import Callable, Iterator
from typing import Any

from array_api_compat import array_namespace

from rembrandt.linalg.threads import own_threads

Block = Any  # an array of the engine's library: rows of data, labels or features by a few hundred columns

ROWS = 65_536  # rows turned to float64 at a time


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
    return xp.zeros((A.shape[1], (A if B is None else B).shape[1]), dtype=xp.float64) if total is None else total


def cache_rows(A: Block) -> int:
    """Rows of ``A`` that stay in a core's cache together; all of them on a device, where launches cost more."""
    on_cpu = getattr(A.device, "type", "cpu") == "cpu"
    return max(1, (1 << 18) // max(1, A.shape[1])) if on_cpu else A.shape[0]


def column_dots(A: Block, B: Block) -> Block:
    """The inner product of each column of ``A`` with that of ``B``: short sums as they come, their total in float64."""
    xp = array_namespace(A)
    total = xp.zeros((A.shape[1],), dtype=xp.float64, device=A.device)
    for rows in spans(A.shape[0], cache_rows(A)):
        total += xp.sum(A[rows] * B[rows], axis=0)
    return total


def eigh(A: Block) -> tuple[Block, Block]:
    """Eigenvalues, ascending, and eigenvectors of a small symmetric matrix."""
    with own_threads():
        return array_namespace(A).linalg.eigh(A)


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
