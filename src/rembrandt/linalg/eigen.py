"""The randomized eigensolver: written once, for every operator.

Halko, Martinsson & Tropp, "Finding structure with randomness", SIAM Review 2011; the final step is that of
Mineiro & Karampatziakis, "Fast Label Embeddings via Randomized Linear Algebra", ECML 2015 (Algorithms 1 and 2).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from rembrandt.linalg.blocks import Block, as_numpy, column_dots, eigh, gram64, inverse_root, orthonormalize

Operator = Callable[[Block], Block]


def gaussian(size: int, width: int, seed: int) -> NDArray[np.float32]:
    """The random block that a search starts from.

    Drawn column by column, so that a wider block begins with the columns of a narrower one of the same seed.
    """
    rng = np.random.default_rng(seed)
    return np.ascontiguousarray(rng.standard_normal((width, size), dtype=np.float32).T)


def randomized_eigh(
    operator: Operator, start: Block, rank: int, n_iter: int = 1, metric: Operator | None = None
) -> tuple[Block, Block]:
    """The top ``rank`` eigenvectors and eigenvalues of a symmetric positive operator.

    ``start`` has ``rank`` plus a few columns to spare. The operator is applied ``n_iter + 1`` times. Directions whose
    eigenvalue is zero to rounding are left out, so fewer than ``rank`` columns may come back. An operator that is
    symmetric in another inner product ``xᵀ metric(y)`` gets eigenvectors orthonormal in that one.
    """
    # A tall block of Gaussian columns is nearly orthogonal as it is: what comes first is to apply the operator.
    tall = n_iter > 0 and 2 * start.shape[1] <= start.shape[0]
    Q = start if tall else orthonormalize(start, metric)
    for _ in range(n_iter):
        Q = orthonormalize(operator(Q), metric)
    AQ = operator(Q)
    xp = array_namespace(AQ)
    # The paper's last step takes Σ² from (AQ)ᵀ(AQ), exact on the range of Q. From the same block Nyström's formula
    # AQ (QᵀAQ)⁻¹ (AQ)ᵀ is exact on the range of A^½ Q: half an iteration nearer for nothing.
    weighted = AQ if metric is None else metric(AQ)
    root = inverse_root(gram64(Q, weighted), xp.finfo(AQ.dtype).eps)
    sigma, E = eigh(_symmetric(root.T @ gram64(AQ, weighted) @ root))
    sigma, E = xp.flip(sigma, axis=0)[:rank], xp.flip(E, axis=1)[:, :rank]
    present = sigma > xp.finfo(AQ.dtype).eps * xp.max(sigma) if sigma.shape[0] else sigma > 0
    sigma = sigma[present]
    V = AQ @ xp.astype(root @ E[:, present] / xp.sqrt(sigma), AQ.dtype)
    return (fix_signs(V) if V.shape[1] else V), sigma


def ritz(operator: Operator, start: Block, rank: int, n_iter: int = 1) -> tuple[Block, Block]:
    """As `randomized_eigh`, for an operator that is only nearly linear and symmetric.

    The basis is that of the last but one application, and the symmetric part of ``QᵀAQ`` is diagonalised on it. That is
    half an iteration behind Nyström's formula, which divides by the small eigenvalues of that matrix and would take
    whatever is not symmetric for strength. Directions of no positive strength are left out.
    """
    Q = orthonormalize(start)
    for _ in range(n_iter):
        Q = orthonormalize(operator(Q))
    sigma, E = eigh(_symmetric(gram64(Q, operator(Q))))
    xp = array_namespace(Q)
    sigma, E = xp.flip(sigma, axis=0)[:rank], xp.flip(E, axis=1)[:, :rank]
    present = sigma > xp.finfo(Q.dtype).eps * xp.max(sigma) if sigma.shape[0] else sigma > 0
    V = Q @ xp.astype(E[:, present], Q.dtype)
    return (fix_signs(V) if V.shape[1] else V), sigma[present]


def _symmetric(A: Block) -> Block:
    return 0.5 * (A + A.T)


def fix_signs(V: Block) -> Block:
    """Each column with its largest entry positive: the same subspace always gets the same basis."""
    xp = array_namespace(V)
    largest = xp.max(V, axis=0)
    smallest = xp.min(V, axis=0)
    return V * xp.astype(xp.where(largest >= -smallest, xp.ones_like(largest), -xp.ones_like(largest)), V.dtype)


@dataclass(frozen=True)
class Certificate:
    """How far an approximate eigenbasis is from exact, measured after the fact.

    ``residuals[i] = ‖A vᵢ − σᵢ vᵢ‖``: some exact eigenvalue lies within that distance of ``σᵢ``.
    ``remainder``: the norm ``‖A − V diag(σ) Vᵀ‖₂`` is at most this with the probability ``confidence``; where it is
    close to the first eigenvalue left out, nothing larger was missed.
    """

    residuals: NDArray[np.float64]
    remainder: float
    confidence: float


def certify(operator: Operator, V: Block, sigma: Block, probes: Block) -> Certificate:
    """Measure ``(V, sigma)`` against ``operator`` with one more application, over ``[V, probes]``.

    ``probes`` are Gaussian columns drawn apart from the search (Halko et al., Lemma 4.1).
    """
    xp = array_namespace(V)
    k, r = V.shape[1], probes.shape[1]
    image = operator(xp.concat([V, probes], axis=1))
    gaps = image[:, :k] - V * xp.astype(sigma, V.dtype)
    rest = image[:, k:] - V @ (xp.astype(sigma, V.dtype)[:, None] * (V.T @ probes))
    remainder = 10 * (2 / np.pi) ** 0.5 * float(xp.max(xp.sqrt(column_dots(rest, rest))))
    return Certificate(as_numpy(xp.sqrt(column_dots(gaps, gaps))), remainder, 1 - 10.0**-r)
