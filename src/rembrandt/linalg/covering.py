"""Choose rows that stand for all others: greedy maximisation of a weighted coverage."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rembrandt.linalg.blocks import spans
from rembrandt.linalg.sparse import Matrix, is_sparse
from rembrandt.progress import Report, silent

_CANDIDATES = 32  # whose gains are computed together, at most
_BLOCK_VALUES = 1 << 24  # similarities that are in memory at a time

Values = NDArray[np.float64]


class Covering:
    """Rows by how much they add to the coverage of all rows.

    A row is covered as far as the most similar chosen row is similar to it; the similarity is the
    cosine, and the mean cosine of several blocks, zero where it is negative. The coverage is the
    sum over all rows, each with its weight. The gain of a row is its own weight times the increase
    of the coverage, and the row with the largest gain is chosen. So two similar rows do not follow
    each other while others have none. The gain of a row only becomes smaller, so it is computed
    again only for rows that may come next (lazy evaluation; Minoux, 1978).

    Parameters
    ----------
    blocks : sequence of matrix
        Features of the rows (n × d each), dense or CSR.
    weights : ndarray of shape (n,)
        Weights of the rows; not negative.
    """

    def __init__(self, blocks: Sequence[Matrix], weights: Values) -> None:
        n_rows = len(weights)
        self._blocks = [_unit_rows(block) for block in blocks]
        self._weights = weights
        self._n_rows = n_rows
        self._covered = np.zeros(n_rows)
        self._is_chosen = np.zeros(n_rows, dtype=bool)

    def cover(self, blocks: Sequence[Matrix], report: Report = silent) -> None:
        """Take other rows as chosen from the start."""
        others = [_unit_rows(block) for block in blocks]
        n_others = int(others[0].shape[0])
        n_together = self._max_together()
        for rows in spans(n_others, n_together):
            report("comparing with labelled examples", rows.start, n_others)
            features = [block[rows] for block in others]
            similarities = self._similarities(features)
            nearest = similarities.max(axis=1)
            self._add_to_covered(nearest)

    def choose(self, n_wanted: int, report: Report = silent) -> NDArray[np.int64]:
        """Return rows in the order in which they are chosen; among equals the first."""
        chosen: list[int] = []
        n_wanted = min(n_wanted, self._n_rows)
        bounds = self._bounds()
        for n_done in range(n_wanted):
            report("ordering", n_done, n_wanted)
            row = self._next(bounds)
            chosen.append(row)
            self._is_chosen[row] = True
            bounds[row] = -np.inf
            features = self._features_of([row])
            similarities = self._similarities(features)
            to_row = similarities[:, 0]
            self._add_to_covered(to_row)
        report("ordering", n_wanted, n_wanted)
        return np.array(chosen, dtype=np.int64)

    def _next(self, bounds: Values) -> int:
        """Return the row with the largest gain. Bounds that are computed become gains."""
        is_exact = self._is_chosen.copy()
        n_together = 1
        max_together = self._max_together()
        while True:
            best = int(bounds.argmax())
            if is_exact[best]:
                return best
            n_candidates = min(n_together, self._n_rows)
            order = np.argpartition(-bounds, n_candidates - 1)
            candidates = order[:n_candidates]
            inexact = candidates[~is_exact[candidates]]
            # Of equal bounds the first comes first, whatever the partition returns.
            candidates = np.union1d(inexact, [best])
            bounds[candidates] = self._gains(candidates)
            is_exact[candidates] = True
            n_together = min(2 * n_together, max_together)

    def _max_together(self) -> int:
        """Return the number of rows whose similarities are in memory together, at most."""
        n_rows = max(1, self._n_rows)
        n_in_memory = _BLOCK_VALUES // n_rows
        n_together = min(_CANDIDATES, n_in_memory)
        return max(1, n_together)

    def _gains(self, rows: NDArray[np.int64]) -> Values:
        """Return the gains of some rows."""
        features = self._features_of(rows)
        similarities = self._similarities(features)
        covered = self._covered[:, None]
        increase = np.maximum(similarities - covered, 0)
        coverage = self._weights @ increase
        gains = coverage * self._weights[rows]
        return np.asarray(gains, dtype=np.float64)

    def _bounds(self) -> Values:
        """Return upper bounds of all gains: with absolute features, and as if nothing was
        covered.
        """
        rounding = 1 + 1e-3  # must not make them too small
        n_blocks = len(self._blocks)
        bounds = np.zeros(self._n_rows)
        for block in self._blocks:
            features = abs(block)
            weighted_sum = features.T @ self._weights
            bounds += features @ weighted_sum
        return bounds / n_blocks * self._weights * rounding

    def _features_of(self, rows: Any) -> list[Matrix]:
        """Return the features of some rows, block by block."""
        return [block[rows] for block in self._blocks]

    def _add_to_covered(self, similarities: NDArray[np.float32]) -> None:
        """Take each row as covered at least as far as this."""
        np.maximum(self._covered, similarities, out=self._covered)

    def _similarities(self, others: Sequence[Matrix]) -> NDArray[np.float32]:
        """Return the similarities of all rows to others, n × m."""
        n_blocks = len(self._blocks)
        pairs = zip(self._blocks, others, strict=True)
        total: Any = 0.0
        for block, other in pairs:
            cosines = block @ other.T
            if is_sparse(cosines):
                cosines = cosines.toarray()
            total = total + cosines
        mean = total / n_blocks
        return np.maximum(mean, 0)


def _unit_rows(block: Matrix) -> Matrix:
    """Return rows of length one; a row of zeros stays one."""
    values: Any = block.astype(np.float32)
    if is_sparse(values):
        squares = values.multiply(values)
    else:
        squares = np.square(values)
    square_sums = np.asarray(squares.sum(axis=1), dtype=np.float64)
    lengths = np.sqrt(square_sums.ravel())
    divisors = np.where(lengths > 0, lengths, 1)
    factors = 1 / divisors
    if is_sparse(values):
        values = values.tocsr(copy=True)
        row_sizes = np.diff(values.indptr)
        entry_factors = np.repeat(factors, row_sizes)
        values.data *= entry_factors.astype(np.float32)
        return values
    unit = values * factors[:, None]
    return np.asarray(unit, dtype=np.float32)
