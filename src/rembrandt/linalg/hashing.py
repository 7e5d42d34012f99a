"""Numbers that are as good as random, from numbers that are not."""

import numpy as np
from numpy.typing import NDArray

Keys = NDArray[np.uint64]

# Constants of SplitMix64, whose outputs for neighbouring numbers are unrelated.
_STEP = 0x9E3779B97F4A7C15
_FIRST_FACTOR = np.uint64(0xBF58476D1CE4E5B9)
_SECOND_FACTOR = np.uint64(0x94D049BB133111EB)


def hashed(keys: Keys, seed: int = 0) -> Keys:
    """Return keys whose order has nothing to do with that of these: the finalizer of SplitMix64."""
    offset = (seed + 1) * _STEP % (1 << 64)
    state = keys + np.uint64(offset)
    state = _mixed(state, 30) * _FIRST_FACTOR
    state = _mixed(state, 27) * _SECOND_FACTOR
    return _mixed(state, 31)


def _mixed(state: Keys, n_bits: int) -> Keys:
    """Let the high bits change the low ones."""
    shift = np.uint64(n_bits)
    return state ^ (state >> shift)


def as_fractions(keys: Keys, seed: int = 0) -> NDArray[np.float64]:
    """Return numbers from -1 to 1 that are distributed as at random, one for each key."""
    highest_bits = hashed(keys, seed) >> np.uint64(11)
    return highest_bits.astype(np.float64) * 2.0**-52 - 1
