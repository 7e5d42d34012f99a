"""Scaled labels, for every engine: ``Ỹ = D_r^-row Y D_c^-β``, never formed.

``D_c`` are the weighted counts of the labels, ``D_r`` the number of labels of each row; both are
sums of Y as it is given, so that neither power changes what the other divides by. A row or a label
without examples is divided by one. Columns are scaled around the products. Rows are scaled where an
engine reads Y, which costs no more than reading it.
"""

import numpy as np
from scipy import sparse

from rembrandt.engines.protocol import Engine, Wrapped
from rembrandt.linalg import Array, Floats
from rembrandt.linalg.blocks import Block
from rembrandt.linalg.sparse import scale_rows


def inverse_power(sums: Array, power: float) -> Floats:
    """``sums^-power``, and one where a sum is not positive."""
    return np.where(sums > 0, sums, 1.0).astype(np.float64) ** -power


def row_factors(Y: sparse.csr_array, power: float) -> Floats | None:
    """The diagonal of ``D_r^-power``; None for a power of zero."""
    return None if power == 0 else inverse_power(np.asarray(Y.sum(axis=1)).ravel(), power)


def label_factors(Y: sparse.csr_array, weights: Array | None, power: float) -> Floats | None:
    """The diagonal of ``D_c^-power``; None for a power of zero."""
    if power == 0:
        return None
    ones = np.ones(Y.shape[0]) if weights is None else np.asarray(weights, dtype=np.float64)
    return inverse_power(np.asarray(Y.T @ ones).ravel(), power)


def with_scaled_rows(Y: sparse.csr_array, power: float) -> sparse.csr_array:
    """``D_r^-power Y``."""
    factors = row_factors(Y, power)
    return (
        Y if factors is None else scale_rows(Y.astype(np.result_type(Y.dtype, np.float32)), factors)
    )


class Scaled(Wrapped):
    """The engine ``raw`` with the column of each label times its factor."""

    def __init__(self, raw: Engine, factors: Floats) -> None:
        super().__init__(raw)
        self._factors = factors
        self.label_scale = raw.asarray(factors)
        self._column = self.label_scale[:, None]

    def product(self, left: str, right: str, Q: Block) -> Block:
        B = self.raw.product(left, right, self._column * Q if right == "Y" else Q)
        return self._column * B if left == "Y" else B

    def column_sums(self, name: str, squared: bool) -> Floats:
        sums = self.raw.column_sums(name, squared)
        return sums if name == "X" else sums * self._factors ** (2 if squared else 1)
