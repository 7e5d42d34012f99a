"""Calibration: whether 70 % of the predictions with a probability of 70 % are right."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from rembrandt.errors import DataError


@dataclass(frozen=True)
class Bin:
    """Predictions with similar probabilities.

    Attributes
    ----------
    n : int
        Number of predictions.
    predicted : float
        Mean probability.
    observed : float
        Fraction that is right.
    """

    n: int
    predicted: float
    observed: float


def reliability(probabilities: ArrayLike, right: ArrayLike, n_bins: int = 10) -> list[Bin]:
    """Group predictions into bins of equal width by their probability.

    Parameters
    ----------
    probabilities : array
        Probabilities of predictions.
    right : array of bool, of the same size
        Whether each prediction is right.
    n_bins : int, default=10
        Number of bins between 0 and 1.

    Returns
    -------
    list of Bin
        The bins that are not empty, the lowest first.

    Examples
    --------
    >>> reliability([0.75, 0.75, 0.25], [True, False, False], n_bins=2)
    [Bin(n=1, predicted=0.25, observed=0.0), Bin(n=2, predicted=0.75, observed=0.5)]
    """
    p = np.asarray(probabilities, dtype=np.float64).ravel()
    is_right = np.asarray(right, dtype=bool).ravel()
    if p.shape != is_right.shape or n_bins < 1:
        raise DataError(
            f"{p.size} probabilities, {is_right.size} outcomes and {n_bins} bins; pass one outcome "
            "for each"
        )
    if p.size and not (p.min() >= 0 and p.max() <= 1):
        raise DataError(f"probabilities are in {p.min()}…{p.max()}; pass values from 0 to 1")
    numbers = (p * n_bins).astype(np.int64)
    numbers = np.minimum(numbers, n_bins - 1)  # a probability of one is in the last bin
    counts = np.bincount(numbers, minlength=n_bins)
    sums = np.bincount(numbers, p, n_bins)
    n_right = np.bincount(numbers, is_right, n_bins)
    bins = []
    for number in np.flatnonzero(counts):
        n = counts[number]
        predicted = sums[number] / n
        observed = n_right[number] / n
        bins.append(Bin(int(n), float(predicted), float(observed)))
    return bins


def calibration_error(bins: list[Bin]) -> float:
    """Return the expected calibration error.

    Parameters
    ----------
    bins : list of Bin
        What `reliability` returns.

    Returns
    -------
    float
        Mean absolute difference between predicted and observed frequency, over all predictions.
    """
    n_predictions = sum(group.n for group in bins)
    if n_predictions == 0:
        return 0.0
    total_error = sum(group.n * abs(group.predicted - group.observed) for group in bins)
    return total_error / n_predictions
