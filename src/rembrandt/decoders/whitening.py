"""Mapped features made white: the fixed second-order matrix of the logistic fit, applied once, not at every step."""

from dataclasses import dataclass
from typing import Any

from array_api_compat import array_namespace
from numpy.typing import NDArray

from rembrandt.engines.place import Place
from rembrandt.features.fourier import FourierMap
from rembrandt.linalg.blocks import Block, inverse_factor


@dataclass(frozen=True)
class Whitening:
    """``h ↦ [(φ(h) − μ) T, 1]`` with unit covariance; the 1 carries the bias and is already white."""

    mean: Block
    T: Block
    fourier: FourierMap | None

    @classmethod
    def of(cls, H: Block, fourier: FourierMap | None, floor: float, weights: NDArray[Any], place: Place) -> "Whitening":
        xp = array_namespace(H)
        D = H.shape[1] if fourier is None else fourier.size
        w, total = place.asarray(weights), float(weights.sum())
        covariance = xp.zeros((D, D), dtype=xp.float64, device=H.device)
        mean = xp.zeros((D,), dtype=xp.float64, device=H.device)
        for rows in place.row_spans(H.shape[0], D):
            Phi = xp.astype(H[rows] if fourier is None else fourier(H[rows]), xp.float64)
            mean += w[rows] @ Phi
            Phi = Phi * xp.sqrt(w[rows])[:, None]
            covariance += Phi.T @ Phi
        return cls.of_moments(mean / total, covariance / total, fourier, floor, H.dtype)

    @classmethod
    def of_moments(
        cls, mean: Block, square: Block, fourier: FourierMap | None, floor: float, dtype: Any
    ) -> "Whitening":
        """From the mean of the features and that of their products with each other."""
        xp, D = array_namespace(mean), mean.shape[0]
        covariance = square - mean[:, None] * mean[None, :]
        level = max(floor * float(xp.linalg.trace(covariance)) / D, 1e-12)
        T = inverse_factor(covariance + level * xp.eye(D, dtype=xp.float64, device=mean.device))
        return cls(xp.astype(mean, dtype), xp.asarray(xp.astype(T, dtype), copy=True), fourier)

    @property
    def size(self) -> int:
        """How many features come out, without the constant."""
        return int(self.T.shape[0])

    def __call__(self, H: Block) -> Block:
        xp = array_namespace(H)
        Phi = H if self.fourier is None else self.fourier(H)
        ones = xp.ones((H.shape[0], 1), dtype=self.T.dtype, device=H.device)
        return xp.concat([(Phi - self.mean) @ self.T, ones], axis=1)

    def undo(self, Q: Block) -> tuple[Block, Block]:
        """Weights and bias for ``φ(h)`` from those for the whitened features."""
        weights = self.T @ Q[: self.size]
        return weights, Q[self.size] - self.mean @ weights


class MappedRows:
    """The whitened features of rows that are not in memory, made when they are asked for."""

    def __init__(self, whitening: Whitening, H: Block) -> None:
        self.whitening, self.H, self.dtype = whitening, H, H.dtype

    def __getitem__(self, rows: Any) -> Block:
        return self.whitening(self.H[rows])


def all_features(whitening: Whitening, H: Block, place: Place) -> Block:
    """The whitened features of every row."""
    xp = array_namespace(H)
    F = xp.empty((H.shape[0], whitening.size + 1), dtype=H.dtype, device=H.device)
    for rows in place.row_spans(H.shape[0], whitening.size):
        F[rows] = whitening(H[rows])
    return F
