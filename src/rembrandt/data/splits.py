"""Random splits of rows."""

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]


def draw_rows(
    n: int, fraction: float, seed: int, most: int | None = None, groups: Rows | None = None
) -> tuple[Rows, Rows]:
    """Sorted indices of the remaining rows and of the held-out rows, ``fraction`` of all and at
    most ``most``.

    Rows of the same group stay on one side: groups that are larger than the held-out part are not
    held out, unless all are. Rows that are all of one group are drawn as if there were none.
    """
    held = min(n if most is None else most, round(fraction * n))
    rng = np.random.default_rng(seed)
    sizes = np.bincount([] if groups is None else groups)
    if groups is None or len(sizes) == 1:
        order = rng.permutation(n)
        return np.sort(order[held:]), np.sort(order[:held])
    order = rng.permutation(len(sizes))
    order = order[sizes[order] <= max(held, sizes.min())]
    kept = np.cumsum(sizes[order]) <= held
    kept[0] = True
    drawn = np.zeros(len(sizes), dtype=bool)
    drawn[order[kept]] = True
    return np.flatnonzero(~drawn[groups]), np.flatnonzero(drawn[groups])


def latest_rows(times: Rows, fraction: float, most: int) -> tuple[Rows, Rows]:
    """Indices of the earlier rows and of the latest rows, about ``fraction`` of all and at most
    about ``most``.

    Rows of the same time stay on one side. Where that leaves no earlier rows, the last rows are the
    latest.
    """
    n = len(times)
    held = max(1, min(most, round(fraction * n)))
    late = times >= np.sort(times)[n - held]
    if late.all():
        late = np.arange(n) >= n - held
    return np.flatnonzero(~late), np.flatnonzero(late)
