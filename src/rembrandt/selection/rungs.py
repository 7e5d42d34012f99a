"""Rungs of a search: training examples in increasing number, and held-out examples for each."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rembrandt.data.examples import Examples, duplicate_groups
from rembrandt.data.splits import Rows, draw_rows, latest_rows

GROWTH = 3  # ratio of the rows of two rungs; about one in as many candidates is kept
FIRST = 2000  # rows to fit on at the first rung of a search with a budget, at least
SAMPLE = 6000  # rows by which settings are chosen without a budget, about
HELD_OUT = 1 / 6  # of all rows
# Effort 0 holds out a tenth of many rows: the trees of the trial saw the other rows and need not be
# fitted again.
LEAST_HELD_OUT, MANY_ROWS = 1 / 10, 25_000
MOST_HELD = 4000
FEW_HELD = 2000  # of a rung before the last
ENOUGH_HELD, MOST_SPLITS = (
    750,
    3,
)  # the blend is learned on several splits until as many rows are held out
FROM_DISK = 100_000  # rows of a store that are used, at most


@dataclass(frozen=True)
class Rung:
    """Rows to fit on and rows to measure on, one pair for each split; with ``labels``, these labels
    alone.
    """

    fit: list[Rows]
    held: list[Rows]
    labels: Rows | None = None
    last: bool = False  # whether what is fitted is of full size

    def __str__(self) -> str:
        some = "" if self.labels is None else f" and {len(self.labels):,} labels"
        return (
            f"{self.rows:,} rows{some}"
            if len(self.fit) == 1
            else f"{len(self.fit)} splits of {self.rows:,} rows"
        )

    @property
    def rows(self) -> int:
        return len(self.fit[0])

    @property
    def work(self) -> int:
        """Total number of rows that a candidate is fitted to."""
        return sum(map(len, self.fit))


def rungs_of(data: Examples, seed: int, short: bool, effort: int = 1) -> list[Rung]:
    """Return the rungs for ``data``; with ``short`` two at most, otherwise as many as a search with
    a budget climbs.

    The last rung fits on all rows that are not held out. A smaller one has a sample of the labels
    and of the rows that have them, so that labels keep about as many examples as they have.
    ``effort`` is that of `choose`.
    """
    counted = np.arange(data.n) if data.weights is None else np.flatnonzero(data.weights > 0)
    if data.multiclass:
        # A row without a label is one whose label is unknown. Where rows may have several labels it
        # is one with none of them, and without these rows labels would seem more frequent.
        counted = counted[np.diff(data.Y.indptr)[counted] > 0]
    on_disk = data.X.resident()[0] < data.n
    rng = np.random.default_rng(seed + 1)
    if on_disk:
        counted = np.sort(rng.permutation(counted)[:FROM_DISK])
    share = HELD_OUT if effort or len(counted) < MANY_ROWS else LEAST_HELD_OUT

    def split(rows: Rows, share: float) -> list[list[Rows]]:
        if data.times is not None:
            return [[rows[part] for part in latest_rows(data.times[rows], share, MOST_HELD)]]
        return _drawn(data, rows, seed, share, data.groups is None and on_disk)

    splits = split(counted, share)
    last = Rung([fit for fit, _ in splits], [held for _, held in splits], last=True)
    if last.rows <= 2 * SAMPLE and (short or last.rows < GROWTH * FIRST):
        return [Rung(last.fit[:1], [last.held[0][:FEW_HELD]]), last]
    sizes: list[int] = [SAMPLE] if short else []
    size = last.rows
    while not short and size >= GROWTH * FIRST:
        size //= GROWTH
        sizes.insert(0, size)
    return [*(_sampled(data, last, size, seed, split) for size in sizes), last]


def _drawn(data: Examples, counted: Rows, seed: int, share: float, alone: bool) -> list[list[Rows]]:
    """Draw several splits until enough rows are held out; unless rows are ``alone``, equal ones
    stay together.

    Where that would hold out most labels with all of their examples, equal rows are drawn one by
    one.
    """
    taken = None if data.groups is None else data.groups[counted]
    groups = None if alone else duplicate_groups(data.X[counted], taken)
    n_splits = min(MOST_SPLITS, int(np.ceil(ENOUGH_HELD / (share * len(counted)))))
    splits = [
        [
            counted[part]
            for part in draw_rows(len(counted), share, seed + 1 + split, MOST_HELD, groups)
        ]
        for split in range(n_splits)
    ]
    known = np.bincount(data.Y[splits[0][0]].indices, minlength=data.n_labels) > 0
    if (
        groups is not None
        and data.groups is None
        and 2 * known[data.Y[splits[0][1]].indices].mean() < 1
    ):
        return _drawn(data, counted, seed, share, alone=True)
    return splits


def _sampled(
    data: Examples,
    last: Rung,
    size: int,
    seed: int,
    split: Callable[[Rows, float], list[list[Rows]]],
) -> Rung:
    """Return a rung of about ``size`` to twice ``size`` of the rows of ``last``, with some of the
    labels or with all.

    A sample of the labels, with the rows that have them, leaves out other labels of these rows. A
    sample of the rows with all labels leaves out examples of the labels. The one that leaves out
    less is used: labels where rows have few of them, rows where they have many. Few of the held-out
    rows have the sampled labels, so others are held out for them.
    """
    rng, rows = np.random.default_rng(seed + 2), last.fit[0]
    held = min(FEW_HELD, size // GROWTH)
    share = (size + held) / len(rows)
    labels = np.sort(rng.permutation(data.n_labels)[: max(2, round(data.n_labels * share))])
    member = np.zeros(data.n_labels, dtype=bool)
    member[labels] = True
    mine = rows[np.diff(np.append(0, np.cumsum(member[data.Y.indices]))[data.Y.indptr])[rows] > 0]
    mine = np.sort(rng.permutation(mine)[: 2 * size + held])
    if 2 * len(mine) < size or member[data.Y[mine].indices].mean() < 2 * size / len(rows):
        return Rung(
            [np.sort(rng.permutation(rows)[: 2 * size])],
            [np.sort(rng.permutation(last.held[0])[:FEW_HELD])],
        )
    fit, measured = split(mine, held / len(mine))[0]
    return Rung([fit], [measured], labels)
