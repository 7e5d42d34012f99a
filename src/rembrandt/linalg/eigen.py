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
Eigenpairs = tuple[Block, Block]  # vectors in columns, and values


def gaussian(size: int, width: int, seed: int) -> NDArray[np.float32]:
    """Draw the random block from which a search starts.

    It is drawn by columns, so that a wider block starts with the columns of a narrower one of the
    same seed.
    """
    rng = np.random.default_rng(seed)
    columns = rng.standard_normal((width, size), dtype=np.float32)
    return np.ascontiguousarray(columns.T)


def randomized_eigh(
    operator: Operator,
    start: Block,
    rank: int,
    n_iter: int = 1,
    metric: Operator | None = None,
) -> Eigenpairs:
    """Return the top ``rank`` eigenvectors and eigenvalues of a symmetric positive operator.

    ``start`` has ``rank`` plus a few extra columns. The operator is applied ``n_iter + 1`` times.
    Directions with an eigenvalue of zero to rounding are left out, so there may be fewer than
    ``rank`` columns. For an operator that is symmetric in the inner product ``xᵀ metric(y)`` the
    eigenvectors are orthonormal in it.
    """
    n_rows, n_columns = start.shape
    is_tall = 2 * n_columns <= n_rows
    Q = start
    if n_iter < 1 or not is_tall:  # a tall Gaussian block is nearly orthogonal already
        Q = orthonormalize(start, metric)
    for _ in range(n_iter):
        Q = orthonormalize(operator(Q), metric)
    AQ = operator(Q)
    V, sigma = _nystrom(Q, AQ, rank, metric)
    if V.shape[1] > 0:
        V = fix_signs(V)
    return V, sigma


def _nystrom(Q: Block, AQ: Block, rank: int, metric: Operator | None) -> Eigenpairs:
    """Return the leading eigenpairs of ``AQ (QᵀAQ)⁻¹ (AQ)ᵀ``.

    The paper's last step takes Σ² from ``(AQ)ᵀ(AQ)``, exact on the range of ``Q``. Nyström's
    formula from the same block is exact on the range of ``A^½ Q``: half an iteration more at no
    cost.
    """
    xp = array_namespace(AQ)
    eps = xp.finfo(AQ.dtype).eps
    weighted = AQ
    if metric is not None:
        weighted = metric(AQ)
    root = inverse_root(gram64(Q, weighted), eps)
    squared = root.T @ gram64(AQ, weighted) @ root
    sigma, E = _leading(squared, rank, eps)
    coefficients = root @ E / xp.sqrt(sigma)
    V = AQ @ xp.astype(coefficients, AQ.dtype)
    return V, sigma


def ritz(operator: Operator, start: Block, rank: int, n_iter: int = 1) -> Eigenpairs:
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
    eps = xp.finfo(Q.dtype).eps
    projected = gram64(Q, operator(Q))
    sigma, E = _leading(projected, rank, eps)
    V = Q @ xp.astype(E, Q.dtype)
    if V.shape[1] > 0:
        V = fix_signs(V)
    return V, sigma


def _leading(A: Block, rank: int, eps: float) -> tuple[Block, Block]:
    """Return the largest eigenvalues of the symmetric part of ``A``, and their vectors.

    There are at most ``rank``, and eigenvalues of zero to rounding are left out.
    """
    xp = array_namespace(A)
    symmetric = 0.5 * (A + A.T)
    eigenvalues, eigenvectors = eigh(symmetric)
    sigma = xp.flip(eigenvalues, axis=0)[:rank]
    E = xp.flip(eigenvectors, axis=1)[:, :rank]
    if sigma.shape[0] == 0:
        return sigma, E
    present = sigma > eps * xp.max(sigma)
    return sigma[present], E[:, present]


def fix_signs(V: Block) -> Block:
    """Make the largest entry of each column positive, so that signs are reproducible."""
    xp = array_namespace(V)
    largest = xp.max(V, axis=0)
    smallest = xp.min(V, axis=0)
    positive = xp.ones_like(largest)
    signs = xp.where(largest >= -smallest, positive, -positive)
    return V * xp.astype(signs, V.dtype)


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
    operator: Operator,
    V: Block,
    sigma: Block,
    probes: Block,
    n_steps: int = 4,
) -> Certificate:
    """Measure the error of ``(V, sigma)``.

    The operator is applied to ``[V, probes]`` and to the images of the probes. ``probes`` are
    Gaussian columns ``ω`` that are independent of the search. With ``E = A − V diag(σ) Vᵀ`` the
    largest ``10 √(2/π) ‖E^q ω‖`` bounds ``‖E‖^q`` (Halko et al., Lemma 4.1, for the q-th power);
    ``n_steps`` is q.
    """
    xp = array_namespace(V)
    n_vectors = V.shape[1]
    n_probes = probes.shape[1]
    weights = xp.astype(sigma, V.dtype)
    image = operator(xp.concat([V, probes], axis=1))
    errors = image[:, :n_vectors] - V * weights
    image = image[:, n_vectors:]
    log_norms = np.zeros(n_probes)  # log ‖E^q ω‖, because the powers would overflow
    for step in range(n_steps):
        if step > 0:
            image = operator(probes)
        coefficients = V.T @ probes
        explained = V @ (weights[:, None] * coefficients)
        image = image - explained
        norms = xp.sqrt(column_dots(image, image)) + 1e-30
        log_norms += np.log(as_numpy(norms))
        probes = image / xp.astype(norms, image.dtype)
    log_factor = np.log(10 * (2 / np.pi) ** 0.5)
    log_bound = log_factor + log_norms.max()
    remainder = np.exp(log_bound / n_steps)
    residuals = xp.sqrt(column_dots(errors, errors))
    return Certificate(
        residuals=as_numpy(residuals),
        remainder=float(remainder),
        confidence=1 - 10.0**-n_probes,
    )
