"""Hashed numbers are those of SplitMix64, and fractions are distributed evenly."""

import numpy as np
import pytest

from rembrandt.linalg.hashing import as_fractions, hashed

MASK = (1 << 64) - 1
KEYS = np.arange(20_000, dtype=np.uint64)


def split_mix(number, seed):
    """The published generator, with integers of any size."""
    state = (number + (seed + 1) * 0x9E3779B97F4A7C15) & MASK
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & MASK
    return state ^ (state >> 31)


@pytest.mark.parametrize("seed", [0, 1, 12345])
def test_hashed_numbers_are_those_of_the_generator(seed):
    numbers = [0, 1, 2, 12345, MASK]
    expected = [split_mix(number, seed) for number in numbers]
    assert hashed(np.array(numbers, dtype=np.uint64), seed).tolist() == expected


@pytest.mark.parametrize("seed", [0, 7])
def test_fractions_are_even_between_minus_one_and_one(seed):
    fractions = as_fractions(KEYS, seed)
    assert fractions.min() >= -1
    assert fractions.max() < 1
    counts, _ = np.histogram(fractions, bins=10, range=(-1, 1))
    assert (abs(counts - 2000) < 200).all()
    assert len(np.unique(fractions)) == len(KEYS)
    assert abs(np.corrcoef(fractions[1:], fractions[:-1])[0, 1]) < 0.03
