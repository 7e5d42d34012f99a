"""What every engine must do: the products of the data, as dense NumPy in double precision computes them.

A test class for an engine takes this mix-in and says how the engine is made:

    class TestMine(EngineContract):
        def make(self, X, Y, weights=None, center_features=False, center_labels=False):
            return MyEngine(X, Y, weights, center_features, center_labels)
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

N, D, C, WIDTH = 57, 13, 9, 4


@dataclass(frozen=True)
class Case:
    """Data as it is given to an engine, and dense, centred and in double precision beside it."""

    X: Any
    Y: sparse.csr_array
    weights: Any
    center_features: bool
    center_labels: bool

    @property
    def dense(self):
        w = np.ones(N) if self.weights is None else self.weights
        X = (self.X.toarray() if sparse.issparse(self.X) else self.X).astype(np.float64)
        Y = self.Y.toarray().astype(np.float64)
        X = X - (w @ X / w.sum() if self.center_features else 0)
        Y = Y - (w @ Y / w.sum() if self.center_labels else 0)
        return X, Y, w


def case(kind="sparse", weighted=False, center_features=False, center_labels=False, dtype=np.float32):
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((N, D)) + 0.5) * (rng.random((N, D)) < 0.4)
    X[5] = 0  # an example without features
    X[:, 3] = 0  # a feature that never occurs
    Y = (rng.random((N, C)) < 0.2).astype(np.float32)
    Y[7] = 0
    Y[:, 2] = 0
    weights = rng.integers(0, 4, N).astype(np.float64) if weighted else None
    X = X.astype(dtype)
    return Case(
        sparse.csr_array(X) if kind == "sparse" else X, sparse.csr_array(Y), weights, center_features, center_labels
    )


CASES = [
    pytest.param(
        (kind, weighted, features, labels), id=f"{kind}{'-weights' * weighted}{'-X' * features}{'-Y' * labels}"
    )
    for kind in ("sparse", "dense")
    for weighted in (False, True)
    for features, labels in ((False, False), (True, False), (False, True), (True, True))
]


class EngineContract:
    """The products, under every combination of sparse and dense, weights and centring."""

    rtol = 2e-5

    def make(self, X, Y, weights=None, center_features=False, center_labels=False):
        raise NotImplementedError

    def engine(self, given):
        return self.make(given.X, given.Y, given.weights, given.center_features, given.center_labels)

    def block(self, engine, rows, seed=1, width=WIDTH):
        values = np.random.default_rng(seed).standard_normal((rows, width)).astype(np.float32)
        return engine.asarray(values), values.astype(np.float64)

    def assert_close(self, engine, found, expected):
        found = engine.to_numpy(found)
        assert found.shape == expected.shape
        assert_allclose(found, expected, rtol=0, atol=self.rtol * max(1.0, np.abs(expected).max()))

    @pytest.fixture(params=CASES)
    def given(self, request):
        return case(*request.param)

    def test_sizes(self, given):
        engine = self.engine(given)
        assert (engine.n, engine.d, engine.c) == (N, D, C)

    def test_products_with_the_features(self, given):
        engine, (X, _, w) = self.engine(given), given.dense
        Z, dense_Z = self.block(engine, D)
        self.assert_close(engine, engine.gram(Z), X.T @ (w[:, None] * (X @ dense_Z)))
        self.assert_close(engine, engine.gram_matrix(), X.T @ (w[:, None] * X))
        assert_allclose(engine.feature_norms(), np.diag(X.T @ (w[:, None] * X)), rtol=0, atol=1e-4)

    def test_products_with_the_labels(self, given):
        engine, (_, Y, w) = self.engine(given), given.dense
        Q, dense_Q = self.block(engine, C)
        self.assert_close(engine, engine.label_gram(Q), Y.T @ (w[:, None] * (Y @ dense_Q)))
        assert_allclose(engine.label_norms(), np.diag(Y.T @ (w[:, None] * Y)), rtol=0, atol=1e-4)

    def test_products_between_them(self, given):
        engine, (X, Y, w) = self.engine(given), given.dense
        cross = X.T @ (w[:, None] * Y)
        Q, dense_Q = self.block(engine, C)
        Z, dense_Z = self.block(engine, D)
        self.assert_close(engine, engine.cross(Q), cross @ dense_Q)
        self.assert_close(engine, engine.cross_t(Z), cross.T @ dense_Z)

    def test_rows_are_projected_in_order_and_without_weights(self, given):
        engine, (X, _, _) = self.engine(given), given.dense
        Z, dense_Z = self.block(engine, D)
        parts = list(engine.project(Z))
        assert [i for rows, _ in parts for i in range(rows.start, rows.stop)] == list(range(N))
        self.assert_close(engine, engine.asarray(np.vstack([engine.to_numpy(p) for _, p in parts])), X @ dense_Z)

    def test_the_cross_products_are_transposes(self, given):
        engine = self.engine(given)
        Q, _ = self.block(engine, C)
        Z, _ = self.block(engine, D, seed=2)
        left = engine.to_numpy(Z).T @ engine.to_numpy(engine.cross(Q))
        right = engine.to_numpy(engine.cross_t(Z)).T @ engine.to_numpy(Q)
        assert_allclose(left, right, rtol=0, atol=self.rtol * np.abs(left).max())

    def test_weights_are_repetitions(self):
        given = case(weighted=True, center_features=True, center_labels=True)
        again = np.repeat(np.arange(N), given.weights.astype(int))
        weighted, repeated = self.engine(given), self.make(given.X[again], given.Y[again], None, True, True)
        Q, _ = self.block(weighted, C)
        Z, _ = self.block(weighted, D)
        for name, block in (("gram", Z), ("cross_t", Z), ("cross", Q), ("label_gram", Q)):
            expected = repeated.to_numpy(getattr(repeated, name)(block))
            self.assert_close(weighted, getattr(weighted, name)(block), expected)

    def test_blocks_keep_their_precision(self, given):
        engine = self.engine(given)
        Z, _ = self.block(engine, D)
        assert engine.gram(Z).dtype == engine.cross_t(Z).dtype == Z.dtype
        assert "64" in str(engine.gram_matrix().dtype), "it is factored, so single precision will not do"

    def test_blocks_go_there_and_back(self, given):
        engine = self.engine(given)
        values = np.random.default_rng(0).standard_normal((6, 2)).astype(np.float32)
        assert_allclose(engine.to_numpy(engine.asarray(values)), values)

    def test_the_data_given_is_not_changed(self, given):
        before = given.X.copy(), given.Y.copy()
        engine = self.engine(given)
        engine.gram(self.block(engine, D)[0])
        engine.cross(self.block(engine, C)[0])
        engine.gram_matrix()
        for now, then in zip((given.X, given.Y), before, strict=True):
            now, then = (a.toarray() if sparse.issparse(a) else a for a in (now, then))
            assert_allclose(now, then, rtol=0, atol=0)
