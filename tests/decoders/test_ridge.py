"""The ridge decoder is scikit-learn's ridge regression on every label at once."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import Ridge

from rembrandt.decoders import ridge
from rembrandt.decoders.ridge import RidgeStatistics
from rembrandt.engines.place import CpuPlace
from rembrandt.features.fourier import draw
from rembrandt.linalg.blocks import spans

from .contract import DecoderContract, problem


class TestRidge(DecoderContract):
    kernel = None

    def fit(self, H, Y, places):
        fourier = None if self.kernel is None else draw(self.kernel, H, 150)
        return RidgeStatistics(H, Y, fourier).solve(0.01)


class TestRidgeManyLabels(TestRidge):
    multiclass = False


class TestRidgeOnAKernel(TestRidge):
    kernel = "gaussian"


@pytest.mark.parametrize("strength", [1e-3, 0.1, 10.0])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kernel", [None, "gaussian"])
def test_equals_scikit_learn(strength, weighted, kernel):
    H, Y, _ = problem(multiclass=False)
    H = H + 3  # an intercept that matters
    w = np.random.default_rng(0).integers(0, 4, len(H)).astype(float) if weighted else None
    fourier = None if kernel is None else draw(kernel, H, 40)
    Phi = (H if fourier is None else fourier(H)).astype(np.float64)
    root = np.ones(len(H)) if w is None else w
    centred = Phi - root @ Phi / root.sum()
    alpha = strength * np.trace(centred.T @ (root[:, None] * centred)) / root.sum()
    expected = Ridge(alpha=alpha).fit(Phi, Y.toarray(), sample_weight=w)
    found = RidgeStatistics(H, Y, fourier, w).solve(strength)
    scale = np.abs(expected.coef_).max()
    assert_allclose(found.weights.T, expected.coef_, atol=1e-3 * scale)
    assert_allclose(found.scores(H), expected.predict(Phi), atol=2e-3)


def test_one_set_of_statistics_serves_every_strength():
    H, Y, _ = problem()
    statistics = RidgeStatistics(H, Y, None)
    statistics.solve(5.0)
    assert np.array_equal(statistics.solve(0.1).weights, RidgeStatistics(H, Y, None).solve(0.1).weights)


def test_blocks_do_not_change_the_result(monkeypatch):
    H, Y, _ = problem(multiclass=False)
    weights = np.random.default_rng(0).random(len(H))
    whole = RidgeStatistics(H, Y, None, weights).solve(0.1)
    monkeypatch.setattr(CpuPlace, "row_spans", lambda self, n, width: spans(n, 37))
    monkeypatch.setattr(ridge, "LABELS", 5)
    parts = RidgeStatistics(H, Y, None, weights).solve(0.1)
    assert_allclose(parts.weights, whole.weights, atol=1e-5)
    assert_allclose(parts.bias, whole.bias, atol=1e-5)


@pytest.mark.parametrize("strength", [0.0, 0.01])
def test_a_constant_projection_predicts_the_base_rates(strength):
    H, Y, _ = problem()
    decoder = RidgeStatistics(np.ones_like(H), Y, None).solve(strength)
    assert_allclose(decoder.scores(np.ones_like(H[:3])), np.tile(Y.mean(axis=0), (3, 1)), atol=1e-4)


def test_random_features_of_equal_rows_have_a_positive_definite_gram_matrix():
    """In single precision it has negative eigenvalues, and the factorisation fails."""
    H, Y, _ = problem(noise=1e-4)
    decoder = RidgeStatistics(H, Y, draw("gaussian", H, 500, scale=3.0)).solve(0.0)
    assert np.isfinite(decoder.weights).all()
