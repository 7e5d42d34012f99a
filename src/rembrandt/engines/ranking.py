"""The best labels of projected rows."""

from typing import Protocol

import numpy as np

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

    def top(
        self, rows: ScoredRows, k: int, allowed: Indices | None = None
    ) -> tuple[Indices, Array]:
        """Return the ``k`` best labels of every row and their scores, best first, ties by label
        index.
        """


class NumpyRanker:
    """Ranks the scores of all labels."""

    def top(
        self, rows: ScoredRows, k: int, allowed: Indices | None = None
    ) -> tuple[Indices, Array]:
        all_scores = as_numpy(rows.scores)
        if allowed is None:
            return top_k(all_scores, k)
        positions, scores = top_k(all_scores[:, allowed], k)
        if len(allowed) == 0:
            return positions, scores
        # Where there are fewer than k labels the rest are -1.
        labels = np.where(positions < 0, -1, allowed[positions])
        return labels, scores
