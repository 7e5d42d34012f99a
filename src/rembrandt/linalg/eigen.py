"""The randomized eigensolver for any symmetric operator.

Halko, Martinsson & Tropp, "Finding structure with randomness", SIAM Review 2011; the final step is
that of Mineiro & Karampatziakis, "Fast Label Embeddings via Randomized Linear Algebra", ECML 2015
(Algorithms 1 and 2).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from rembrandt.linalg.blocks import (
    Block,
    as_numpy,
    column_dots,
    eigh,
    gram64,
    inverse_root,
    orthonormalize,
)

Operator = Callable[[Block], Block]


def gaussian(size: int, width: int, seed: int) -> NDArray[np.float32]:
    """Draw the random block from which a search starts.

    It is drawn by columns, so that a wider block starts with the columns of a narrower one of the
    same seed.
    """
    rng = np.random.default_rng(seed)
    return np.ascontiguousarray(rng.standard_normal((width, size), dtype=np.float32).T)


def randomized_eigh(
    operator: Operator, start: Block, rank: int, n_iter: int = 1, metric: Operator | None = None
) -> tuple[Block, Block]:
    """Return the top ``rank`` eigenvectors and eigenvalues of a symmetric positive operator.

    ``start`` has ``rank`` plus a few extra columns. The operator is applied ``n_iter + 1`` times.
    Directions with an eigenvalue of zero to rounding are left out, so there may be fewer than
    ``rank`` columns. For an operator that is symmetric in the inner product ``xᵀ metric(y)`` the
    eigenvectors are orthonormal in it.
    """
    # A tall Gaussian block is nearly orthogonal already.
    tall = n_iter > 0 and 2 * start.shape[1] <= start.shape[0]
    Q = start if tall else orthonormalize(start, metric)
    for _ in range(n_iter):
        Q = orthonormalize(operator(Q), metric)
    AQ = operator(Q)
    xp = array_namespace(AQ)
    # The paper's last step takes Σ² from (AQ)ᵀ(AQ), exact on the range of Q. Nyström's formula from
    # the same block, AQ (QᵀAQ)⁻¹ (AQ)ᵀ, is exact on the range of A^½ Q: half an iteration more at
    # no cost.
    weighted = AQ if metric is None else metric(AQ)
    root = inverse_root(gram64(Q, weighted), xp.finfo(AQ.dtype).eps)
    sigma, E = _leading(root.T @ gram64(AQ, weighted) @ root, rank, xp.finfo(AQ.dtype).eps)
    V = AQ @ xp.astype(root @ E / xp.sqrt(sigma), AQ.dtype)
    return (fix_signs(V) if V.shape[1] else V), sigma


def ritz(operator: Operator, start: Block, rank: int, n_iter: int = 1) -> tuple[Block, Block]:
    """Do the same for an operator that is only approximately linear and symmetric.

    The symmetric part of ``QᵀAQ`` is diagonalised on the basis before the last application. That is
    half an iteration less than Nyström's formula, which divides by the small eigenvalues of that
    matrix and amplifies what is not symmetric. Directions without a positive eigenvalue are left
    out.
    """
    Q = orthonormalize(start)
    for _ in range(n_iter):
        Q = orthonormalize(operator(Q))
    xp = array_namespace(Q)
    sigma, E = _leading(gram64(Q, operator(Q)), rank, xp.finfo(Q.dtype).eps)
    V = Q @ xp.astype(E, Q.dtype)
    return (fix_signs(V) if V.shape[1] else V), sigma


def _leading(A: Block, rank: int, eps: float) -> tuple[Block, Block]:
    """The largest eigenvalues of the symmetric part of ``A``, at most ``rank`` and without zeros,
    and their vectors.
    """
    xp = array_namespace(A)
    sigma, E = eigh(0.5 * (A + A.T))
    sigma, E = xp.flip(sigma, axis=0)[:rank], xp.flip(E, axis=1)[:, :rank]
    present = sigma > eps * xp.max(sigma) if sigma.shape[0] else sigma > 0
    return sigma[present], E[:, present]


def fix_signs(V: Block) -> Block:
    """Make the largest entry of each column positive, so that signs are reproducible."""
    xp = array_namespace(V)
    largest = xp.max(V, axis=0)
    smallest = xp.min(V, axis=0)
    return V * xp.astype(
        xp.where(largest >= -smallest, xp.ones_like(largest), -xp.ones_like(largest)), V.dtype
    )


@dataclass(frozen=True)
class Certificate:
    """The error of an approximate eigenbasis.

    ``residuals[i] = ‖A vᵢ − σᵢ vᵢ‖``: an exact eigenvalue lies within that distance of ``σᵢ``.
    ``remainder``: with the probability ``confidence`` an upper bound of ``‖A − V diag(σ) Vᵀ‖₂``, so
    that every eigenvalue left out is below it. It is too large by a factor of 2 or 3 as a rule, and
    of ``(8 √c)^¼`` at most, where ``c`` is the size of ``A``. A remainder below ``σᵢ`` shows that
    no direction stronger than the first i was missed; one above ``σᵢ`` shows nothing.
    """

    residuals: NDArray[np.float64]
    remainder: float
    confidence: float


def certify(
    operator: Operator, V: Block, sigma: Block, probes: Block, n_steps: int = 4
) -> Certificate:
    """Measure the error of ``(V, sigma)`` by applying ``operator`` to ``[V, probes]`` and its
    images of the probes.

    ``probes`` are Gaussian columns ``ω`` that are independent of the search. With ``E = A − V
    diag(σ) Vᵀ`` the largest ``10 √(2/π) ‖E^q ω‖`` bounds ``‖E‖^q`` (Halko et al., Lemma 4.1, for
    the q-th power); ``n_steps`` is q.
    """
    xp = array_namespace(V)
    k, r = V.shape[1], probes.shape[1]
    weights = xp.astype(sigma, V.dtype)
    image = operator(xp.concat([V, probes], axis=1))
    gaps = image[:, :k] - V * weights
    image, growth = image[:, k:], np.zeros(r)  # growth: log ‖E^q ω‖, as powers would overflow
    for step in range(n_steps):
        image = (operator(probes) if step else image) - V @ (weights[:, None] * (V.T @ probes))
        lengths = xp.sqrt(column_dots(image, image)) + 1e-30
        growth += np.log(as_numpy(lengths))
        probes = image / xp.astype(lengths, image.dtype)
    remainder = float(np.exp((np.log(10 * (2 / np.pi) ** 0.5) + growth.max()) / n_steps))
    return Certificate(as_numpy(xp.sqrt(column_dots(gaps, gaps))), remainder, 1 - 10.0**-r)
