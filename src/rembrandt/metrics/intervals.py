"""Confidence intervals of measures."""

from collections.abc import Mapping

import numpy as np

from rembrandt.errors import DataError
from rembrandt.linalg import Array
from rembrandt.progress import Report, silent

Interval = tuple[float, float]


def wilson(share: float, n: int, z: float = 1.96) -> Interval:
    """Return the interval of Wilson for a share of ``n`` independent examples.

    ``z`` is the quantile of the normal distribution, 1.96 for 95 %.

    >>> low, high = wilson(0.6, 100)
    >>> round(low, 3), round(high, 3)
    (0.502, 0.691)
    """
    if n == 0:
        return 0.0, 1.0
    widening = z**2 / n
    scale = 1 + widening
    centre = (share + widening / 2) / scale
    variance = share * (1 - share) / n + widening / (4 * n)
    spread = z * np.sqrt(variance) / scale
    low = float(centre - spread)
    high = float(centre + spread)
    return max(0.0, low), min(1.0, high)


def bootstrap(
    terms: Mapping[str, tuple[Array, Array]],
    n_replicates: int = 1000,
    level: float = 0.95,
    seed: int = 0,
    report: Report = silent,
) -> dict[str, Interval]:
    """Return percentile bootstrap intervals of measures that are quotients of two sums over rows.

    Parameters
    ----------
    terms : mapping of str to (ndarray, ndarray)
        For each measure what every row adds to the numerator and the denominator, as `row_terms`
        returns.
    n_replicates : int, default=1000
        Number of samples drawn with replacement. All measures are computed on the same samples.
    level : float, default=0.95
        Confidence level.
    seed : int, default=0
        The same seed gives the same intervals.
    report : callable, optional
        Called as ``report(stage, done, total)``.

    Returns
    -------
    dict of str to (float, float)
        Lower and upper bound of each measure.

    Examples
    --------
    >>> rows = np.arange(100) < 60
    >>> low, high = bootstrap({"p@1": (rows, np.ones(100))})["p@1"]
    >>> 0.45 < low < 0.6 < high < 0.75
    True
    """
    if not 0 < level < 1 or n_replicates < 1:
        raise DataError(
            f"level={level} must be between 0 and 1, and n_replicates={n_replicates} at least 1"
        )
    columns: list[Array] = []  # numerator and denominator of each measure in turn
    for numerator, denominator in terms.values():
        columns += [numerator, denominator]
    rows = np.column_stack(columns).astype(np.float64)
    n_rows, n_columns = rows.shape
    if n_rows == 0:
        return dict.fromkeys(terms, (0.0, 0.0))
    rng = np.random.default_rng(seed)
    sums = np.empty((n_replicates, n_columns))
    for replicate in range(n_replicates):
        report("bootstrap", replicate, n_replicates)
        drawn = rng.integers(0, n_rows, n_rows)
        n_draws = np.bincount(drawn, minlength=n_rows)
        sums[replicate] = n_draws @ rows
    report("bootstrap", n_replicates, n_replicates)
    numerators = sums[:, ::2]
    denominators = sums[:, 1::2]
    has_value = denominators > 0
    values = np.zeros_like(numerators)
    np.divide(numerators, denominators, out=values, where=has_value)
    lower_tail = (1 - level) / 2
    upper_tail = (1 + level) / 2
    bounds = np.quantile(values, [lower_tail, upper_tail], axis=0)
    intervals = {}
    for number, name in enumerate(terms):
        low, high = bounds[:, number].tolist()
        intervals[name] = (low, high)
    return intervals
