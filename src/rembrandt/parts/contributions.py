"""Scores as exact sums over the features of a row."""

from typing import NamedTuple

import numpy as np

from rembrandt.linalg import Array

# Below this change of the argument a slope is the derivative.
SMALLEST_CHANGE = 1e-6


class Contributions(NamedTuple):
    """Scores of some labels of one row as sums over its features: ``base + values.sum(axis=0)``."""

    base: Array  # m: the scores of an empty row
    values: Array  # stored entries of the row × m


class WordChanges(NamedTuple):
    """How much the log-odds of some labels of one text change if a word is left out: estimates
    that do not add up.
    """

    starts: Array  # of each word in the text
    stops: Array
    changes: Array  # words × m


def secant(first: Array, second: Array, change: Array, derivative: Array) -> Array:
    """Return the slope between two values whose arguments differ by ``change``; the derivative
    where that is zero.
    """
    is_near = np.abs(change) < SMALLEST_CHANGE
    return np.where(is_near, derivative, (second - first) / np.where(is_near, 1.0, change))
