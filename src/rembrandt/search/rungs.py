"""Rungs of a search: ever more training rows for ever fewer candidates, and one held-out part for all of a rung."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rembrandt.data.stored import StoredRows
from rembrandt.fitting import Labelled

GROWTH = 3  # rows of a rung, in those of the one before; about one in as many candidates is kept
FIRST = 2000  # rows to fit on at the first rung, at least
HELD_OUT = 1 / 6  # of all rows
FEWEST_HELD, MOST_HELD = 1000, 4000  # of them are used: half as many as a rung has to fit on, within these
FOLDS, FEW = 4, 6000  # with fewer rows one held-out part is mostly chance: the last rung has several
FROM_DISK = 100_000  # rows of a store that are looked at


@dataclass(frozen=True)
class Rung:
    """Rows to fit on and rows to measure on, as places among all; several pairs where there are few rows."""

    fit: list[NDArray[np.int64]]
    held: list[NDArray[np.int64]]

    def __str__(self) -> str:
        return f"{self.rows:,} rows" if len(self.fit) == 1 else f"{len(self.fit)} cuts of {self.rows:,} rows"

    @property
    def rows(self) -> int:
        return len(self.fit[0])

    @property
    def work(self) -> int:
        """Rows that a candidate is fitted to, all in all."""
        return sum(map(len, self.fit))


def rungs_of(data: Labelled, seed: int) -> list[Rung]:
    """The rungs for ``data``; those with fewer rows are parts of those with more."""
    n = data.X.shape[0]
    counted = np.arange(n) if data.weights is None else np.flatnonzero(data.weights > 0)
    fit, held = _cut(counted, seed, FROM_DISK if isinstance(data.X, StoredRows) else len(counted))
    sizes = [len(fit)]
    while sizes[0] >= GROWTH * FIRST:
        sizes.insert(0, sizes[0] // GROWTH)
    rungs = [Rung([np.sort(fit[:size])], [np.sort(held[: max(FEWEST_HELD, size // 2)])]) for size in sizes]
    if len(fit) <= FEW:
        cuts = [(fit, held), *(_cut(counted, seed + cut, len(counted)) for cut in range(1, FOLDS))]
        rungs.append(Rung([np.sort(part) for part, _ in cuts], [np.sort(part) for _, part in cuts]))
    return rungs


def _cut(counted: NDArray[np.int64], seed: int, most: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows to fit on and rows held out, both in a random order."""
    order = counted[np.random.default_rng(seed + 1).permutation(len(counted))]
    held = min(MOST_HELD, max(1, round(HELD_OUT * len(order))))
    return order[held : held + most], order[:held]
