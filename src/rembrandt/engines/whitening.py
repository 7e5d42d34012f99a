"""Whitened features: the fixed second-order matrix of the logistic fit, applied to the rows
once.
"""

from dataclasses import dataclass
from typing import Any

from array_api_compat import array_namespace

from rembrandt.engines.statistics import RidgeStatistics
from rembrandt.features.fourier import FourierMap
from rembrandt.linalg.blocks import Block, inverse_of_lower, spans

# Rows mapped at a time: bounds the mapped features beside the whitened ones.
MAPPED_BLOCK_ROWS = 8192
# Smallest level added to the covariance, for features that are all constant.
SMALLEST_LEVEL = 1e-12


@dataclass(frozen=True)
class Whitening:
    """``h ↦ [(φ(h) − μ) T, 1]`` with unit covariance; the 1 carries the bias."""

    mean: Block
    T: Block
    fourier: FourierMap | None

    @classmethod
    def of(cls, moments: RidgeStatistics, floor: float, dtype: Any) -> "Whitening":
        """Whiten by the covariance plus ``floor`` times its mean eigenvalue."""
        xp = array_namespace(moments.gram)
        D = moments.gram.shape[0]
        covariance = moments.gram / moments.total
        trace = float(xp.linalg.trace(covariance))
        level = max(floor * trace / D, SMALLEST_LEVEL)
        covariance = covariance + level * xp.eye(D, dtype=xp.float64, device=covariance.device)
        # TTᵀ is the inverse of the covariance.
        T = inverse_of_lower(xp.linalg.cholesky(covariance)).T
        return cls(
            mean=xp.astype(moments.mean, dtype),
            T=xp.asarray(xp.astype(T, dtype), copy=True),
            fourier=moments.fourier,
        )

    @property
    def size(self) -> int:
        """Number of whitened features, without the constant."""
        return int(self.T.shape[0])

    def __call__(self, H: Block) -> Block:
        xp = array_namespace(H)
        Phi = H
        if self.fourier is not None:
            Phi = self.fourier(H)
        white = (Phi - self.mean) @ self.T
        ones = xp.ones((H.shape[0], 1), dtype=self.T.dtype, device=H.device)
        return xp.concat([white, ones], axis=1)

    def all_rows(self, H: Block) -> Block:
        """Return the whitened features of every row, computed some rows at a time."""
        xp = array_namespace(H)
        F = xp.empty((H.shape[0], self.size + 1), dtype=H.dtype, device=H.device)
        for rows in spans(H.shape[0], MAPPED_BLOCK_ROWS):
            F[rows] = self(H[rows])
        return F

    def undo(self, Q: Block) -> tuple[Block, Block]:
        """Convert weights of whitened features to weights and biases of ``φ(h)``."""
        weights = self.T @ Q[: self.size]
        bias = Q[self.size] - self.mean @ weights
        return weights, bias


class WhitenedRows:
    """Whitened features of rows that are on disk, computed on access."""

    def __init__(self, whitening: Whitening, H: Block) -> None:
        self.whitening = whitening
        self.H = H
        self.dtype = H.dtype

    def __getitem__(self, rows: Any) -> Block:
        return self.whitening(self.H[rows])
