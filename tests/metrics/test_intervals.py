"""Bootstrap intervals and reliability curves."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rembrandt.errors import DataError
from rembrandt.metrics import bootstrap, calibration_error, evaluate, reliability, row_terms
from rembrandt.metrics.intervals import wilson


def test_intervals_hold_the_measure_and_are_as_wide_as_theory_says():
    rng = np.random.default_rng(0)
    right = rng.random(2000) < 0.7
    low, high = bootstrap({"p@1": (right, np.ones(2000))}, n_replicates=800)["p@1"]
    width = 2 * 1.96 * np.sqrt(right.mean() * (1 - right.mean()) / 2000)
    assert low < right.mean() < high and (high - low) == pytest.approx(width, rel=0.15)


@pytest.mark.parametrize(("level", "errors"), [(0.95, 1.96), (0.5, 0.674)])
def test_each_bound_of_a_level_is_as_far_away_as_theory_says(level, errors):
    right = np.arange(1000) < 400
    terms = {"p@1": (right, np.ones(1000))}
    low, high = bootstrap(terms, n_replicates=2000, level=level)["p@1"]
    error = np.sqrt(0.4 * 0.6 / 1000)
    assert (0.4 - low) / error == pytest.approx(errors, abs=0.2)
    assert (high - 0.4) / error == pytest.approx(errors, abs=0.2)


@pytest.mark.parametrize("share", [0.02, 0.3, 0.9])
@pytest.mark.parametrize("n", [10, 400])
def test_the_bounds_of_wilson_are_as_far_away_as_their_own_standard_error(share, n):
    low, high = wilson(share, n)
    assert 0 < low < share < high < 1
    for bound in (low, high):
        error = np.sqrt(bound * (1 - bound) / n)
        assert abs(bound - share) == pytest.approx(1.96 * error)
    assert wilson(0.0, n)[0] == 0.0
    assert wilson(1.0, n)[1] == 1.0
    assert wilson(share, 0) == (0.0, 1.0)


def test_every_measure_lies_in_its_interval_and_the_seed_decides():
    rng = np.random.default_rng(1)
    truth = (rng.random((300, 20)) < 0.15).astype(int)
    labels = np.argsort(-(truth + rng.random((300, 20))), axis=1)[:, :5]
    rest = (truth.sum(axis=0), 300)
    table, terms = evaluate(truth, labels, *rest), row_terms(truth, labels, *rest)
    intervals = bootstrap(terms, 200)
    assert set(terms) - {"hit"} == set(table) - {"error"}
    assert all(
        low <= table.get(name, table["p@1"]) <= high for name, (low, high) in intervals.items()
    )
    assert bootstrap(terms, 200) == intervals != bootstrap(terms, 200, seed=1)


def test_no_rows_and_no_level():
    assert bootstrap({"p@1": (np.empty(0), np.empty(0))}) == {"p@1": (0.0, 0.0)}
    with pytest.raises(DataError, match="between 0 and 1"):
        bootstrap({"p@1": (np.ones(3), np.ones(3))}, level=95)


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), max_size=40), st.integers(1, 12))
def test_bins_hold_every_prediction_once(pairs, n_bins):
    p, right = [a for a, _ in pairs], [b for _, b in pairs]
    bins = reliability(p, right, n_bins)
    assert sum(b.n for b in bins) == len(pairs)
    assert sum(b.n * b.observed for b in bins) == pytest.approx(sum(right))
    assert sum(b.n * b.predicted for b in bins) == pytest.approx(sum(p))
    assert [b.predicted for b in bins] == sorted(b.predicted for b in bins)
    assert 0 <= calibration_error(bins) <= 1


def test_probabilities_that_come_true_are_calibrated():
    rng = np.random.default_rng(2)
    p = rng.random(20_000)
    assert calibration_error(reliability(p, rng.random(20_000) < p)) < 0.02
    assert calibration_error(reliability(p, rng.random(20_000) < p**2)) > 0.1
    with pytest.raises(DataError, match="from 0 to 1"):
        reliability([1.5], [True])


def test_the_bins_of_a_few_predictions():
    """A probability of one is in the last bin, and one at a boundary in the upper bin."""
    p = [0.0, 0.1, 0.25, 0.25, 0.9, 1.0, 1.0]
    right = [False, True, True, False, True, True, False]
    bins = reliability(p, right, n_bins=4)
    assert [(group.n, group.predicted, group.observed) for group in bins] == [
        (2, pytest.approx(0.05), 0.5),
        (2, 0.25, 0.5),
        (3, pytest.approx(2.9 / 3), pytest.approx(2 / 3)),
    ]
    assert calibration_error(bins) == pytest.approx((2 * 0.45 + 2 * 0.25 + 0.9) / 7)
    assert calibration_error([]) == 0
