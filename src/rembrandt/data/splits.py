"""Random splits of rows."""

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]


def draw_rows(
    n: int, fraction: float, seed: int, most: int | None = None, groups: Rows | None = None
) -> tuple[Rows, Rows]:
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
    most : int, default=None
        The largest number of rows to hold out.
    groups : ndarray of shape (n,), default=None
        The number of the group of each row.

    Returns
    -------
    remaining, held_out : ndarray
        Indices of the rows, sorted.
    """
    limit = n if most is None else most
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


def _drawn_groups(sizes: Rows, n_held: int, rng: np.random.Generator) -> NDArray[np.bool_]:
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


def latest_rows(times: Rows, fraction: float, most: int) -> tuple[Rows, Rows]:
    """Split rows into earlier and latest ones.

    Rows of the same time stay on one side. Where that leaves no earlier rows, the last rows are the
    latest.

    Parameters
    ----------
    times : ndarray of shape (n,)
        The time of each row.
    fraction : float
        About the share of the rows that are the latest.
    most : int
        About the largest number of rows that are the latest.

    Returns
    -------
    earlier, latest : ndarray
        Indices of the rows, sorted.
    """
    n = len(times)
    n_held = min(most, round(fraction * n))
    n_held = max(1, n_held)
    boundary = np.sort(times)[n - n_held]
    is_late = times >= boundary
    if is_late.all():
        is_late = np.arange(n) >= n - n_held
    return np.flatnonzero(~is_late), np.flatnonzero(is_late)
