"""The ridge decoder is scikit-learn's ridge regression on every label at once."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import Ridge

from rembrandt.engines import statistics as module
from rembrandt.engines.backend import CPU, Backend
from rembrandt.features.fourier import draw
from rembrandt.linalg.blocks import spans
from rembrandt.parts.embedding.decoders.ridge import fit_ridge

from .contract import DecoderContract, problem


def ridge(H, Y, fourier=None, weights=None, strength=0.1):
    return fit_ridge(CPU.statistics(H, Y, fourier, weights), strength)


class TestRidge(DecoderContract):
    kernel = None

    def fit(self, H, Y, places):
        fourier = None if self.kernel is None else draw(self.kernel, H, 150)
        return ridge(H, Y, fourier, strength=0.01)


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
    decoder = ridge(H, Y, fourier, w, strength)
    scale = np.abs(expected.coef_).max()
    assert_allclose(decoder.weights.T, expected.coef_, atol=1e-3 * scale)
    assert_allclose(decoder.scores(H), expected.predict(Phi), atol=2e-3)


def test_one_set_of_statistics_serves_every_strength():
    H, Y, _ = problem()
    statistics = CPU.statistics(H, Y, None, None)
    fit_ridge(statistics, 5.0)
    assert np.array_equal(fit_ridge(statistics, 0.1).weights, ridge(H, Y).weights)


def test_blocks_do_not_change_the_result(monkeypatch):
    H, Y, _ = problem(multiclass=False)
    weights = np.random.default_rng(0).random(len(H))
    whole = ridge(H, Y, None, weights)
    monkeypatch.setattr(Backend, "row_spans", lambda self, n, width: spans(n, 37))
    monkeypatch.setattr(module, "LABEL_BLOCK", 5)
    parts = ridge(H, Y, None, weights)
    assert_allclose(parts.weights, whole.weights, atol=1e-5)
    assert_allclose(parts.bias, whole.bias, atol=1e-5)


@pytest.mark.parametrize("strength", [0.0, 0.01])
def test_a_constant_projection_predicts_the_base_rates(strength):
    H, Y, _ = problem()
    decoder = ridge(np.ones_like(H), Y, strength=strength)
    assert_allclose(decoder.scores(np.ones_like(H[:3])), np.tile(Y.mean(axis=0), (3, 1)), atol=1e-4)


def test_random_features_of_equal_rows_have_a_positive_definite_gram_matrix():
    """In single precision it has negative eigenvalues, and the factorisation fails."""
    H, Y, _ = problem(noise=1e-4)
    decoder = ridge(H, Y, draw("gaussian", H, 500, scale=3.0), strength=0.0)
    assert np.isfinite(decoder.weights).all()
