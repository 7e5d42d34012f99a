"""Centring, for every engine: X and Y without their weighted means, never formed.

The raw engine has the constant feature last, ``X̃ = [X, 1]``. With the feature means μ and the
label means ν

    (X − 1μᵀ) Z = X̃ [Z; −μᵀZ]        (X − 1μᵀ)ᵀ U = (X̃ᵀU)₁…d − μ (X̃ᵀU)d₊₁

so the large terms of features with a large mean cancel row by row, before they are summed in single
precision. Because ``(X − 1μᵀ)ᵀ D1 = 0``, products of features and labels need no ν.
"""

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from rembrandt.engines.protocol import Engine, Wrapped
from rembrandt.linalg.blocks import Block


class Centred(Wrapped):
    """The engine ``raw`` over ``[X, 1]`` and Y, seen as X and Y without their means."""

    def __init__(self, raw: Engine) -> None:
        super().__init__(raw)
        self.d = raw.d - 1
        features = raw.column_sums("X", squared=False)
        self._sums = {"X": features[:-1], "Y": raw.column_sums("Y", squared=False)}
        self._total = float(features[-1]) or 1.0  # all weights may be zero
        self.means = (
            raw.asarray(self._sums["X"] / self._total),
            raw.asarray(self._sums["Y"] / self._total),
        )
        self._mu, self._nu = self.means

    def product(self, left: str, right: str, Q: Block) -> Block:
        if right == "X":
            Q = array_namespace(Q).concat([Q, -(self._mu @ Q)[None]], axis=0)
        B = self.raw.product(left, right, Q)
        if left == "X":
            return B[:-1] - self._mu[:, None] * B[-1]
        return B if right == "X" else B - self._total * self._nu[:, None] * (self._nu @ Q)

    def column_sums(self, name: str, squared: bool) -> NDArray[np.float64]:
        sums = self._sums[name]
        if not squared:
            return np.zeros_like(sums)
        return self.raw.column_sums(name, squared)[: len(sums)] - sums**2 / self._total

    def gram_matrix(self) -> Block:
        G = self.raw.gram_matrix()
        return G[:-1, :-1] - G[:-1, -1:] * (G[-1, :-1] / self._total)
