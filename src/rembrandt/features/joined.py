"""Several blocks of features of the same examples side by side, such as words and sentence vectors.

Every block is scaled so that its training rows have a mean squared length of one. Otherwise the
block with the largest values would dominate a relative ridge.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_array

from rembrandt.errors import DataError
from rembrandt.features.text import is_text
from rembrandt.linalg.sparse import Matrix, as_csr, is_sparse, row_sums_of_squares


def is_blocks(X: Any) -> bool:
    """Whether X is a tuple of two or more blocks, each texts or a matrix."""
    if not isinstance(X, tuple) or len(X) < 2:
        return False
    if any(isinstance(x, str) for x in X):
        return False  # a tuple of texts
    return all(getattr(x, "ndim", 0) == 2 or is_text(x) for x in X)


@dataclass(frozen=True)
class Joined:
    """The width of each block, and the length that it is divided by."""

    widths: tuple[int, ...]
    lengths: tuple[float, ...]

    @classmethod
    def of(cls, blocks: Sequence[Any]) -> "Joined":
        """Learn widths and lengths from training rows."""
        checked = _checked(blocks)
        widths = tuple(block.shape[1] for block in checked)
        lengths = tuple(_root_mean_square(block) or 1.0 for block in checked)
        return cls(widths, lengths)

    def __call__(self, blocks: Sequence[Any]) -> Matrix:
        """Join blocks.

        The result is sparse if one of the blocks is, and has the widest precision of any.
        """
        checked = _checked(blocks)
        widths = tuple(block.shape[1] for block in checked)
        if widths != self.widths:
            raise DataError(
                f"the blocks have {_listed(widths)} columns and those of the fit had "
                f"{_listed(self.widths)}; give the same blocks in the same order"
            )
        scaled: list[Any] = []
        for block, length in zip(checked, self.lengths, strict=True):
            scaled.append(block * block.dtype.type(1 / length))
        if any(is_sparse(block) for block in scaled):
            sparse_blocks = [sparse.csr_array(block) for block in scaled]
            return as_csr(sparse.hstack(sparse_blocks, format="csr"))
        return np.hstack(scaled)

    def names(self, block_names: Sequence[Sequence[str] | None]) -> list[str]:
        """The name of each column: that in its block, or the numbers of block and column."""
        columns: list[str] = []
        blocks = zip(self.widths, block_names, strict=True)
        for number, (width, names) in enumerate(blocks, start=1):
            if names is None:
                names = [f"block {number}, column {i}" for i in range(width)]
            columns.extend(names)
        return columns


def _root_mean_square(block: Any) -> float:
    """Root of the mean squared length of the rows of a block."""
    total = row_sums_of_squares(block).sum()
    return float(total / max(1, block.shape[0])) ** 0.5


def _checked(blocks: Sequence[Any]) -> list[Any]:
    """The blocks as matrices of floats, all with the same number of rows."""
    precisions = [np.float32, np.float64]
    checked = [check_array(block, accept_sparse="csr", dtype=precisions) for block in blocks]
    n_rows = [block.shape[0] for block in checked]
    if len(set(n_rows)) > 1:
        raise DataError(
            f"the blocks have {_listed(n_rows)} rows: give one row for each example in every block"
        )
    return checked


def _listed(numbers: Sequence[int]) -> str:
    return " and ".join(f"{number:,}" for number in numbers)
