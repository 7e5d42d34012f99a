"""Every method by the shared contract, and against a dense direct computation."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from rembrandt.engines.cpu import CpuEngine
from rembrandt.errors import RembrandtWarning
from rembrandt.linalg.sparse import append_constant
from rembrandt.parts.embedding import solve as module
from rembrandt.parts.embedding.rank import choose_rank, largest_rank
from rembrandt.parts.embedding.settings import METHODS
from rembrandt.parts.embedding.solve import certificate
from tests.parts.problems import embedding_settings

from .contract import EmbeddingContract, K, fit
from .problems import Data, dense_eigh, dense_parts, latent, regression, relative


class Exact(EmbeddingContract):
    """A method that solves an eigenproblem: its values and its subspace are those of the dense
    solution.
    """

    @pytest.mark.parametrize("ridge", [1.0, 0.01])
    @pytest.mark.parametrize("seed", [0, 1])
    def test_against_the_dense_computation(self, ridge, seed):
        data = latent(seed)
        embedding = self.fit(data, self.settings(ridge=ridge))
        values, vectors, B = dense_eigh(self.method, self.seen(data), ridge)
        assert_allclose(embedding.sigma, values[:K], rtol=1e-4)
        cosines = np.linalg.svd(vectors[:, :K].T @ B @ self.basis(embedding), compute_uv=False)
        assert cosines.min() > 1 - 1e-3

    def test_all_components_explain_everything(self, data):
        values, _, _ = dense_eigh(self.method, self.seen(data), 0.1)
        embedding = self.fit(data, self.settings(n_components=1000))
        assert_allclose(embedding.sigma.sum(), values[values > 1e-9].sum(), rtol=1e-4)


class TestRembrandt(Exact):
    method = "rembrandt"

    def test_what_the_features_cannot_predict_has_no_strength(self):
        """A label copied from a feature is embedded first, a random one not at all."""
        rng = np.random.default_rng(0)
        X = rng.integers(0, 2, (2000, 3)).astype(np.float32)
        Y = np.stack([X[:, 0], rng.integers(0, 2, 2000)], axis=1).astype(np.float32)
        data = replace(latent(), X=X - 0.5, Y=sparse.csr_array(Y - 0.5))
        embedding = fit(data, self.settings(n_components=2, ridge=1e-6))
        assert abs(embedding.V[0, 0]) > 0.99
        assert embedding.sigma[0] > 100 * embedding.sigma[1:].sum()


class TestPlst(Exact):
    method = "plst"


class TestPca(Exact):
    method = "pca"
    over = "features"
    back = False

    def test_the_projection_is_the_regression(self, data, fitted):
        """Features are projected on their own basis; labels sit at the mean of their examples."""
        X, Y = dense_parts(data)
        means = (Y.T @ X @ fitted.W) / np.maximum(Y.sum(axis=0), 1)[
            :, None
        ]  # a label without examples is at zero
        assert_allclose(fitted.V, means, atol=1e-4 * np.abs(means).max())


class TestCca(Exact):
    method = "cca"

    def metric(self, data):
        _, Y = dense_parts(self.seen(data))
        G = Y.T @ Y
        return G + relative(0.1, G) * np.eye(len(G))

    def test_the_way_back(self, data, fitted):
        assert_allclose(
            fitted.back, self.metric(data) @ fitted.V, atol=1e-4 * np.abs(fitted.back).max()
        )

    @pytest.mark.parametrize("solver", ["cholesky", "pcg"])
    def test_labels_have_a_ridge_of_their_own(self, data, solver):
        how = {"label_ridge": 1e-3, "solver": solver, "tol": 1e-6, "max_iter": 200}
        embedding = self.fit(data, self.settings(**how))
        values, vectors, B = dense_eigh("cca", self.seen(data), 0.1, 1e-3)
        assert_allclose(embedding.sigma, values[:K], rtol=1e-3)
        cosines = np.linalg.svd(vectors[:, :K].T @ B @ self.basis(embedding), compute_uv=False)
        assert cosines.min() > 1 - 1e-3
        assert_allclose(
            self.fit(data, self.settings(label_ridge=0.1)).V, self.fit(data, self.settings()).V
        )


class TestCs(EmbeddingContract):
    method = "cs"
    blind = True


def test_every_method_is_tested():
    tested = {cls.method for cls in (TestRembrandt, TestPlst, TestPca, TestCca, TestCs)}
    assert tested == set(METHODS)


def test_an_unknown_method_is_named():
    with pytest.raises(ValueError, match=r"'svd' is none of rembrandt, pca"):
        fit(latent(), embedding_settings(method="svd"))


@pytest.mark.parametrize("solver", ["cholesky", "pcg"])
@pytest.mark.parametrize("method", ["rembrandt", "plst", "cca", "cs"])
def test_the_projection_may_have_a_ridge_of_its_own(method, solver):
    data = latent()
    how = {
        "method": method,
        "n_components": K,
        "ridge": 0.1,
        "solver": solver,
        "tol": 1e-6,
        "max_iter": 200,
    }
    plain, embedding = (
        fit(data, embedding_settings(**how)),
        fit(data, embedding_settings(**how, projection_ridge=1e-3)),
    )
    assert_allclose(embedding.V, plain.V)
    X, Y = dense_parts(data)
    expected = regression(X, X.T @ Y @ embedding.V.astype(np.float64), 1e-3)
    assert_allclose(embedding.W, expected, atol=1e-3 * np.abs(expected).max())
    assert embedding.leverage > 1.05 * plain.leverage, "it is that of the projection"


@pytest.mark.parametrize(("ridge", "projection_ridge"), [(10.0, 1e-3), (1e-3, 10.0)])
def test_the_iterations_are_those_of_the_harder_regression(ridge, projection_ridge):
    data = latent()
    how = {"n_components": K, "solver": "pcg", "tol": 1e-6, "max_iter": 200}
    hard, easy = (fit(data, embedding_settings(ridge=value, **how)) for value in (1e-3, 10.0))
    settings = embedding_settings(ridge=ridge, projection_ridge=projection_ridge, **how)
    assert fit(data, settings).iterations == hard.iterations > easy.iterations


@pytest.mark.parametrize("method", METHODS)
def test_features_that_repeat_do_not_break_an_exact_solve_without_ridge(method):
    data = latent()
    twice = replace(data, X=sparse.hstack([data.X, data.X], format="csr"))
    embedding = fit(twice, embedding_settings(method=method, n_components=K, ridge=0.0))
    assert np.isfinite(embedding.W).all()


def test_a_poor_solve_is_told(monkeypatch):
    monkeypatch.setattr(module, "PRECONDITIONER_RANK", 1)
    rng = np.random.default_rng(0)
    X = (
        rng.standard_normal((100, 80))
        @ np.diag(np.logspace(0, 2, 80))
        @ rng.standard_normal((80, 80))
    )
    data = Data(
        X.astype(np.float32), sparse.csr_array((rng.random((100, 8)) < 0.3).astype(np.float32))
    )
    with pytest.warns(RembrandtWarning, match="raise max_iter"):
        fit(
            data, embedding_settings(n_components=K, ridge=1e-6, solver="pcg", max_iter=1, tol=1e-9)
        )


@pytest.mark.parametrize("method", ["rembrandt", "plst", "pca"])
def test_the_certificate_is_about_the_problem_that_was_solved(method):
    data, settings = (
        latent(),
        embedding_settings(method=method, n_components=K, ridge=0.1, n_iter=4),
    )
    engine = CpuEngine(append_constant(data.X), data.Y)
    embedding = fit(data, settings)
    values, _, _ = dense_eigh(method, data, 0.1)
    vectors = embedding.W if method == "pca" else embedding.V
    proof = certificate(engine, settings, 0, vectors, embedding.sigma)
    assert (np.abs(values[:K] - embedding.sigma) <= proof.residuals + 1e-5 * values[0]).all()
    assert proof.residuals.max() < 0.05 * values[0]
    assert values[K] <= proof.remainder
    wrong = certificate(engine, settings, 0, np.roll(vectors, 1, axis=0), embedding.sigma)
    assert wrong.residuals.max() > 10 * proof.residuals.max()


@pytest.mark.parametrize("method", ["cs", "cca"])
def test_no_certificate_without_a_symmetric_problem(method):
    data, settings = latent(), embedding_settings(method=method, n_components=K)
    embedding = fit(data, settings)
    with pytest.raises(ValueError, match="no certificate"):
        certificate(
            CpuEngine(append_constant(data.X), data.Y), settings, 0, embedding.V, embedding.sigma
        )


def test_the_rank_kept_holds_the_share_it_says():
    sigma = 0.5 ** np.arange(30)
    rank, reason = choose_rank(sigma)
    held = np.cumsum(sigma) / sigma.sum()
    assert held[rank - 1] >= 0.995 > held[rank - 2]
    assert reason.startswith(f"{rank} of the 30 directions")
    assert choose_rank(np.ones(7))[0] == 7
    assert choose_rank([2.0])[0] == 1


def test_the_rank_tried_first():
    assert largest_rank(10, 5, 7) == 5
    assert largest_rank(10**6, 10**6, 10**6) == 1000
    assert largest_rank(3, 0, 7) == 1
