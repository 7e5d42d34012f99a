"""What every embedding must do, whatever its operator; a test class names its method."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from rembrandt.data.rows import MemoryRows
from rembrandt.engines.backend import CPU
from rembrandt.engines.cpu import CpuEngine
from rembrandt.engines.scaling import LabelScaling
from rembrandt.errors import RembrandtWarning
from rembrandt.linalg.sparse import append_constant
from rembrandt.parts.embedding import solve as module
from rembrandt.parts.embedding.rank import warn_if_fewer
from rembrandt.parts.embedding.solve import Embedding, embed
from tests.parts.problems import embedding_settings

from .problems import N, dense_parts, latent, regression, scaled

K = 5


def fit(data, settings, seed=0) -> Embedding:
    return embed(CpuEngine(append_constant(data.X), data.Y, data.weights), settings, seed)


def assert_same_embedding(embedding, expected, atol=2e-3, labels=slice(None)):
    """Equal to single precision; signs are fixed by the vectors, so columns need no matching."""
    assert_allclose(embedding.sigma, expected.sigma, rtol=1e-4)
    assert_allclose(embedding.V, expected.V[labels], atol=atol * np.abs(expected.V).max())
    assert_allclose(embedding.W, expected.W, atol=atol * np.abs(expected.W).max())


class EmbeddingContract:
    method: str
    over = "labels"
    blind = False  # the basis is random: it knows neither rows nor labels
    orthonormal = True
    back = True
    label_power = row_power = 0.0

    def settings(self, **more):
        return embedding_settings(
            **{"method": self.method, "n_components": K, "ridge": 0.1, "n_iter": 4} | more
        )

    def fit(self, data, settings, seed=0) -> Embedding:
        scaling = LabelScaling(self.label_power, self.row_power)
        engine = CPU.engine(MemoryRows(data.X), data.Y, data.weights, scaling)
        return embed(engine, settings, seed)

    def seen(self, data):
        """The same problem with labels that were scaled before."""
        return scaled(data, self.label_power, self.row_power)

    @pytest.fixture
    def data(self):
        return latent()

    @pytest.fixture
    def fitted(self, data):
        return self.fit(data, self.settings())

    def test_shapes(self, data, fitted):
        d, c = data.X.shape[1] + 1, data.Y.shape[1]
        assert fitted.V.shape == (c, K)
        assert fitted.W.shape == (d, K)
        assert fitted.sigma.shape == (K,)
        assert (fitted.back is not None) == self.back
        assert fitted.back is None or fitted.back.shape == (c, K)
        assert all(np.isfinite(a).all() for a in (fitted.V, fitted.W, fitted.sigma))
        assert fitted.residual < 1e-6
        assert 0 <= fitted.leverage <= 1

    def test_the_seed_decides(self, data, fitted):
        again = self.fit(data, self.settings())
        for name in ("V", "W", "sigma"):
            assert_array_equal(getattr(fitted, name), getattr(again, name), strict=True)
        other = self.fit(data, self.settings(), seed=1)
        assert not np.array_equal(other.W, fitted.W)
        if not self.blind:
            assert_same_embedding(other, fitted, atol=2e-2)

    def basis(self, fitted):
        return (fitted.V if self.over == "labels" else fitted.W).astype(np.float64)

    def test_the_basis_is_orthonormal(self, data, fitted):
        V = self.basis(fitted)
        assert_allclose(V.T @ self.metric(data) @ V, np.eye(K), atol=2e-5)

    def metric(self, data):
        return np.eye(data.Y.shape[1] if self.over == "labels" else data.X.shape[1] + 1)

    def test_strengths_fall(self, fitted):
        assert (fitted.sigma > 0).all()
        assert self.blind or (np.diff(fitted.sigma) <= 0).all()

    def test_a_smaller_rank_is_the_first_columns(self, data, fitted):
        smaller = fitted.truncated(2)
        assert_array_equal(smaller.V, fitted.V[:, :2])
        assert_array_equal(smaller.W, fitted.W[:, :2])
        assert_array_equal(smaller.sigma, fitted.sigma[:2])
        assert smaller.back is None or smaller.back.shape[1] == 2
        assert_same_embedding(
            smaller, self.fit(data, self.settings(n_components=2, n_oversamples=30))
        )

    def test_the_projection_is_the_regression(self, data, fitted):
        X, Y = dense_parts(self.seen(data))
        expected = regression(X, X.T @ Y @ fitted.V.astype(np.float64), 0.1)
        assert_allclose(fitted.W, expected, atol=1e-4 * np.abs(expected).max())

    def test_weights_are_repetitions(self, data):
        weights = np.random.default_rng(0).integers(0, 3, N).astype(np.float64)
        again = np.repeat(np.arange(N), weights.astype(int))
        repeated = replace(data, X=data.X[again], Y=data.Y[again])
        assert_same_embedding(
            self.fit(replace(data, weights=weights), self.settings()),
            self.fit(repeated, self.settings()),
            atol=1e-2,
        )

    def test_the_order_of_rows_does_not_matter(self, data, fitted):
        order = np.random.default_rng(0).permutation(N)
        assert_same_embedding(
            self.fit(replace(data, X=data.X[order], Y=data.Y[order]), self.settings()), fitted
        )

    def test_labels_in_another_order_are_the_same_vectors_in_that_order(self, data, fitted):
        order = np.random.default_rng(0).permutation(data.Y.shape[1])
        embedding = self.fit(replace(data, Y=data.Y[:, order]), self.settings())
        if self.blind:
            assert_array_equal(embedding.V, fitted.V)
        else:
            assert_same_embedding(embedding, fitted, atol=2e-2, labels=order)

    def test_sparse_and_dense_features_agree(self, data, fitted):
        assert_same_embedding(self.fit(latent(kind="dense"), self.settings()), fitted)

    def test_conjugate_gradients_agree_with_the_factor(self, data, monkeypatch):
        """With a preconditioner of so few directions that there is something left to iterate on."""
        monkeypatch.setattr(module, "PRECONDITIONER_RANK", 2)
        exact = self.fit(data, self.settings(solver="cholesky", n_oversamples=20))
        embedding = self.fit(
            data, self.settings(solver="pcg", tol=1e-5, max_iter=100, n_oversamples=20)
        )
        assert embedding.residual <= 1e-5
        assert_same_embedding(embedding, exact, atol=1e-2)
        assert embedding.leverage == pytest.approx(exact.leverage, rel=0.2)

    def test_more_components_than_there_are(self, data):
        size = (data.Y.shape[1] if self.over == "labels" else data.X.shape[1] + 1) + 4
        embedding = self.fit(data, self.settings(n_components=size))
        rank = embedding.V.shape[1]
        assert 0 < rank < size
        assert embedding.W.shape[1] == rank == len(embedding.sigma) and embedding.rank_reason == ""
        with pytest.warns(RembrandtWarning, match=f"n_components={size} .* reduced to {rank}"):
            warn_if_fewer(rank, size)
        warn_if_fewer(rank, rank)

    def test_an_automatic_rank_is_the_first_columns(self, data):
        chosen = self.fit(data, self.settings(n_components="auto"))
        rank = chosen.V.shape[1]
        assert chosen.rank_reason.startswith(f"{rank} of the ")
        most = min(N, data.X.shape[1] + 1, data.Y.shape[1])
        whole = self.fit(data, self.settings(n_components=most))
        assert_array_equal(chosen.sigma, whole.sigma[:rank])
        warn_if_fewer(rank, "auto")

    def test_empty_features_change_nothing(self, data, fitted):
        """The strength of the ridge counts the features that occur."""
        d = data.X.shape[1]
        empty = sparse.csr_array((N, 7), dtype=np.float32)
        embedding = self.fit(
            replace(data, X=sparse.hstack([data.X, empty], format="csr")), self.settings()
        )
        assert_same_embedding(
            replace(embedding, W=embedding.W[np.append(np.arange(d), d + 7)]), fitted, atol=1e-2
        )
        assert_allclose(embedding.W[d : d + 7], 0, atol=1e-6)
