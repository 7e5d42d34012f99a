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
        feature_sums = raw.column_sums("X", squared=False)
        label_sums = raw.column_sums("Y", squared=False)
        # The constant feature comes last.
        self._sums = {"X": feature_sums[:-1], "Y": label_sums}
        # All weights may be zero.
        self._total = float(feature_sums[-1]) or 1.0
        self._feature_means = raw.asarray(self._sums["X"] / self._total)
        self._label_means = raw.asarray(self._sums["Y"] / self._total)
        self.means = (self._feature_means, self._label_means)

    def product(self, left: str, right: str, Q: Block) -> Block:
        if right == "X":
            xp = array_namespace(Q)
            constant_row = -(self._feature_means @ Q)[None]
            Q = xp.concat([Q, constant_row], axis=0)
        B = self.raw.product(left, right, Q)
        if left == "X":
            return B[:-1] - self._feature_means[:, None] * B[-1]
        if right == "X":
            return B
        label_means = self._label_means
        return B - self._total * label_means[:, None] * (label_means @ Q)

    def column_sums(self, name: str, squared: bool) -> NDArray[np.float64]:
        sums = self._sums[name]
        if not squared:
            return np.zeros_like(sums)
        squares = self.raw.column_sums(name, squared)[: len(sums)]
        return squares - sums**2 / self._total

    def gram_matrix(self) -> Block:
        G = self.raw.gram_matrix()
        sums_column = G[:-1, -1:]
        sums_row = G[-1, :-1]
        return G[:-1, :-1] - sums_column * (sums_row / self._total)
