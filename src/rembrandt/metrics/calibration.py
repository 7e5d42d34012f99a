"""Whether probabilities mean what they say: of predictions made with 70 %, are 70 % right?"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from rembrandt.errors import DataError


@dataclass(frozen=True)
class Bin:
    """Predictions of about the same probability."""

    n: int
    predicted: float  # mean probability
    observed: float  # fraction that is right


def reliability(probabilities: ArrayLike, right: ArrayLike, n_bins: int = 10) -> list[Bin]:
    """Return the predictions in bins of equal width between 0 and 1, the lowest first; empty bins are left out.

    >>> reliability([0.75, 0.75, 0.25], [True, False, False], n_bins=2)
    [Bin(n=1, predicted=0.25, observed=0.0), Bin(n=2, predicted=0.75, observed=0.5)]
    """
    p, hit = np.asarray(probabilities, dtype=np.float64).ravel(), np.asarray(right, dtype=bool).ravel()
    if p.shape != hit.shape or n_bins < 1:
        raise DataError(f"{p.size} probabilities for {hit.size} outcomes in {n_bins} bins; give one for each")
    if p.size and not (p.min() >= 0 and p.max() <= 1):
        raise DataError(f"probabilities lie in {p.min()}…{p.max()}; give values from 0 to 1")
    place = np.minimum((p * n_bins).astype(np.int64), n_bins - 1)
    n, total, found = (np.bincount(place, w, n_bins) for w in (None, p, hit))
    return [Bin(int(n[b]), float(total[b] / n[b]), float(found[b] / n[b])) for b in np.flatnonzero(n).tolist()]


def calibration_error(bins: list[Bin]) -> float:
    """Return the mean distance between what was predicted and what came, over all predictions."""
    n = sum(b.n for b in bins)
    return sum(b.n * abs(b.predicted - b.observed) for b in bins) / n if n else 0.0
