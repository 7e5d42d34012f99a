"""The products of the data with a block that every engine offers."""

from typing import Any

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from rembrandt.linalg.blocks import Block
from rembrandt.linalg.eigen import gaussian

# Entries up to which XᵀY is formed once (256 MB) and reused in every product.
SMALL_CROSS = 1 << 25


class Engine:
    """Holds X (n × d), Y (n × c) and the example weights; only an engine knows where they are.

    With weights ``D`` every product is taken in the weighted inner product (``XᵀDX Z`` and so on).
    Blocks are NumPy arrays unless an engine says otherwise.
    """

    n: int
    d: int
    c: int
    dtype: Any
    # Columns up to which one dense factor is faster than iterations.
    exact_columns: int = 4096
    # Means of the features and the labels, when they are subtracted.
    means: tuple[Block, Block] | None = None
    # Factors of the labels' columns, when they are scaled.
    label_scale: Block | None = None
    _cross: Block | None = None

    def full_product(self, left: str, right: str, Q: Block) -> Block:
        """``leftᵀ D (right Q)`` by a pass over the data, with the matrices named "X" or "Y"."""
        raise NotImplementedError

    def cross_matrix(self) -> Block:
        """``XᵀDY`` as a matrix in float64, for few features and labels."""
        raise NotImplementedError

    def column_sums(self, name: str, squared: bool) -> NDArray[np.float64]:
        """``Σ w a`` of each column of the matrix "X" or "Y", or ``Σ w a²``."""
        raise NotImplementedError

    def gram_matrix(self) -> Block:
        """``XᵀX`` as a matrix in float64, for few features."""
        raise NotImplementedError

    def product(self, left: str, right: str, Q: Block) -> Block:
        """``leftᵀ D (right Q)``; a small ``XᵀDY`` is formed on first use."""
        if left == right or self.d * self.c > SMALL_CROSS:
            return self.full_product(left, right, Q)
        if self._cross is None:
            self._cross = self.cross_matrix()
        cross = self._cross
        if left == "Y":
            cross = cross.T
        xp = array_namespace(Q)
        result = cross @ xp.astype(Q, xp.float64)
        return xp.astype(result, Q.dtype)

    def gram(self, Z: Block) -> Block:
        """``XᵀX Z``."""
        return self.product("X", "X", Z)

    def cross(self, Q: Block) -> Block:
        """``XᵀY Q``."""
        return self.product("X", "Y", Q)

    def cross_t(self, Z: Block) -> Block:
        """``YᵀX Z``."""
        return self.product("Y", "X", Z)

    def label_gram(self, Q: Block) -> Block:
        """``YᵀY Q``."""
        return self.product("Y", "Y", Q)

    def gaussian(self, size: int, width: int, seed: int) -> Block:
        """Draw a random block; a narrower block of the same seed has the first columns of a wider
        one.
        """
        return self.asarray(gaussian(size, width, seed))

    def asarray(self, x: NDArray[Any]) -> Block:
        """Convert to the engine's array type and precision."""
        return np.asarray(x, dtype=self.dtype)


class Wrapped(Engine):
    """The engine ``raw`` with the features or the labels changed around its products."""

    def __init__(self, raw: Engine) -> None:
        self.raw = raw
        self.n = raw.n
        self.d = raw.d
        self.c = raw.c
        self.label_scale = raw.label_scale
        self.exact_columns = raw.exact_columns

    def gram_matrix(self) -> Block:
        return self.raw.gram_matrix()

    def gaussian(self, size: int, width: int, seed: int) -> Block:
        return self.raw.gaussian(size, width, seed)

    def asarray(self, x: NDArray[Any]) -> Block:
        return self.raw.asarray(x)
