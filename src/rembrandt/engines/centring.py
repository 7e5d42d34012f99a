"""Centring, for every engine: X and Y without their weighted means, never formed.

The raw engine has the constant feature last, ``X̃ = [X, 1]``. With the feature means μ and the label means ν

    (X − 1μᵀ) Z = X̃ [Z; −μᵀZ]        (X − 1μᵀ)ᵀ U = (X̃ᵀU)₁…d − μ (X̃ᵀU)d₊₁

so the large terms of features with a large mean cancel row by row, before they are summed in single precision. Because
``(X − 1μᵀ)ᵀ D1 = 0``, products of features and labels need no ν.
"""

from typing import Any

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from rembrandt.engines.protocol import Engine
from rembrandt.linalg.blocks import Block


class Centred:
    """The engine ``raw`` over ``[X, 1]`` and Y, seen as X and Y without their means."""

    def __init__(self, raw: Engine) -> None:
        self.raw = raw
        self.n, self.d, self.c = raw.n, raw.d - 1, raw.c
        self._features, self._labels = raw.feature_sums()[:-1], raw.label_sums()
        self._total = float(raw.feature_sums()[-1]) or 1.0  # all weights may be zero
        self.means = raw.asarray(self._features / self._total), raw.asarray(self._labels / self._total)

    def gram(self, Z: Block) -> Block:
        return self._from_left(self.raw.gram(self._to_right(Z)))

    def cross(self, Q: Block) -> Block:
        return self._from_left(self.raw.cross(Q))

    def cross_t(self, Z: Block) -> Block:
        return self.raw.cross_t(self._to_right(Z))

    def label_gram(self, Q: Block) -> Block:
        nu = self.means[1]
        return self.raw.label_gram(Q) - self._total * nu[:, None] * (nu @ Q)

    def feature_norms(self) -> NDArray[np.float64]:
        return self.raw.feature_norms()[:-1] - self._features**2 / self._total

    def label_norms(self) -> NDArray[np.float64]:
        return self.raw.label_norms() - self._labels**2 / self._total

    def feature_sums(self) -> NDArray[np.float64]:
        return np.zeros(self.d)

    def label_sums(self) -> NDArray[np.float64]:
        return np.zeros(self.c)

    def gram_matrix(self) -> Block:
        G = self.raw.gram_matrix()
        return G[:-1, :-1] - G[:-1, -1:] * (G[-1, :-1] / self._total)

    def gaussian(self, size: int, width: int, seed: int) -> Block:
        return self.raw.gaussian(size, width, seed)

    def asarray(self, x: NDArray[Any]) -> Block:
        return self.raw.asarray(x)

    def _to_right(self, Z: Block) -> Block:
        """``[Z; −μᵀZ]``."""
        return array_namespace(Z).concat([Z, -(self.means[0] @ Z)[None]], axis=0)

    def _from_left(self, B: Block) -> Block:
        """``(X − 1μᵀ)ᵀU`` from ``B = X̃ᵀU``."""
        return B[:-1] - self.means[0][:, None] * B[-1]
