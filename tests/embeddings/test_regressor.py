"""Any regressor as the learning step; a linear one gives the embedding of the linear path."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from rembrandt.embeddings.regressor import embed_with_regressor
from rembrandt.errors import DataError, SettingsError
from rembrandt.linalg.eigen import randomized_eigh, ritz

from .contract import EmbeddingContract, fit
from .problems import latent, recipe


class RelativeRidge:
    """The linear path as a regressor: a penalised constant, and a strength relative to the
    features.
    """

    def __init__(self, ridge):
        self.ridge = ridge

    def fit(self, X, T, sample_weight=None):
        root = np.ones(len(T)) if sample_weight is None else np.sqrt(sample_weight)
        A = self.features(X) * root[:, None]
        G = A.T @ A
        strength = self.ridge * np.trace(G) / np.count_nonzero(np.diag(G))
        self.W = np.linalg.solve(G + strength * np.eye(len(G)), A.T @ (T * root[:, None]))
        return self

    def predict(self, X):
        return self.features(X) @ self.W

    def features(self, X):
        X = X.toarray() if sparse.issparse(X) else X
        return np.hstack([X, np.ones((X.shape[0], 1))]).astype(np.float64)


class TestRidgeAsRegressor(EmbeddingContract):
    method = "rembrandt"

    def fit(self, data, settings):
        regressor = RelativeRidge(settings.ridge)
        embedding, final = embed_with_regressor(
            data.X, data.Y, data.weights, replace(settings, regressor=regressor)
        )
        assert_allclose(embedding.W, np.eye(embedding.V.shape[1] + 1)[:, :-1])
        return replace(embedding, W=final.regressor.W)

    def test_it_is_the_linear_embedding(self, data, fitted):
        linear = fit(self.seen(data), self.settings(n_iter=6))
        found = self.fit(data, self.settings(n_iter=8))
        assert_allclose(found.sigma, linear.sigma, rtol=1e-4)
        assert_allclose(found.V, linear.V, atol=5e-3)
        assert_allclose(found.W, linear.W, atol=5e-3 * np.abs(linear.W).max())


class TestRegressorOfScaledLabels(TestRidgeAsRegressor):
    label_power, row_power = 0.5, 0.25

    def settings(self, **more):
        return super().settings(label_power=self.label_power, row_power=self.row_power, **more)

    def test_the_way_back(self, data, fitted):
        counts = np.maximum(data.Y.sum(axis=0), 1)
        assert_allclose(fitted.back, fitted.V * counts[:, None] ** 0.5, rtol=1e-5)


def test_ritz_finds_eigenvalues_and_survives_what_is_not_symmetric():
    rng = np.random.default_rng(0)
    E = np.linalg.qr(rng.standard_normal((40, 40)))[0]
    values = 10 * 0.6 ** np.arange(40)
    A = (E * values) @ E.T
    start = rng.standard_normal((40, 12))
    V, sigma = ritz(lambda Q: A @ Q, start, 5, 3)
    assert_allclose(sigma, randomized_eigh(lambda Q: A @ Q, start, 5, 3)[1], rtol=1e-3)
    assert_allclose(sigma, values[:5], rtol=1e-3)
    skew = rng.standard_normal((40, 40))
    V, sigma = ritz(lambda Q: (A + 0.3 * (skew - skew.T)) @ Q, start, 5, 3)
    assert_allclose(V.T @ V, np.eye(V.shape[1]), atol=1e-10)
    assert sigma[0] == pytest.approx(10, rel=0.2)


def test_refusals():
    data = latent()
    settings = recipe(n_components=3)
    with pytest.raises(SettingsError, match="center=True"):
        centred = replace(settings, regressor=RelativeRidge(1)).with_embedding(center=True)
        embed_with_regressor(data.X, data.Y, None, centred)

    class OneOutput(RelativeRidge):
        def predict(self, X):
            return super().predict(X)[:, 0]

    with pytest.raises(DataError, match="several outputs"):
        embed_with_regressor(data.X, data.Y, None, replace(settings, regressor=OneOutput(1)))

    class Silent(RelativeRidge):
        def predict(self, X):
            return 0 * super().predict(X)

    with pytest.raises(DataError, match="predicts nothing"):
        embed_with_regressor(data.X, data.Y, None, replace(settings, regressor=Silent(1)))
