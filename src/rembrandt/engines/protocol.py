"""What an engine offers: the products of the data with a block, and where blocks live."""

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rembrandt.linalg.blocks import Block


class Engine(Protocol):
    """Holds X (n×d), Y (n×c) and the example weights; the only code that knows where they live.

    With weights ``D`` every product below is taken in the weighted inner product (``XᵀDX Z`` and so on). A centred
    engine works on ``X − 1μᵀ`` (or ``Y − 1νᵀ``) without ever forming it.
    """

    n: int
    d: int
    c: int

    def gram(self, Z: Block) -> Block:
        """``XᵀX Z``."""
        ...

    def cross(self, Q: Block) -> Block:
        """``XᵀY Q``."""
        ...

    def cross_t(self, Z: Block) -> Block:
        """``YᵀX Z``."""
        ...

    def label_gram(self, Q: Block) -> Block:
        """``YᵀY Q``."""
        ...

    def feature_norms(self) -> NDArray[np.float64]:
        """``diag(XᵀX)``."""
        ...

    def label_norms(self) -> NDArray[np.float64]:
        """``diag(YᵀY)``."""
        ...

    def feature_means(self) -> Block:
        """What is subtracted from each feature: its weighted mean on a centred engine, else zero."""
        ...

    def label_means(self) -> Block:
        """The same for each label."""
        ...

    def gram_matrix(self) -> Block:
        """``XᵀX`` itself, in float64, for few features."""
        ...

    def project(self, Z: Block) -> Iterator[tuple[slice, Block]]:
        """``X Z`` in row blocks."""
        ...

    def gaussian(self, size: int, width: int, seed: int) -> Block:
        """A random block to start a search from; a wider one of the same seed begins with a narrower one."""
        ...

    def asarray(self, x: NDArray[Any]) -> Block:
        """A block of this engine's own kind and precision."""
        ...

    def to_numpy(self, block: Block) -> NDArray[Any]:
        """The block as a NumPy array in this process."""
        ...
