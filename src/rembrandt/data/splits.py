"""Random splits of rows."""

import numpy as np
from numpy.typing import NDArray


def draw_rows(
    n: int, fraction: float, seed: int, most: int | None = None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Sorted indices of the remaining rows and of the held-out rows, ``fraction`` of all and at most ``most``."""
    order = np.random.default_rng(seed).permutation(n)
    held = min(n if most is None else most, round(fraction * n))
    return np.sort(order[held:]), np.sort(order[:held])
