"""Ridge regression: ``(XᵀX + λI) Z = B`` for many right-hand sides, exactly or by conjugate
gradients.

For few features one Cholesky factor serves every block. For many, conjugate gradients run on all
columns at once, each with its own step and its own end. Text has a few strong directions (the mean,
the frequent words) and a flat rest, so the preconditioner is spectral: the randomized eigensolver
finds the strong directions, which are scaled down. On tf-idf rows it needs a quarter of the
iterations of a diagonal preconditioner.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from array_api_compat import array_namespace
from scipy.linalg import cho_factor, cho_solve

from rembrandt.linalg.blocks import (
    Block,
    cache_rows,
    column_dots,
    fused,
    inverse_of_lower,
    plus_product,
    spans,
)
from rembrandt.linalg.eigen import randomized_eigh
from rembrandt.progress import Report, silent

FLOOR = 1e-10  # added to the unit diagonal of a scaled matrix before it is factored
CHECKED = 8  # columns of an exact solve whose error is measured
# Ratio of the diagonal's entries from which conjugate gradients in float32 need scaled columns
UNEQUAL = 1e6


@dataclass
class _Solver:
    """What both solvers record: the largest error of a column in any solve, and the number of
    iterations.
    """

    residual: float = field(default=0.0, init=False)
    iterations: int = field(default=1, init=False)

    def _note(self, left: Block, sizes: Block) -> None:
        """Record the errors of finished columns, as squares and relative to ``sizes``."""
        relative = _ratio(left, sizes)
        if relative.shape[0]:
            self.residual = max(
                self.residual, float(array_namespace(relative).max(relative)) ** 0.5
            )


@dataclass
class CholeskyRidge(_Solver):
    """``(G + λI)⁻¹ B`` by one factorisation of the Gram matrix ``G`` in float64.

    The matrix is scaled to a unit diagonal, so that columns of any length are solved alike, and
    `FLOOR` is added to it: without a ridge a repeated column makes it singular. ``residual`` is the
    largest error that this leaves in a column of any solve, ``‖B − (G + λI)Z‖ / ‖B‖`` in the norm
    of the inverse; at most `CHECKED` columns are measured.
    """

    gram: Any
    strength: float
    poor: ClassVar[float] = 0.01  # residual above which a solution is not reliable
    remedy: ClassVar[str] = (
        "some features are combinations of others, to rounding: raise ridge, or remove them"
    )

    def __post_init__(self) -> None:
        xp = array_namespace(self.gram)
        d = self.gram.shape[0]
        self.gram = xp.astype(self.gram, xp.float64, copy=False)
        identity = xp.eye(d, dtype=xp.float64, device=self.gram.device)
        A = self.gram + self.strength * identity
        lengths = xp.linalg.diagonal(A)
        self.scale = 1 / xp.sqrt(xp.where(lengths > 0, lengths, xp.ones_like(lengths)))[:, None]
        A *= self.scale
        A *= self.scale[:, 0]
        A += FLOOR * identity
        self.factor = (
            cho_factor(A, lower=True, check_finite=False)
            if isinstance(A, np.ndarray)
            else xp.linalg.cholesky(A)
        )

    def degrees_of_freedom(self, probes: Block) -> float:
        """``trace(G (G + λI)⁻¹) = d − λ‖T‖²``, the effective number of parameters."""
        xp = array_namespace(self.gram)
        if self.strength == 0:  # columns without entries do not count
            return float(xp.linalg.trace(self._solved(self.gram)))
        return float(self.gram.shape[0] - self.strength * xp.sum(self.inverse_root**2))

    @cached_property
    def inverse_root(self) -> Block:
        """``T`` with ``TTᵀ = (G + λI)⁻¹``: the leverage of a row x is ``‖xT‖²``."""
        lower = self.factor[0] if isinstance(self.factor, tuple) else self.factor
        return self.scale * inverse_of_lower(array_namespace(lower).tril(lower)).T

    def solve(self, B: Block) -> Block:
        xp = array_namespace(B)
        wide = xp.astype(B, xp.float64)
        Z = self._solved(wide)
        some = slice(None, None, max(1, B.shape[1] // CHECKED))
        R = wide[:, some] - self.gram @ Z[:, some] - self.strength * Z[:, some]
        self._note(column_dots(R, self._solved(R)), column_dots(wide[:, some], Z[:, some]))
        return xp.astype(Z, B.dtype)

    def _solved(self, B: Block) -> Block:
        if isinstance(B, np.ndarray):
            return self.scale * cho_solve(self.factor, self.scale * B, check_finite=False)
        return self.scale * array_namespace(B).cholesky_solve(self.scale * B, self.factor)


@dataclass
class SpectralPreconditioner:
    """``M⁻¹ = I + U diag(s/θ − 1) Uᵀ``: the strong directions ``U`` of eigenvalues ``θ`` scaled
    down to ``s``.
    """

    U: Block
    kept: Block  # s/θ, a column

    @classmethod
    def of(
        cls, gram: Callable[[Block], Block], strength: float, start: Block
    ) -> "SpectralPreconditioner":
        U, theta = randomized_eigh(gram, start, rank=max(1, start.shape[1] - 8), n_iter=2)
        xp = array_namespace(U)
        theta = theta + strength
        return cls(U, xp.astype(theta[-1] / theta, U.dtype)[:, None])

    def within(self, R: Block, lengths: Block) -> tuple[Block, Block]:
        """``C`` with ``M⁻¹R = R + UC``, and ``RᵀM⁻¹R`` of each column, given the squared lengths of
        the columns.
        """
        xp = array_namespace(R)
        T = self.U.T @ R
        inside = T * T
        outside = lengths - xp.sum(inside, axis=0)
        outside = xp.where(
            outside > 0, outside, xp.zeros_like(outside)
        )  # negative values are rounding errors
        return (self.kept - 1.0) * T, outside + xp.sum(self.kept * inside, axis=0)


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
        """``trace(XᵀX (XᵀX + λI)⁻¹) = d − λ trace((XᵀX + λI)⁻¹)``, by Hutchinson's estimate over
        random signs.

        ``residual`` and ``iterations`` are about the solutions that are used, so the probes do not
        count in them.
        """
        before = self.residual, self.iterations
        d, r = probes.shape
        trace = float(array_namespace(probes).sum(column_dots(probes, self.solve(probes)))) / r
        self.residual, self.iterations = before
        return max(0.0, d - (self.strength if self.ridge is None else self.ridge) * trace)

    def solve(self, B: Block) -> Block:
        xp = array_namespace(B)
        dtype = B.dtype
        B = B if self.scale is None else self.scale * B
        sizes = column_dots(B, B)
        goal = self.tol**2 * sizes
        solution = None  # of the columns that are done
        active = xp.arange(B.shape[1], device=B.device)  # columns that have not reached their goal
        Z, R = xp.zeros_like(B), xp.asarray(B, copy=True)
        U = self.precondition.U
        C, rs = self.precondition.within(R, sizes)
        P = plus_product(R, U, C)
        left = sizes
        for done in range(self.max_iter):
            self.report("solving", done, self.max_iter)
            self.iterations = max(self.iterations, done + 1)
            AP = self.gram(P)
            step = xp.astype(_ratio(column_dots(P, R), _bend(P, AP, self.strength)), dtype)
            left = _advance(Z, R, P, AP, step, self.strength)
            del AP
            open_ = left > goal[active]
            n_open = int(xp.sum(xp.astype(open_, xp.int64)))
            if n_open == 0 or done + 1 == self.max_iter:
                break
            # Dropping columns copies the rest, which pays when a quarter are done.
            if n_open <= 0.75 * active.shape[0]:
                self._note(left[~open_], sizes[active][~open_])
                solution = xp.zeros_like(B) if solution is None else solution
                solution[:, active] = Z
                active, Z, R, P, rs = (
                    active[open_],
                    Z[:, open_],
                    R[:, open_],
                    P[:, open_],
                    rs[open_],
                )
                left = left[open_]
            old = rs
            C, rs = self.precondition.within(R, left)
            _redirect(P, R, U, C, xp.astype(_ratio(rs, old), dtype))
        self.report("solving", self.max_iter, self.max_iter)
        self._note(left, sizes[active])
        if solution is not None:
            solution[:, active] = Z
            Z = solution
        return Z if self.scale is None else self.scale * Z


def scaled(
    gram: Callable[[Block], Block], strength: float, scale: Block
) -> Callable[[Block], Block]:
    """``Z ↦ S(A + λI)S Z``."""
    return lambda Z: scale * (gram(scale * Z) + strength * (scale * Z))


def _bend(P: Block, AP: Block, strength: float) -> Block:
    """``Pᵀ(AP + λP)`` of each column."""
    if kernels := fused(P, AP):
        return kernels.bend(P, AP, strength)
    return column_dots(P, AP) + strength * column_dots(P, P)


def _advance(Z: Block, R: Block, P: Block, AP: Block, alpha: Block, strength: float) -> Block:
    """``Z += αP`` and ``R −= α(AP + λP)`` in place; return the squared lengths of the new
    residuals.
    """
    if kernels := fused(Z, R, P, AP):
        return kernels.advance(Z, R, P, AP, alpha, strength)
    xp = array_namespace(Z)
    left = xp.zeros((Z.shape[1],), dtype=xp.float64, device=Z.device)
    for rows in spans(Z.shape[0], cache_rows(Z)):
        step = alpha * P[rows]
        Z[rows] += step
        step *= strength
        R[rows] -= step
        R[rows] -= alpha * AP[rows]
        left += xp.sum(R[rows] * R[rows], axis=0)
    return left


def _redirect(P: Block, R: Block, U: Block, C: Block, beta: Block) -> None:
    """``P = R + UC + βP`` in place."""
    if kernels := fused(P, R):
        kernels.redirect(P, R, beta)
        plus_product(P, U, C, out=P)
        return
    for rows in spans(P.shape[0], cache_rows(P)):
        P[rows] *= beta
        P[rows] += R[rows]
        P[rows] += U[rows] @ C


def _ratio(a: Block, b: Block) -> Block:
    """``a / b``, or zero where ``b`` is zero: a column that is solved exactly takes no further
    step.
    """
    xp = array_namespace(a)
    return xp.where(b > 0, a / xp.where(b > 0, b, xp.ones_like(b)), xp.zeros_like(a))
