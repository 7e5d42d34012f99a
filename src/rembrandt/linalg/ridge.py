"""Ridge regression: ``(XᵀX + λI) Z = B`` for many right-hand sides.

For few features one Cholesky factor serves every block, and the solution is exact. For many,
conjugate gradients run on all columns at once, each with its own step and its own end. Text has a
few strong directions (the mean, the frequent words) and a flat rest, so the preconditioner is
spectral: the randomized eigensolver finds the strong directions, which are scaled down. On tf-idf
rows it needs a quarter of the iterations of a diagonal preconditioner.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from array_api_compat import array_namespace
from scipy.linalg import cho_factor, cho_solve

from rembrandt.forks import cached_property
from rembrandt.linalg import Array
from rembrandt.linalg.blocks import (
    Block,
    cache_rows,
    check_finite,
    column_dots,
    for_each_span,
    fused,
    inverse_of_lower,
    plus_product,
    scaled_rows,
    spans,
)
from rembrandt.linalg.eigen import randomized_eigh
from rembrandt.linalg.threads import own_threads
from rembrandt.progress import Report, silent

# Added to the unit diagonal of a scaled matrix before it is factored.
DIAGONAL_SHIFT = 1e-10

# Factor by which that grows for a matrix that still has no factor.
SHIFT_GROWTH = 100.0

# Columns of an exact solve whose error is measured: all would cost more than the solve.
MEASURED_COLUMNS = 8

# Columns of an exact solve that one thread solves, and rows whose triangle is inverted.
SOLVED_COLUMNS = 512
SOLVED_ROWS = 256

# Ratio of the diagonal's entries from which conjugate gradients in float32 need scaled columns.
UNEQUAL = 1e6

# Columns of the start of a preconditioner beyond the directions that it keeps.
PRECONDITIONER_OVERSAMPLES = 8

# Finished columns are dropped when at most this share is unfinished: dropping copies the others.
MAX_OPEN_SHARE = 0.75


@dataclass
class _Solver:
    """What both solvers record.

    ``residual`` is the largest error of a column in any solve, ``iterations`` the largest number of
    iterations.
    """

    residual: float = field(default=0.0, init=False)
    iterations: int = field(default=1, init=False)

    def _note(self, squared_errors: Block, squared_norms: Block) -> None:
        """Record the errors of finished columns, relative to their right-hand sides."""
        relative = _ratio(squared_errors, squared_norms)
        if relative.shape[0] == 0:
            return
        xp = array_namespace(relative)
        largest = float(xp.max(relative)) ** 0.5
        self.residual = max(self.residual, largest)


@dataclass
class CholeskyRidge(_Solver):
    """``(G + λI)⁻¹ B`` by one factorisation of the Gram matrix ``G`` in float64.

    The matrix is scaled to a unit diagonal, so that columns of any length are solved alike, and
    `DIAGONAL_SHIFT` is added to it: without a ridge a repeated column makes it singular.
    ``residual`` is the largest error that this leaves in a column of any solve,
    ``‖B − (G + λI)Z‖ / ‖B‖`` in the norm of the inverse; at most `MEASURED_COLUMNS` columns are
    measured.
    """

    gram: Any
    strength: float
    poor: ClassVar[float] = 0.01  # residual above which a solution is not reliable
    remedy: ClassVar[str] = (
        "some features are combinations of others, to rounding: raise ridge, or remove them"
    )

    def __post_init__(self) -> None:
        xp = array_namespace(self.gram)
        self.gram = xp.astype(self.gram, xp.float64, copy=False)
        size = self.gram.shape[0]
        identity = xp.eye(size, dtype=xp.float64, device=self.gram.device)
        A = self.gram + self.strength * identity
        diagonal = xp.linalg.diagonal(A)
        squared_lengths = xp.where(diagonal > 0, diagonal, xp.ones_like(diagonal))
        self.scale = 1 / xp.sqrt(squared_lengths)[:, None]
        A *= self.scale
        A *= self.scale[:, 0]
        A += DIAGONAL_SHIFT * identity
        self.factor = _cholesky(A)
        if self.factor is None:
            self.factor = _repaired_factor(A, diagonal > 0)

    def degrees_of_freedom(self, probes: Block) -> float:
        """``trace(G (G + λI)⁻¹) = d − λ‖T‖²``, the effective number of parameters."""
        xp = array_namespace(self.gram)
        if self.strength == 0:  # columns without entries do not count
            trace = xp.linalg.trace(self._solved(self.gram))
            return float(trace)
        squared_norm = xp.sum(self.inverse_root**2)
        return float(self.gram.shape[0] - self.strength * squared_norm)

    @cached_property
    def inverse_root(self) -> Block:
        """``T`` with ``TTᵀ = (G + λI)⁻¹``: the leverage of a row x is ``‖xT‖²``."""
        factor: Any = self.factor
        if isinstance(factor, tuple):  # SciPy adds a flag that says which triangle it is
            factor = factor[0]
        xp = array_namespace(factor)
        inverse = inverse_of_lower(xp.tril(factor))
        return self.scale * inverse.T

    def solve(self, B: Block) -> Block:
        """Return ``(G + λI)⁻¹ B`` in the precision of ``B``, and record its error."""
        xp = array_namespace(B)
        B64 = xp.astype(B, xp.float64, copy=False)
        Z64 = self._solved(B64)
        step = max(1, B.shape[1] // MEASURED_COLUMNS)
        measured_B = B64[:, ::step]
        measured_Z = Z64[:, ::step]
        R = measured_B - self.gram @ measured_Z - self.strength * measured_Z
        squared_errors = column_dots(R, self._solved(R))
        squared_norms = column_dots(measured_B, measured_Z)
        self._note(squared_errors, squared_norms)
        return xp.astype(Z64, B.dtype, copy=False)

    def _solved(self, B: Block) -> Block:
        """``(G + λI)⁻¹ B`` in float64."""
        scaled_B = scaled_rows(B, self.scale)
        if isinstance(B, np.ndarray):
            scaled_Z = _solve_columns(self.factor, scaled_B)
        else:
            xp = array_namespace(B)
            scaled_Z = xp.cholesky_solve(scaled_B, self.factor)
        return scaled_rows(scaled_Z, self.scale, out=scaled_Z)


def _solve_columns(factor: Any, B: Array) -> Array:
    """Solve ``LLᵀ Z = B`` in place, some columns on each thread.

    SciPy's solver would hold the interpreter's lock. Here nearly all of the work is products, which
    do not hold it. Which columns and rows go together does not depend on the number of threads.
    """
    if B.shape[1] <= SOLVED_COLUMNS:
        return cho_solve(factor, B, overwrite_b=True, check_finite=False)
    L = np.tril(factor[0])
    blocks = list(spans(len(L), SOLVED_ROWS))
    inverses = [inverse_of_lower(L[rows, rows]) for rows in blocks]

    def solve(columns: slice) -> None:
        Z = np.ascontiguousarray(B[:, columns])
        for rows, inverse in zip(blocks, inverses, strict=True):
            before = slice(0, rows.start)
            Z[rows] = inverse @ (Z[rows] - L[rows, before] @ Z[before])
        for rows, inverse in zip(blocks[::-1], inverses[::-1], strict=True):
            after = slice(rows.stop, len(L))
            Z[rows] = inverse.T @ (Z[rows] - L[after, rows].T @ Z[after])
        B[:, columns] = Z

    with own_threads():
        for_each_span(solve, B.shape[1], SOLVED_COLUMNS)
    return B


def _cholesky(A: Block) -> Any:
    """Return the Cholesky factor as the solvers take it, None if ``A`` is not positive definite."""
    try:
        if isinstance(A, np.ndarray):
            factor = cho_factor(A, lower=True, check_finite=False)
            if not np.isfinite(np.diagonal(factor[0])).all():
                check_finite(A)
            return factor
        xp = array_namespace(A)
        return xp.linalg.cholesky(A)
    except (np.linalg.LinAlgError, RuntimeError):  # of SciPy, and of torch
        check_finite(A)
        return None


def _repaired_factor(A: Block, has_length: Block) -> Any:
    """Return the factor of a positive definite matrix near one that rounding made indefinite.

    That is the Gram matrix of centred rows that are nearly equal: only rounding errors are left of
    them. Columns without a positive length are left out, and the diagonal is raised until the
    matrix has a factor. ``residual`` of the solver tells how far that is off.
    """
    xp = array_namespace(A)
    identity = xp.eye(A.shape[0], dtype=A.dtype, device=A.device)
    is_usable = has_length[:, None] & has_length[None, :]
    usable = xp.where(is_usable, A, identity)
    shift = DIAGONAL_SHIFT
    largest = float(xp.max(xp.sum(xp.abs(usable), axis=1)))  # no eigenvalue is larger
    while shift < largest:
        shift *= SHIFT_GROWTH
        factor = _cholesky(usable + shift * identity)
        if factor is not None:
            return factor
    return _cholesky(usable + 2 * largest * identity)


@dataclass
class SpectralPreconditioner:
    """``M⁻¹ = I + U diag(s/θ − 1) Uᵀ``.

    The strong directions ``U`` of eigenvalues ``θ`` are scaled down to ``s``.
    """

    U: Block
    kept: Block  # s/θ, a column

    @classmethod
    def of(
        cls, gram: Callable[[Block], Block], strength: float, start: Block
    ) -> "SpectralPreconditioner":
        """Find the strong directions of ``gram + strength · I`` from a random block ``start``."""
        rank = max(1, start.shape[1] - PRECONDITIONER_OVERSAMPLES)
        U, theta = randomized_eigh(gram, start, rank=rank, n_iter=2)
        xp = array_namespace(U)
        theta = theta + strength
        kept = theta[-1] / theta
        return cls(U, xp.astype(kept, U.dtype)[:, None])

    def within(self, R: Block, lengths: Block) -> tuple[Block, Block]:
        """Return ``C`` with ``M⁻¹R = R + UC``, and ``RᵀM⁻¹R`` of each column.

        ``lengths`` are the squared lengths of the columns of ``R``.
        """
        xp = array_namespace(R)
        coordinates = self.U.T @ R
        inside = coordinates * coordinates
        outside = lengths - xp.sum(inside, axis=0)
        # Negative values are rounding errors.
        outside = xp.where(outside > 0, outside, xp.zeros_like(outside))
        C = (self.kept - 1.0) * coordinates
        energy = outside + xp.sum(self.kept * inside, axis=0)
        return C, energy


@dataclass
class ConjugateGradientRidge(_Solver):
    """``(XᵀX + λI)⁻¹ B`` by preconditioned conjugate gradients, independently for every column.

    The length of a step is ``PᵀR / PᵀAP``, which minimises the error in the norm of ``A`` along
    ``P`` whatever rounding has made of the direction: no iterate is worse than the one before.
    ``residual`` is the largest final relative residual of any column in any solve.

    For columns of very different lengths `scaled` gives a ``gram`` of ``S(XᵀX + λI)S`` with a unit
    diagonal, to be used with no ``strength``; ``scale`` is ``S``, a column. Residuals are then
    those of the scaled system.
    """

    gram: Callable[[Block], Block]
    strength: float
    precondition: SpectralPreconditioner
    tol: float = 1e-3
    max_iter: int = 10
    report: Report = silent
    scale: Block | None = None
    ridge: float | None = None  # λ where ``gram`` is scaled
    poor: ClassVar[float] = 0.5  # residual above which a solution is not reliable
    remedy: ClassVar[str] = "raise max_iter, or ridge"

    def degrees_of_freedom(self, probes: Block) -> float:
        """``trace(XᵀX (XᵀX + λI)⁻¹) = d − λ trace((XᵀX + λI)⁻¹)``, by Hutchinson's estimate.

        ``probes`` are random signs. ``residual`` and ``iterations`` are about the solutions that
        are used, so the probes do not count in them.
        """
        residual = self.residual
        iterations = self.iterations
        size, n_probes = probes.shape
        xp = array_namespace(probes)
        dots = column_dots(probes, self.solve(probes))
        trace = float(xp.sum(dots)) / n_probes
        self.residual = residual
        self.iterations = iterations
        ridge = self.strength if self.ridge is None else self.ridge
        return max(0.0, size - ridge * trace)

    def solve(self, B: Block) -> Block:
        """Return ``(XᵀX + λI)⁻¹ B``, and record the residual and the number of iterations."""
        xp = array_namespace(B)
        dtype = B.dtype
        if self.scale is not None:
            B = self.scale * B
        squared_norms = column_dots(B, B)
        goal = self.tol**2 * squared_norms
        solution = None  # of the columns that were dropped because they had reached their goal
        active = xp.arange(B.shape[1], device=B.device)  # the other columns
        Z = xp.zeros_like(B)
        R = xp.asarray(B, copy=True)
        U = self.precondition.U
        C, energy = self.precondition.within(R, squared_norms)
        P = plus_product(R, U, C)
        squared_errors = squared_norms
        for iteration in range(self.max_iter):
            self.report("solving", iteration, self.max_iter)
            self.iterations = max(self.iterations, iteration + 1)
            AP = self.gram(P)
            step = _ratio(column_dots(P, R), _bend(P, AP, self.strength))
            squared_errors = _advance(Z, R, P, AP, xp.astype(step, dtype), self.strength)
            del AP  # as large as the block, and not needed in the next product
            is_open = squared_errors > goal[active]
            n_open = int(xp.sum(xp.astype(is_open, xp.int64)))
            if n_open == 0 or iteration + 1 == self.max_iter:
                break
            if n_open <= MAX_OPEN_SHARE * active.shape[0]:
                self._note(squared_errors[~is_open], squared_norms[active][~is_open])
                if solution is None:
                    solution = xp.zeros_like(B)
                solution[:, active] = Z
                active = active[is_open]
                Z = Z[:, is_open]
                R = R[:, is_open]
                P = P[:, is_open]
                energy = energy[is_open]
                squared_errors = squared_errors[is_open]
            previous_energy = energy
            C, energy = self.precondition.within(R, squared_errors)
            beta = _ratio(energy, previous_energy)
            _redirect(P, R, U, C, xp.astype(beta, dtype))
        self.report("solving", self.max_iter, self.max_iter)
        self._note(squared_errors, squared_norms[active])
        if solution is not None:
            solution[:, active] = Z
            Z = solution
        if self.scale is not None:
            Z = self.scale * Z
        return Z


def scaled(
    gram: Callable[[Block], Block], strength: float, scale: Block
) -> Callable[[Block], Block]:
    """``Z ↦ S(A + λI)S Z``."""

    def scaled_gram(Z: Block) -> Block:
        SZ = scale * Z
        return scale * (gram(SZ) + strength * SZ)

    return scaled_gram


def _bend(P: Block, AP: Block, strength: float) -> Block:
    """``Pᵀ(AP + λP)`` of each column."""
    kernels = fused(P, AP)
    if kernels is not None:
        return kernels.bend(P, AP, strength)
    return column_dots(P, AP) + strength * column_dots(P, P)


def _advance(Z: Block, R: Block, P: Block, AP: Block, alpha: Block, strength: float) -> Block:
    """``Z += αP`` and ``R −= α(AP + λP)`` in place; return the squared norms of the new ``R``."""
    kernels = fused(Z, R, P, AP)
    if kernels is not None:
        return kernels.advance(Z, R, P, AP, alpha, strength)
    xp = array_namespace(Z)
    squared_norms = xp.zeros((Z.shape[1],), dtype=xp.float64, device=Z.device)
    for rows in spans(Z.shape[0], cache_rows(Z)):
        step = alpha * P[rows]
        Z[rows] += step
        step *= strength
        R[rows] -= step
        R[rows] -= alpha * AP[rows]
        squares = R[rows] * R[rows]
        squared_norms += xp.sum(squares, axis=0)
    return squared_norms


def _redirect(P: Block, R: Block, U: Block, C: Block, beta: Block) -> None:
    """``P = R + UC + βP`` in place."""
    kernels = fused(P, R)
    if kernels is not None:
        kernels.redirect(P, R, beta)
        plus_product(P, U, C, out=P)
        return
    for rows in spans(P.shape[0], cache_rows(P)):
        P[rows] *= beta
        P[rows] += R[rows]
        P[rows] += U[rows] @ C


def _ratio(a: Block, b: Block) -> Block:
    """``a / b``, or zero where ``b`` is zero.

    A column that is solved exactly takes no further step.
    """
    xp = array_namespace(a)
    is_positive = b > 0
    divisor = xp.where(is_positive, b, xp.ones_like(b))
    return xp.where(is_positive, a / divisor, xp.zeros_like(a))
