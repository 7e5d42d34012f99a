"""Scaled labels, for every engine: ``Ỹ = D_r^-row Y D_c^-β``, never formed.

``D_c`` are the weighted counts of the labels, ``D_r`` the number of labels of each row; both are
sums of Y as it is given, so that neither power changes what the other divides by. A row or a label
without examples is divided by one. Columns are scaled around the products. Rows are scaled where an
engine reads Y, which costs no more than reading it.
"""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from rembrandt.engines.protocol import Engine, Wrapped
from rembrandt.linalg import Array, Floats
from rembrandt.linalg.blocks import Block
from rembrandt.linalg.sparse import scale_rows


@dataclass(frozen=True)
class LabelScaling:
    """How labels are scaled before they are embedded, and whether means are subtracted."""

    label_power: float = 0.0  # β
    row_power: float = 0.0
    center: bool = False


def inverse_power(sums: Array, power: float) -> Floats:
    """``sums^-power``, and one where a sum is not positive."""
    positive = np.where(sums > 0, sums, 1.0).astype(np.float64)
    return positive**-power


def row_factors(Y: sparse.csr_array, power: float) -> Floats | None:
    """The diagonal of ``D_r^-power``; None for a power of zero."""
    if power == 0:
        return None
    sums = np.asarray(Y.sum(axis=1)).ravel()
    return inverse_power(sums, power)


def label_factors(Y: sparse.csr_array, weights: Array | None, power: float) -> Floats | None:
    """The diagonal of ``D_c^-power``; None for a power of zero."""
    if power == 0:
        return None
    row_weights = np.ones(Y.shape[0])
    if weights is not None:
        row_weights = np.asarray(weights, dtype=np.float64)
    counts = np.asarray(Y.T @ row_weights).ravel()
    return inverse_power(counts, power)


def with_scaled_rows(Y: sparse.csr_array, power: float) -> sparse.csr_array:
    """``D_r^-power Y``."""
    factors = row_factors(Y, power)
    if factors is None:
        return Y
    # Labels of an integer type cannot hold the factors.
    dtype = np.result_type(Y.dtype, np.float32)
    return scale_rows(Y.astype(dtype), factors)


class Scaled(Wrapped):
    """The engine ``raw`` with the column of each label times its factor."""

    def __init__(self, raw: Engine, factors: Floats) -> None:
        super().__init__(raw)
        self._factors = factors
        self.label_scale = raw.asarray(factors)
        self._column = self.label_scale[:, None]

    def product(self, left: str, right: str, Q: Block) -> Block:
        if right == "Y":
            Q = self._column * Q
        B = self.raw.product(left, right, Q)
        if left == "Y":
            B = self._column * B
        return B

    def column_sums(self, name: str, squared: bool) -> Floats:
        sums = self.raw.column_sums(name, squared)
        if name == "X":
            return sums
        exponent = 2 if squared else 1
        return sums * self._factors**exponent
