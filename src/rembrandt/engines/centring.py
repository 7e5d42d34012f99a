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
        total = float(feature_sums[-1])
        feature_sums = feature_sums[:-1]
        # All weights may be zero.
        self._total = total or 1.0
        self._sums = {"X": feature_sums, "Y": label_sums}
        self._feature_means = raw.asarray(feature_sums / self._total)
        self._label_means = raw.asarray(label_sums / self._total)
        self.means = (self._feature_means, self._label_means)

    def product(self, left: str, right: str, Q: Block) -> Block:
        if right == "X":
            xp = array_namespace(Q)
            constant_row = -(self._feature_means @ Q)
            Q = xp.concat([Q, constant_row[None]], axis=0)
        B = self.raw.product(left, right, Q)
        if left == "X":
            feature_means = self._feature_means[:, None]
            of_constant = B[-1]
            return B[:-1] - feature_means * of_constant
        if right == "X":
            return B
        label_means = self._label_means[:, None]
        mean_row = self._label_means @ Q
        return B - self._total * label_means * mean_row

    def column_sums(self, name: str, squared: bool) -> NDArray[np.float64]:
        sums = self._sums[name]
        if not squared:
            return np.zeros_like(sums)
        squares = self.raw.column_sums(name, squared)
        without_constant = squares[: len(sums)]
        of_means = sums**2 / self._total
        return without_constant - of_means

    def gram_matrix(self) -> Block:
        G = self.raw.gram_matrix()
        of_features = G[:-1, :-1]
        sums_column = G[:-1, -1:]
        sums_row = G[-1, :-1]
        means_row = sums_row / self._total
        return of_features - sums_column * means_row
