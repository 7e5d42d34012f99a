"""The best labels of projected rows."""

from typing import Protocol

import numpy as np

from rembrandt.linalg import Array, Indices
from rembrandt.linalg.blocks import Block, as_numpy, for_each_span
from rembrandt.linalg.ranking import top_k
from rembrandt.linalg.threads import own_threads

# Rows whose scores one thread computes at a time.
RANKED_ROWS = 256


class ScoredRows(Protocol):
    """Projected rows and their scores."""

    @property
    def H(self) -> Block:
        """Rows in the embedding."""

    @property
    def features(self) -> Block:
        """Mapped features, n × D, computed on first use."""

    def features_of(self, H: Block) -> Block:
        """Mapped features of some of the rows."""


class Ranker(Protocol):
    """Finds the best labels of rows."""

    def top(self, rows: ScoredRows, k: int) -> tuple[Indices, Array]:
        """Return the ``k`` best labels of every row and their scores, best first, ties by label
        index.
        """


class NumpyRanker:
    """Ranks the scores of all labels, ``Φ Q + b``, of some rows at a time on each thread."""

    def __init__(self, weights: Array, bias: Array) -> None:
        self.weights = weights
        self.bias = bias

    def top(self, rows: ScoredRows, k: int) -> tuple[Indices, Array]:
        features = as_numpy(rows.features)
        n_rows = len(features)
        labels = np.empty((n_rows, k), dtype=np.int64)
        best = np.empty((n_rows, k), dtype=np.result_type(features, self.weights))

        def rank_rows(some: slice) -> None:
            scores = features[some] @ self.weights
            scores += self.bias
            labels[some], best[some] = top_k(scores, k)

        if n_rows <= RANKED_ROWS:
            rank_rows(slice(None))  # the library may share a single product among its threads
        else:
            with own_threads():
                for_each_span(rank_rows, n_rows, RANKED_ROWS)
        return labels, best
