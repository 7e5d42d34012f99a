"""Probabilities and thresholds that are learned from scores of held-out examples."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import f1_score

from rembrandt.scorers.calibration import (
    KNOTS,
    Pairs,
    best_threshold,
    cross_fitted,
    fit_monotone,
    label_thresholds,
)


def pairs_of(scores, Y, weights=None):
    """All pairs of rows and labels."""
    rows, labels = (each.ravel() for each in np.indices(scores.shape))
    weights = np.ones(scores.size) if weights is None else weights
    shown = np.ones(scores.size, dtype=bool)
    return Pairs(rows, labels, scores.ravel(), Y.ravel() == 1, weights, shown, Y.sum(axis=0).astype(np.int64))


class TestMap:
    @settings(deadline=None, max_examples=50)
    @given(arrays(np.float64, st.integers(1, 40), elements=st.floats(-5, 5)), st.integers(0, 2**32 - 1))
    def test_it_rises_and_stays_between_0_and_1(self, scores, seed):
        rng = np.random.default_rng(seed)
        right, weights = rng.random(len(scores)) < 0.5, rng.random(len(scores)) + 0.1
        found = fit_monotone(pairs_of(scores[:, None], 1 * right[:, None], weights))
        for dtype in (np.float32, np.float64):
            values = found(np.linspace(-7, 7, 500).astype(dtype))
            assert values.dtype == dtype and (np.diff(values) >= -1e-6).all()
            assert values.min() >= 0 and values.max() <= 1
        assert_allclose(found(scores), np.interp(scores, found.scores, found.probabilities), atol=1e-9)

    def test_it_finds_the_probabilities(self):
        rng = np.random.default_rng(0)
        scores = rng.uniform(-4, 4, (20_000, 1))
        truth = 1 / (1 + np.exp(-scores))
        pairs = pairs_of(scores, 1 * (rng.random(scores.shape) < truth))
        found = fit_monotone(pairs)
        assert len(found.scores) <= KNOTS
        assert np.abs(found(scores) - truth).mean() < 0.02
        assert np.abs(cross_fitted(pairs) - truth.ravel()).mean() < 0.03

    def test_weights_are_repetitions(self):
        rng = np.random.default_rng(0)
        scores, right, w = rng.random(60), rng.random(60) < 0.4, rng.integers(1, 4, 60)
        weighted = fit_monotone(pairs_of(scores[:, None], 1 * right[:, None], w.astype(float)))
        repeated = fit_monotone(pairs_of(np.repeat(scores, w)[:, None], 1 * np.repeat(right, w)[:, None]))
        grid = np.linspace(0, 1, 100)
        assert_allclose(weighted(grid), repeated(grid), atol=1e-9)

    def test_the_error_is_that_of_the_labels_that_are_shown(self):
        pairs = pairs_of(np.array([[0.9, 0.8], [0.9, 0.8]]), np.array([[1, 0], [1, 0]]))
        assert_allclose(pairs.calibration_error(np.array([1.0, 0.0, 1.0, 0.0])), 0, atol=1e-12)
        assert_allclose(pairs.calibration_error(np.full(4, 0.7)), 0.2, atol=1e-12)
        first = np.array([True, False, True, False])
        shown = Pairs(*[first if name == "shown" else value for name, value in vars(pairs).items()])
        assert_allclose(shown.calibration_error(np.array([1.0, 0.7, 1.0, 0.7])), 0, atol=1e-12)


class TestThresholds:
    def test_the_micro_threshold_is_the_best_of_all(self):
        rng = np.random.default_rng(0)
        Y = rng.random((60, 8)) < 0.3
        P = np.clip(0.3 * Y + 0.7 * rng.random(Y.shape), 0, 1)
        chosen = best_threshold(pairs_of(P, Y), P.ravel())
        scores = [f1_score(Y, t <= P, average="micro") for t in np.unique(P)]
        assert f1_score(Y, chosen <= P, average="micro") > max(scores) - 0.01

    def test_labels_with_few_examples_stay_near_the_common_threshold(self):
        rng = np.random.default_rng(0)
        Y = np.zeros((400, 3), dtype=bool)
        Y[:, 0], Y[:, 1] = rng.random(400) < 0.3, rng.random(400) < 0.3
        Y[0, 2] = True
        P = np.where(Y, [0.9, 0.4, 0.02], [0.5, 0.1, 0.01]) + 0.001 * rng.random(Y.shape)
        first, second, rare = label_thresholds(pairs_of(P, Y), P.ravel())
        assert 0.5 < first <= 0.91 and 0.1 < second <= 0.41
        assert rare > 0.1

    def test_without_a_true_label_the_threshold_is_one_half(self):
        P = np.random.default_rng(0).random((5, 3))
        pairs = pairs_of(P, np.zeros((5, 3), dtype=int))
        assert best_threshold(pairs, P.ravel()) == 0.5
        assert_array_equal(label_thresholds(pairs, P.ravel()), [0.5] * 3)
