"""The best labels of projected rows."""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rembrandt.linalg.blocks import Block
from rembrandt.linalg.ranking import top_k

Array = NDArray[Any]
Labels = NDArray[np.int64]


class ScoredRows(Protocol):
    """Projected rows and their scores."""

    @property
    def H(self) -> Block:
        """Rows in the embedding."""

    @property
    def scores(self) -> Array:
        """Scores of all labels, n × c, computed on first use."""

    def features_of(self, H: Block) -> Block:
        """Mapped features of some of the rows."""


class Ranker(Protocol):
    """Finds the best labels of rows."""

    def top(self, rows: ScoredRows, k: int, allowed: Labels | None = None) -> tuple[Labels, Array]:
        """Return the ``k`` best labels of every row and their scores, best first, ties by label index."""


class NumpyRanker:
    """Ranks the scores of all labels."""

    def top(self, rows: ScoredRows, k: int, allowed: Labels | None = None) -> tuple[Labels, Array]:
        if allowed is None:
            return top_k(rows.scores, k)
        found, scores = top_k(rows.scores[:, allowed], k)
        return (np.where(found < 0, -1, allowed[found]) if len(allowed) else found), scores
