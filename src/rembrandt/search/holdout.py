"""Which examples are held out: chosen by their content, so that their order does not matter."""

from dataclasses import dataclass

import numpy as np

from rembrandt.data.content import in_groups, row_keys
from rembrandt.data.examples import Examples
from rembrandt.data.splits import RowIndices, draw_by_key, latest_rows
from rembrandt.linalg.hashing import Keys

# Share of the examples that is held out, and the largest number.
HELD_OUT_SHARE = 1 / 6
MAX_HELD_OUT = 4000
# The blend is learned on several splits until as many examples are held out.
ENOUGH_HELD_OUT = 750
MAX_SPLITS = 3
# Seed of the hash that decides what the first split holds out.
FIRST_SPLIT = 1
# Examples of a store that are used, at most.
MAX_FROM_DISK = 100_000
# Examples below which held-out ones are uninformative.
FEWEST_EXAMPLES = 100


@dataclass(frozen=True)
class Split:
    """Rows to fit to, and rows to learn the blend on."""

    fit: RowIndices
    held_out: RowIndices


def splits_of(data: Examples, seed: int, n_splits: int | None = None) -> list[Split]:
    """Return the splits of some examples: one, and more where few examples are held out.

    Content alone decides which examples are held out. The seed draws examples of a store.
    Examples with equal features stay together, and so do those of a group. Where times are given,
    the latest examples are held out, in one split.
    """
    rows = counted_rows(data)
    n_in_memory, _ = data.X.resident()
    if n_in_memory < data.n:
        rng = np.random.default_rng(seed + 1)
        drawn = rng.permutation(rows)
        rows = np.sort(drawn[:MAX_FROM_DISK])
    if data.times is not None:
        earlier, latest = latest_rows(data.times[rows], HELD_OUT_SHARE, MAX_HELD_OUT)
        return [Split(rows[earlier], rows[latest])]
    share = round(HELD_OUT_SHARE * len(rows))
    n_held_out = min(MAX_HELD_OUT, share)
    if n_splits is None:
        n_needed = np.ceil(ENOUGH_HELD_OUT / max(1, n_held_out))
        n_splits = min(MAX_SPLITS, int(n_needed))
    keys = row_keys(data, rows)
    groups = data.groups
    if groups is not None:
        keys = in_groups(keys, groups[rows])
    are_equal = len(np.unique(keys)) == 1
    if are_equal and groups is None:
        return _drawn_evenly(data, rows, keys, n_held_out, n_splits)
    splits = _drawn(rows, keys, n_held_out, n_splits)
    if groups is None and _hides_most_labels(data, splits[0]):
        # Each label has one text, which occurs many times.
        return _drawn_evenly(data, rows, keys, n_held_out, n_splits)
    return splits


def counted_rows(data: Examples) -> RowIndices:
    """Return the rows that have a weight, and a label where each row has one.

    A row without a label is then one whose label is unknown. Where rows may have several labels it
    is one with none of them, and without these rows labels would seem more frequent.
    """
    rows = np.arange(data.n)
    if data.weights is not None:
        rows = np.flatnonzero(data.weights > 0)
    if data.multiclass:
        rows = rows[np.diff(data.Y.indptr)[rows] > 0]
    return rows


def _drawn(rows: RowIndices, keys: Keys, n_held_out: int, n_splits: int) -> list[Split]:
    splits = []
    for number in range(n_splits):
        remaining, held_out = draw_by_key(keys, n_held_out, FIRST_SPLIT + number)
        splits.append(Split(rows[remaining], rows[held_out]))
    return splits


def _drawn_evenly(
    data: Examples, rows: RowIndices, keys: Keys, n_held_out: int, n_splits: int
) -> list[Split]:
    """Hold out the same share of the rows that are equal in features and in labels.

    Where equal features come with different labels, the frequencies of the labels are all that can
    be learned. Rows drawn at random would have more of the labels that the others have fewer of,
    and a blend would learn that frequent labels are less likely.
    """
    label_codes = np.random.default_rng(0).standard_normal(data.n_labels)
    codes = data.Y[rows] @ label_codes
    order = np.lexsort((codes, keys))
    splits = []
    for number in range(n_splits):
        offset = (number + 0.5) / n_splits
        positions = (np.arange(n_held_out) + offset) * len(rows) / n_held_out
        is_held = np.zeros(len(rows), dtype=bool)
        is_held[order[positions.astype(np.int64)]] = True
        splits.append(Split(rows[~is_held], rows[is_held]))
    return splits


def _hides_most_labels(data: Examples, split: Split) -> bool:
    """Whether most labels of the held-out rows have all of their examples there."""
    labels_to_fit = data.Y[split.fit].indices
    held_out_labels = data.Y[split.held_out].indices
    counts = np.bincount(labels_to_fit, minlength=data.n_labels)
    has_examples = counts[held_out_labels] > 0
    if len(has_examples) == 0:
        return False
    return bool(has_examples.mean() < 0.5)
