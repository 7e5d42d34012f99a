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
        covariance = moments.gram / moments.total
        size = covariance.shape[0]
        trace = float(xp.linalg.trace(covariance))
        level = max(floor * trace / size, SMALLEST_LEVEL)
        identity = xp.eye(size, dtype=xp.float64, device=covariance.device)
        factor = xp.linalg.cholesky(covariance + level * identity)
        # TTᵀ is the inverse of the covariance.
        T = xp.astype(inverse_of_lower(factor).T, dtype)
        return cls(
            mean=xp.astype(moments.mean, dtype),
            T=xp.asarray(T, copy=True),
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
        shape = (H.shape[0], 1)
        ones = xp.ones(shape, dtype=self.T.dtype, device=H.device)
        return xp.concat([white, ones], axis=1)

    def all_rows(self, H: Block) -> Block:
        """Return the whitened features of every row, computed some rows at a time."""
        xp = array_namespace(H)
        n = H.shape[0]
        shape = (n, self.size + 1)
        F = xp.empty(shape, dtype=H.dtype, device=H.device)
        for rows in spans(n, MAPPED_BLOCK_ROWS):
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
