"""Rungs of a search: increasing numbers of training examples, and held-out examples for each."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rembrandt.data.examples import Examples
from rembrandt.data.splits import draw_rows

Rows = NDArray[np.int64]

GROWTH = 3  # ratio of the rows of two rungs; about one in as many candidates is kept
FIRST = 2000  # rows to fit on at the first rung, at least
HELD_OUT = 1 / 6  # of all rows
FEWEST_HELD, MOST_HELD = 1000, 4000
FOLDS, FEW = 4, 6000  # with fewer rows the last rung averages several splits
FROM_DISK = 100_000  # rows of a store that are used, at most
SHORT = 12_000  # rows of a search without a budget


@dataclass(frozen=True)
class Rung:
    """Rows to fit on and rows to measure on, one pair for each split."""

    fit: list[Rows]
    held: list[Rows]

    def __str__(self) -> str:
        return f"{self.rows:,} rows" if len(self.fit) == 1 else f"{len(self.fit)} splits of {self.rows:,} rows"

    @property
    def rows(self) -> int:
        return len(self.fit[0])

    @property
    def work(self) -> int:
        """Total number of rows that a candidate is fitted to."""
        return sum(map(len, self.fit))


def rungs_of(
    data: Examples, seed: int, short: bool = False, first: int = FIRST, fewest_held: int = FEWEST_HELD, few: int = FEW
) -> list[Rung]:
    """Return the rungs for ``data``; smaller ones are subsets of larger ones. ``short``: a single one."""
    counted = np.arange(data.n) if data.weights is None else np.flatnonzero(data.weights > 0)
    if short:
        sample = counted[draw_rows(len(counted), 1.0, seed, most=SHORT)[1]]
        folds = range(FOLDS if len(sample) <= few else 1)
        splits = [draw_rows(len(sample), HELD_OUT, seed + 1 + fold) for fold in folds]
        return [Rung([sample[fit] for fit, _ in splits], [sample[held] for _, held in splits])]
    fit, held = _cut(counted, seed, FROM_DISK if data.X.resident()[0] < data.n else len(counted))
    sizes = [len(fit)]
    while sizes[0] >= GROWTH * first:
        sizes.insert(0, sizes[0] // GROWTH)
    rungs = [Rung([np.sort(fit[:size])], [np.sort(held[: max(fewest_held, size // 2)])]) for size in sizes]
    if len(fit) <= few:
        splits = [(fit, held), *(_cut(counted, seed + i, len(counted)) for i in range(1, FOLDS))]
        rungs.append(Rung([np.sort(part) for part, _ in splits], [np.sort(part) for _, part in splits]))
    return rungs


def _cut(counted: Rows, seed: int, most: int) -> tuple[Rows, Rows]:
    """Return rows to fit on and held-out rows, both in random order."""
    order = counted[np.random.default_rng(seed + 1).permutation(len(counted))]
    held = min(MOST_HELD, max(1, round(HELD_OUT * len(order))))
    return order[held : held + most], order[:held]
