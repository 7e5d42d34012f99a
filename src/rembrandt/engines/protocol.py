"""The products of the data with a block that every engine offers."""

from typing import Any, Protocol

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from rembrandt.linalg.blocks import Block
from rembrandt.linalg.eigen import gaussian

SMALL_CROSS = 1 << 25  # entries: up to this size XᵀY is formed once (256 MB) and reused in every product


class Engine(Protocol):
    """Holds X (n × d), Y (n × c) and the example weights; only an engine knows where they are.

    With weights ``D`` every product is taken in the weighted inner product (``XᵀDX Z`` and so on).
    """

    n: int
    d: int
    c: int

    @property
    def means(self) -> tuple[Block, Block] | None:
        """Means of the features and the labels, when they are subtracted."""

    def gram(self, Z: Block) -> Block:
        """``XᵀX Z``."""

    def cross(self, Q: Block) -> Block:
        """``XᵀY Q``."""

    def cross_t(self, Z: Block) -> Block:
        """``YᵀX Z``."""

    def label_gram(self, Q: Block) -> Block:
        """``YᵀY Q``."""

    def feature_norms(self) -> NDArray[np.float64]:
        """``diag(XᵀX)``."""

    def label_norms(self) -> NDArray[np.float64]:
        """``diag(YᵀY)``."""

    def feature_sums(self) -> NDArray[np.float64]:
        """``Xᵀ1``."""

    def label_sums(self) -> NDArray[np.float64]:
        """``Yᵀ1``."""

    def gram_matrix(self) -> Block:
        """``XᵀX`` as a matrix in float64, for few features."""

    def gaussian(self, size: int, width: int, seed: int) -> Block:
        """Draw a random block; a narrower block of the same seed has the first columns of a wider one."""

    def asarray(self, x: NDArray[Any]) -> Block:
        """Convert to the engine's array type and precision."""


class Products:
    """The four products of an engine in terms of one, ``AᵀD(BQ)`` of two data matrices."""

    d: int
    c: int
    means: tuple[Block, Block] | None = None
    _cross: Block | None = None

    def product(self, left: str, right: str, Q: Block) -> Block:
        """``leftᵀ D (right Q)`` with the matrices named "X" or "Y"."""
        raise NotImplementedError

    def cross_matrix(self) -> Block:
        """``XᵀDY`` as a matrix in float64, for few features and labels."""
        raise NotImplementedError

    def column_sums(self, name: str, squared: bool) -> NDArray[np.float64]:
        """``Σ w a`` of each column of the matrix "X" or "Y", or ``Σ w a²``."""
        raise NotImplementedError

    def gram(self, Z: Block) -> Block:
        return self.product("X", "X", Z)

    def cross(self, Q: Block) -> Block:
        return self._small_product(False, Q) if self.d * self.c <= SMALL_CROSS else self.product("X", "Y", Q)

    def cross_t(self, Z: Block) -> Block:
        return self._small_product(True, Z) if self.d * self.c <= SMALL_CROSS else self.product("Y", "X", Z)

    def label_gram(self, Q: Block) -> Block:
        return self.product("Y", "Y", Q)

    def feature_norms(self) -> NDArray[np.float64]:
        return self.column_sums("X", squared=True)

    def label_norms(self) -> NDArray[np.float64]:
        return self.column_sums("Y", squared=True)

    def feature_sums(self) -> NDArray[np.float64]:
        return self.column_sums("X", squared=False)

    def label_sums(self) -> NDArray[np.float64]:
        return self.column_sums("Y", squared=False)

    def _small_product(self, transposed: bool, Q: Block) -> Block:
        """A product with ``XᵀY``, which is formed on first use."""
        if self._cross is None:
            self._cross = self.cross_matrix()
        xp = array_namespace(Q)
        return xp.astype((self._cross.T if transposed else self._cross) @ xp.astype(Q, xp.float64), Q.dtype)


class NumpyProducts(Products):
    """An engine whose blocks are NumPy arrays."""

    dtype: Any

    def gaussian(self, size: int, width: int, seed: int) -> NDArray[Any]:
        return self.asarray(gaussian(size, width, seed))

    def asarray(self, x: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(x, dtype=self.dtype)
