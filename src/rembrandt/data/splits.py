"""Random splits of rows."""

import numpy as np
from numpy.typing import NDArray

from rembrandt.linalg.hashing import Keys, hashed

RowIndices = NDArray[np.int64]
Split = tuple[RowIndices, RowIndices]


def draw_rows(
    n: int,
    fraction: float,
    seed: int,
    max_held: int | None = None,
    groups: RowIndices | None = None,
) -> Split:
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
    n_held = round(fraction * n)
    if max_held is not None:
        n_held = min(n_held, max_held)
    rng = np.random.default_rng(seed)
    if groups is not None:
        sizes = np.bincount(groups)
        n_groups = len(sizes)
        if n_groups != 1:
            is_drawn = _drawn_groups(rng.permutation(n_groups), sizes, n_held)
            return _split(is_drawn[groups])
    order = rng.permutation(n)
    held_out = np.sort(order[:n_held])
    remaining = np.sort(order[n_held:])
    return remaining, held_out


def latest_rows(times: RowIndices, fraction: float, max_held: int) -> Split:
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
    n_held = round(fraction * n)
    n_held = min(n_held, max_held)
    n_held = max(n_held, 1)
    first_held = n - n_held
    boundary = np.sort(times)[first_held]
    is_late = times >= boundary
    if is_late.all():
        is_late = np.arange(n) >= first_held
    return _split(is_late)


def draw_by_key(keys: Keys, n_held: int, seed: int) -> Split:
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
    is_drawn = _drawn_groups(order, sizes, n_held)
    return _split(is_drawn[group])


def _drawn_groups(order: RowIndices, sizes: RowIndices, n_held: int) -> NDArray[np.bool_]:
    """Return which groups are drawn: the first in ``order`` with at most ``n_held`` rows together,
    but at least one.
    """
    largest = max(n_held, sizes.min())
    is_small = sizes[order] <= largest
    order = order[is_small]
    total = np.cumsum(sizes[order])
    fits = total <= n_held
    fits[0] = True
    is_drawn = np.zeros(len(sizes), dtype=np.bool_)
    is_drawn[order[fits]] = True
    return is_drawn


def _split(is_held: NDArray[np.bool_]) -> Split:
    """Return the rows that are not held out, and those that are."""
    remaining = np.flatnonzero(~is_held)
    held_out = np.flatnonzero(is_held)
    return remaining, held_out
