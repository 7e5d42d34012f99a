"""Random splits of rows."""

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]


def draw_rows(
    n: int, fraction: float, seed: int, most: int | None = None, groups: Rows | None = None
) -> tuple[Rows, Rows]:
    """Sorted indices of the remaining rows and of the held-out rows, ``fraction`` of all and at most ``most``.

    Rows of the same group stay on one side.
    """
    held = min(n if most is None else most, round(fraction * n))
    rng = np.random.default_rng(seed)
    if groups is None:
        order = rng.permutation(n)
        return np.sort(order[held:]), np.sort(order[:held])
    sizes = np.bincount(groups)
    order = rng.permutation(len(sizes))
    drawn = np.zeros(len(sizes), dtype=bool)
    drawn[order[np.cumsum(sizes[order]) <= held]] = True
    return np.flatnonzero(~drawn[groups]), np.flatnonzero(drawn[groups])
