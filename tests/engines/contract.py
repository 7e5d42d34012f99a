"""What every engine must do: the products of the data, as dense NumPy in double precision computes
them.

A test class for an engine takes this mix-in and says how the engine is made:

    class TestMine(EngineContract):
        def make(self, X, Y, weights=None, constant=False):
            return MyEngine([X, 1] if constant else X, Y, weights)
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from rembrandt.engines.centring import Centred
from rembrandt.engines.scaling import Scaled, label_factors, with_scaled_rows
from rembrandt.linalg.blocks import as_numpy

N, D, C, WIDTH = 57, 13, 9, 4


@dataclass(frozen=True)
class Case:
    """Data as it is given to an engine, and dense, centred and in double precision beside it."""

    X: Any
    Y: sparse.csr_array
    weights: Any
    center: bool
    label_power: float = 0.0
    row_power: float = 0.0

    @property
    def dense(self):
        w = np.ones(N) if self.weights is None else self.weights
        X = (self.X.toarray() if sparse.issparse(self.X) else self.X).astype(np.float64)
        Y = self.scaled_labels
        if self.center:
            X, Y = X - w @ X / w.sum(), Y - w @ Y / w.sum()
        return X, Y, w

    @property
    def scaled_labels(self):
        """Rows over a power of their number of labels, columns over a power of their weighted
        count.
        """
        Y = self.Y.toarray().astype(np.float64)
        w = np.ones(N) if self.weights is None else self.weights
        labels, counts = Y.sum(axis=1), w @ Y
        rows, columns = (
            np.where(labels > 0, labels, 1) ** self.row_power,
            np.where(counts > 0, counts, 1),
        )
        return Y / rows[:, None] / columns**self.label_power


def case(
    kind="sparse", weighted=False, center=False, powers=(0.0, 0.0), dtype=np.float32, mean=0.5
):
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((N, D)) + mean) * (rng.random((N, D)) < 0.4)
    X[5] = 0  # an example without features
    X[:, 3] = 0  # a feature that never occurs
    Y = (rng.random((N, C)) < 0.2).astype(np.float32)
    Y[7] = 0
    Y[:, 2] = 0
    weights = rng.integers(0, 4, N).astype(np.float64) if weighted else None
    X = X.astype(dtype)
    return Case(
        sparse.csr_array(X) if kind == "sparse" else X,
        sparse.csr_array(Y),
        weights,
        center,
        *powers,
    )


CASES = [
    pytest.param(
        (kind, weighted, center, powers),
        id=f"{kind}{'-weights' * weighted}{'-centred' * center}{name}",
    )
    for kind, powers, name in (
        ("sparse", (0.0, 0.0), ""),
        ("dense", (0.0, 0.0), ""),
        ("sparse", (0.5, 0.25), "-scaled"),
    )
    for weighted in (False, True)
    for center in (False, True)
]


class EngineContract:
    """The products, under every combination of sparse and dense, weights and centring."""

    rtol = 2e-5

    def make(self, X, Y, weights=None, constant=False):
        raise NotImplementedError

    def make_scaled(self, problem):
        """An engine over labels with scaled rows; those of shards scale them themselves."""
        return self.make(
            problem.X,
            with_scaled_rows(problem.Y, problem.row_power),
            problem.weights,
            constant=problem.center,
        )

    def engine(self, problem):
        raw = self.make_scaled(problem)
        factors = label_factors(problem.Y, problem.weights, problem.label_power)
        raw = raw if factors is None else Scaled(raw, factors)
        return Centred(raw) if problem.center else raw

    def block(self, engine, rows, seed=1, width=WIDTH):
        values = np.random.default_rng(seed).standard_normal((rows, width)).astype(np.float32)
        return engine.asarray(values), values.astype(np.float64)

    def assert_close(self, engine, product, expected):
        product = as_numpy(product)
        assert product.shape == expected.shape
        assert_allclose(
            product, expected, rtol=0, atol=self.rtol * max(1.0, np.abs(expected).max())
        )

    @pytest.fixture(params=CASES)
    def problem(self, request):
        return case(*request.param)

    def test_sizes(self, problem):
        engine = self.engine(problem)
        assert (engine.n, engine.d, engine.c) == (N, D, C)

    def test_products_with_the_features(self, problem):
        engine, (X, _, w) = self.engine(problem), problem.dense
        Z, dense_Z = self.block(engine, D)
        self.assert_close(engine, engine.gram(Z), X.T @ (w[:, None] * (X @ dense_Z)))
        self.assert_close(engine, engine.gram_matrix(), X.T @ (w[:, None] * X))
        assert_allclose(
            engine.column_sums("X", squared=True),
            np.diag(X.T @ (w[:, None] * X)),
            rtol=0,
            atol=1e-4,
        )

    def test_products_with_the_labels(self, problem):
        engine, (_, Y, w) = self.engine(problem), problem.dense
        Q, dense_Q = self.block(engine, C)
        self.assert_close(engine, engine.label_gram(Q), Y.T @ (w[:, None] * (Y @ dense_Q)))
        assert_allclose(
            engine.column_sums("Y", squared=True),
            np.diag(Y.T @ (w[:, None] * Y)),
            rtol=0,
            atol=1e-4,
        )

    def test_products_between_them(self, problem):
        engine, (X, Y, w) = self.engine(problem), problem.dense
        cross = X.T @ (w[:, None] * Y)
        Q, dense_Q = self.block(engine, C)
        Z, dense_Z = self.block(engine, D)
        self.assert_close(engine, engine.cross(Q), cross @ dense_Q)
        self.assert_close(engine, engine.cross_t(Z), cross.T @ dense_Z)

    def test_sums_and_means(self, problem):
        engine, (X, Y, w) = self.engine(problem), problem.dense
        assert_allclose(engine.column_sums("X", squared=False), w @ X, atol=1e-4)
        assert_allclose(engine.column_sums("Y", squared=False), w @ Y, atol=1e-4)
        assert (engine.means is not None) == problem.center
        if engine.means is not None:
            raw, w = problem.X.toarray() if sparse.issparse(problem.X) else problem.X, w / w.sum()
            assert_allclose(as_numpy(engine.means[0]), w @ raw, atol=1e-6)
            assert_allclose(as_numpy(engine.means[1]), w @ problem.scaled_labels, atol=1e-6)

    def test_the_cross_products_are_transposes(self, problem):
        engine = self.engine(problem)
        Q, _ = self.block(engine, C)
        Z, _ = self.block(engine, D, seed=2)
        left = as_numpy(Z).T @ as_numpy(engine.cross(Q))
        right = as_numpy(engine.cross_t(Z)).T @ as_numpy(Q)
        assert_allclose(left, right, rtol=0, atol=self.rtol * np.abs(left).max())

    @pytest.mark.parametrize("powers", [(0.0, 0.0), (0.25, 0.5)])
    def test_weights_are_repetitions(self, powers):
        problem = case(weighted=True, center=True, powers=powers)
        again = np.repeat(np.arange(N), problem.weights.astype(int))
        weighted = self.engine(problem)
        repeated = self.engine(Case(problem.X[again], problem.Y[again], None, True, *powers))
        Q, _ = self.block(weighted, C)
        Z, _ = self.block(weighted, D)
        for name, block in (("gram", Z), ("cross_t", Z), ("cross", Q), ("label_gram", Q)):
            expected = as_numpy(getattr(repeated, name)(block))
            self.assert_close(weighted, getattr(weighted, name)(block), expected)

    def test_blocks_keep_their_precision(self, problem):
        engine = self.engine(problem)
        Z, _ = self.block(engine, D)
        assert engine.gram(Z).dtype == engine.cross_t(Z).dtype == Z.dtype
        assert "64" in str(engine.gram_matrix().dtype), (
            "it is factored, so single precision will not do"
        )

    def test_blocks_go_there_and_back(self, problem):
        engine = self.engine(problem)
        values = np.random.default_rng(0).standard_normal((6, 2)).astype(np.float32)
        assert_allclose(as_numpy(engine.asarray(values)), values)

    def test_the_data_given_is_not_changed(self, problem):
        before = problem.X.copy(), problem.Y.copy()
        engine = self.engine(problem)
        engine.gram(self.block(engine, D)[0])
        engine.cross(self.block(engine, C)[0])
        engine.gram_matrix()
        for now, then in zip((problem.X, problem.Y), before, strict=True):
            now, then = (a.toarray() if sparse.issparse(a) else a for a in (now, then))
            assert_allclose(now, then, rtol=0, atol=0)

    @pytest.mark.parametrize("kind", ["sparse", "dense"])
    def test_a_large_mean_is_subtracted_before_rounding(self, kind):
        """Features of mean 300 and deviation 1, in single precision."""
        rng = np.random.default_rng(3)
        X = (rng.standard_normal((N, D)) + 300).astype(np.float32)
        problem = Case(sparse.csr_array(X) if kind == "sparse" else X, case().Y, None, True)
        engine, (X, Y, _) = self.engine(problem), problem.dense
        Z, dense_Z = self.block(engine, D)
        Q, dense_Q = self.block(engine, C)
        products = (
            (engine.gram(Z), X.T @ (X @ dense_Z)),
            (engine.gram_matrix(), X.T @ X),
            (engine.cross(Q), X.T @ Y @ dense_Q),
            (engine.cross_t(Z), Y.T @ X @ dense_Z),
        )
        for product, expected in products:
            assert_allclose(as_numpy(product), expected, rtol=0, atol=1e-3 * np.abs(expected).max())
