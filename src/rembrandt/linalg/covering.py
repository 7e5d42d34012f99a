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
        self._blocks = [_unit_rows(block) for block in blocks]
        self._weights = weights
        self._n = len(weights)
        self._covered = np.zeros(self._n)
        self._is_chosen = np.zeros(self._n, dtype=bool)

    def cover(self, blocks: Sequence[Matrix]) -> None:
        """Take other rows as chosen from the start."""
        others = [_unit_rows(block) for block in blocks]
        n_others = int(others[0].shape[0])
        for rows in spans(n_others, self._n_together()):
            similarities = self._similarities([block[rows] for block in others])
            np.maximum(self._covered, similarities.max(axis=1), out=self._covered)

    def choose(self, n_wanted: int, report: Report = silent) -> NDArray[np.int64]:
        """Return rows in the order in which they are chosen; among equals the first."""
        chosen: list[int] = []
        n_wanted = min(n_wanted, self._n)
        bounds = self._bounds()
        while len(chosen) < n_wanted:
            report("ordering", len(chosen), n_wanted)
            row = self._next(bounds)
            chosen.append(row)
            self._is_chosen[row] = True
            bounds[row] = -np.inf
            similarities = self._similarities([block[[row]] for block in self._blocks])
            np.maximum(self._covered, similarities[:, 0], out=self._covered)
        report("ordering", n_wanted, n_wanted)
        return np.array(chosen, dtype=np.int64)

    def _next(self, bounds: Values) -> int:
        """Return the row with the largest gain. Bounds that are computed become gains."""
        is_exact = self._is_chosen.copy()
        n_together = 1
        while True:
            best = int(bounds.argmax())
            if is_exact[best]:
                return best
            n_candidates = min(n_together, self._n)
            candidates = np.argpartition(-bounds, n_candidates - 1)[:n_candidates]
            # Of equal bounds the first comes first, whatever the partition returns.
            candidates = np.union1d(candidates[~is_exact[candidates]], [best])
            bounds[candidates] = self._gains(candidates)
            is_exact[candidates] = True
            n_together = min(2 * n_together, self._n_together())

    def _n_together(self) -> int:
        return max(1, min(_CANDIDATES, _BLOCK_VALUES // max(1, self._n)))

    def _gains(self, rows: NDArray[np.int64]) -> Values:
        """Return the gains of some rows."""
        similarities = self._similarities([block[rows] for block in self._blocks])
        increase = self._weights @ np.maximum(similarities - self._covered[:, None], 0)
        return np.asarray(increase * self._weights[rows], dtype=np.float64)

    def _bounds(self) -> Values:
        """Return upper bounds of all gains: with absolute features, and as if nothing was
        covered.
        """
        bounds = np.zeros(self._n)
        for block in self._blocks:
            features = abs(block)
            bounds += features @ (features.T @ self._weights)
        rounding = 1 + 1e-3  # must not make them too small
        return bounds / len(self._blocks) * self._weights * rounding

    def _similarities(self, others: Sequence[Matrix]) -> NDArray[np.float32]:
        """Return the similarities of all rows to others, n × m."""
        total: Any = 0.0
        for block, other in zip(self._blocks, others, strict=True):
            product = block @ other.T
            total = total + (product.toarray() if is_sparse(product) else product)
        return np.maximum(total / len(self._blocks), 0)


def _unit_rows(block: Matrix) -> Matrix:
    """Return rows of length one; a row of zeros stays one."""
    values: Any = block.astype(np.float32)
    if is_sparse(values):
        squares = values.multiply(values).sum(axis=1)
    else:
        squares = np.square(values).sum(axis=1)
    lengths = np.sqrt(np.asarray(squares, dtype=np.float64).ravel())
    factors = 1 / np.where(lengths > 0, lengths, 1)
    if is_sparse(values):
        values = values.tocsr(copy=True)
        values.data *= np.repeat(factors, np.diff(values.indptr)).astype(np.float32)
        return values
    return np.asarray(values * factors[:, None], dtype=np.float32)
