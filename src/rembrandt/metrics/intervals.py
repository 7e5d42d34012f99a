"""How far a measure would move with other examples of the same kind: bootstrap intervals."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rembrandt.errors import DataError
from rembrandt.progress import Report, silent


def bootstrap(
    terms: Mapping[str, tuple[NDArray[Any], NDArray[Any]]],
    n_replicates: int = 1000,
    level: float = 0.95,
    seed: int = 0,
    report: Report = silent,
) -> dict[str, tuple[float, float]]:
    """Return the interval that holds the middle ``level`` of each measure over examples drawn again with replacement.

    ``terms`` are what `row_terms` returns: every measure is a quotient of two sums over rows. All measures see the same
    draws, and the same seed gives the same intervals.

    >>> rows = np.arange(100) < 60
    >>> low, high = bootstrap({"p@1": (rows, np.ones(100))})["p@1"]
    >>> 0.45 < low < 0.6 < high < 0.75
    True
    """
    if not 0 < level < 1 or n_replicates < 1:
        raise DataError(f"level is {level} and n_replicates {n_replicates}; give a level between 0 and 1, and draws")
    sides = np.column_stack([side for both in terms.values() for side in both]).astype(np.float64)
    n = len(sides)
    if n == 0:
        return dict.fromkeys(terms, (0.0, 0.0))
    rng = np.random.default_rng(seed)
    sums = np.empty((n_replicates, sides.shape[1]))
    for replicate in range(n_replicates):
        report("drawing examples again", replicate, n_replicates)
        sums[replicate] = np.bincount(rng.integers(0, n, n), minlength=n) @ sides
    report("drawing examples again", n_replicates, n_replicates)
    above, below = sums[:, ::2], sums[:, 1::2]
    values = np.divide(above, below, out=np.zeros_like(above), where=below > 0)
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return dict(zip(terms, zip(low.tolist(), high.tolist(), strict=True), strict=True))
