"""Random splits of rows."""

import numpy as np
from numpy.typing import NDArray

RowIndices = NDArray[np.int64]


def draw_rows(
    n: int,
    fraction: float,
    seed: int,
    max_held: int | None = None,
    groups: RowIndices | None = None,
) -> tuple[RowIndices, RowIndices]:
    """Split rows at random into remaining and held-out ones.

    Rows of the same group stay on one side: groups that are larger than the held-out part are not
    held out, unless all are. Rows that are all of one group are drawn as if there were none.

    Parameters
    ----------
    n : int
        Number of rows.
    fraction : float
        Share of the rows to hold out.
    seed : int
        Seed of the random generator.
    max_held : int, default=None
        The largest number of rows to hold out.
    groups : ndarray of shape (n,), default=None
        The number of the group of each row.

    Returns
    -------
    remaining, held_out : ndarray
        Indices of the rows, sorted.
    """
    limit = n if max_held is None else max_held
    n_held = min(limit, round(fraction * n))
    rng = np.random.default_rng(seed)
    if groups is not None:
        sizes = np.bincount(groups)
        if len(sizes) != 1:
            is_held = _drawn_groups(sizes, n_held, rng)[groups]
            return np.flatnonzero(~is_held), np.flatnonzero(is_held)
    order = rng.permutation(n)
    held_out = np.sort(order[:n_held])
    remaining = np.sort(order[n_held:])
    return remaining, held_out


def _drawn_groups(sizes: RowIndices, n_held: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Draw groups with at most ``n_held`` rows together, but at least one; returns a mask."""
    n_groups = len(sizes)
    order = rng.permutation(n_groups)
    largest = max(n_held, sizes.min())
    is_small = sizes[order] <= largest
    order = order[is_small]
    total = np.cumsum(sizes[order])
    fits = total <= n_held
    fits[0] = True
    is_drawn = np.zeros(n_groups, dtype=bool)
    is_drawn[order[fits]] = True
    return is_drawn


def latest_rows(times: RowIndices, fraction: float, max_held: int) -> tuple[RowIndices, RowIndices]:
    """Split rows into earlier and latest ones.

    Rows of the same time stay on one side. Where that leaves no earlier rows, the last rows are the
    latest.

    Parameters
    ----------
    times : ndarray of shape (n,)
        The time of each row.
    fraction : float
        About the share of the rows that are the latest.
    max_held : int
        About the largest number of rows that are the latest.

    Returns
    -------
    earlier, latest : ndarray
        Indices of the rows, sorted.
    """
    n = len(times)
    n_held = min(max_held, round(fraction * n))
    n_held = max(1, n_held)
    boundary = np.sort(times)[n - n_held]
    is_late = times >= boundary
    if is_late.all():
        is_late = np.arange(n) >= n - n_held
    return np.flatnonzero(~is_late), np.flatnonzero(is_late)


def draw_by_key(keys: NDArray[np.uint64], n_held: int, seed: int) -> tuple[RowIndices, RowIndices]:
    """Split rows into remaining and held-out ones by a hash of their keys.

    The order of the rows does not matter. Rows with the same key stay on one side: sets of rows
    that are larger than the held-out part are not held out, unless all are. Rows that all have the
    same key are drawn by their position.

    Parameters
    ----------
    keys : ndarray of shape (n,)
        A number for each row.
    n_held : int
        Number of rows to hold out.
    seed : int
        Seed of the hash.

    Returns
    -------
    remaining, held_out : ndarray
        Indices of the rows, sorted.
    """
    distinct, group, sizes = np.unique(keys, return_inverse=True, return_counts=True)
    if len(distinct) == 1:
        distinct = np.arange(len(keys), dtype=np.uint64)
        group = np.arange(len(keys))
        sizes = np.ones(len(keys), dtype=np.int64)
    order = np.argsort(hashed(distinct, seed), kind="stable")
    largest = max(n_held, sizes.min())
    order = order[sizes[order] <= largest]
    fits = np.cumsum(sizes[order]) <= n_held
    fits[0] = True
    is_drawn = np.zeros(len(distinct), dtype=bool)
    is_drawn[order[fits]] = True
    is_held = is_drawn[group]
    return np.flatnonzero(~is_held), np.flatnonzero(is_held)


def hashed(keys: NDArray[np.uint64], seed: int) -> NDArray[np.uint64]:
    """Return keys that are distributed as at random, by the finalizer of splitmix64."""
    offset = (seed + 1) * 0x9E3779B97F4A7C15 % (1 << 64)
    state = keys + np.uint64(offset)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))
