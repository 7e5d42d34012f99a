"""Rows cut at random in two."""

import numpy as np
from numpy.typing import NDArray


def draw_rows(
    n: int, fraction: float, seed: int, most: int | None = None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Row indices, in order: the rest, and about ``fraction`` of them held out, ``most`` at the most."""
    order = np.random.default_rng(seed).permutation(n)
    held = min(n if most is None else most, round(fraction * n))
    return np.sort(order[held:]), np.sort(order[:held])
