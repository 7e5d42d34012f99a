"""The best labels of projected rows."""

from typing import Protocol

from rembrandt.linalg import Array, Indices
from rembrandt.linalg.blocks import Block, as_numpy
from rembrandt.linalg.ranking import top_k


class ScoredRows(Protocol):
    """Projected rows and their scores."""

    @property
    def H(self) -> Block:
        """Rows in the embedding."""

    @property
    def scores(self) -> Block:
        """Scores of all labels, n × c, computed on first use."""

    def features_of(self, H: Block) -> Block:
        """Mapped features of some of the rows."""


class Ranker(Protocol):
    """Finds the best labels of rows."""

    def top(self, rows: ScoredRows, k: int) -> tuple[Indices, Array]:
        """Return the ``k`` best labels of every row and their scores, best first, ties by label
        index.
        """


class NumpyRanker:
    """Ranks the scores of all labels."""

    def top(self, rows: ScoredRows, k: int) -> tuple[Indices, Array]:
        return top_k(as_numpy(rows.scores), k)
