"""Rows with named views: the features, vectors that were given beside them, and the texts that the
features were made from.

Each part of a model reads one view.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rembrandt.errors import DataError
from rembrandt.features.text import is_text
from rembrandt.linalg.sparse import Matrix
from rembrandt.settings.view_names import FEATURES, TEXTS, vector_views


@dataclass(frozen=True)
class Views:
    """Rows to predict for."""

    features: Matrix
    vectors: tuple[Any, ...] = ()
    texts: NDArray[np.object_] | None = None  # where a part reads them

    @property
    def n(self) -> int:
        return int(self.features.shape[0])

    @property
    def has_vectors(self) -> bool:
        return len(self.vectors) > 0

    def __getitem__(self, rows: Any) -> "Views":
        vectors = tuple(block[rows] for block in self.vectors)
        texts = None if self.texts is None else self.texts[rows]
        return Views(self.features[rows], vectors, texts)

    def view(self, name: str) -> Any:
        """Return what a view holds: a matrix, or an array of texts."""
        if name == FEATURES:
            return self.features
        if name == TEXTS:
            return self.texts
        return self.vectors[vector_views(len(self.vectors)).index(name)]


def as_views(rows: Any) -> Views:
    """Return a matrix as rows without vectors; views as they are."""
    if isinstance(rows, Views):
        return rows
    return Views(rows)


def as_texts(X: Any) -> NDArray[np.object_]:
    """Return texts as an array that rows can be taken from."""
    texts = np.empty(len(X), dtype=object)
    texts[:] = list(X)
    return texts


def is_blocks(X: Any) -> bool:
    """Whether X is a tuple of two or more blocks, each texts or a matrix."""
    if not isinstance(X, tuple) or len(X) < 2:
        return False
    if any(isinstance(block, str) for block in X):
        return False  # a tuple of texts
    return all(getattr(block, "ndim", 0) == 2 or is_text(block) for block in X)


def check_blocks(features: Any, vectors: Sequence[Any], widths: Sequence[int] = ()) -> None:
    """Refuse blocks with different numbers of rows, or other widths than those of the fit."""
    sizes = [features.shape[0], *(block.shape[0] for block in vectors)]
    if len(set(sizes)) > 1:
        raise DataError(
            f"the blocks have {_listed(sizes)} rows: give one row for each example in every block"
        )
    given = [block.shape[1] for block in vectors]
    if widths and given != list(widths):
        raise DataError(
            f"the vectors have {_listed(given)} columns and those of the fit had "
            f"{_listed(widths)}; give the same blocks in the same order"
        )


def _listed(numbers: Sequence[int]) -> str:
    return " and ".join(f"{number:,}" for number in numbers)
