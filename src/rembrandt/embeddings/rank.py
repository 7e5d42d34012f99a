"""How many directions to keep, read off the spectrum."""

import numpy as np
from numpy.typing import ArrayLike

MOST = 1000  # the rank that an automatic choice tries first
SHARE = 0.995  # of the spectrum found, held by the directions kept


def largest_rank(n: int, d: int, c: int) -> int:
    """The rank that an automatic choice starts from."""
    return max(1, min(n, d, c, MOST))


def choose_rank(sigma: ArrayLike) -> tuple[int, str]:
    """The smallest rank that holds nearly all of the spectrum, and the reason as a sentence."""
    values = np.asarray(sigma, dtype=np.float64)
    held = np.cumsum(values) / values.sum()
    rank = min(int(np.searchsorted(held, SHARE)) + 1, len(values))
    return rank, f"{rank} of the {len(values)} directions found hold {held[rank - 1]:.1%} of their spectrum"
