"""Features that a solver finds hard: the embedding is right, or a warning says that it is not."""

import warnings

import numpy as np
import pytest
from scipy import sparse

from rembrandt.engines.centring import Centred
from rembrandt.engines.cpu import CpuEngine
from rembrandt.errors import RembrandtWarning
from rembrandt.linalg.sparse import append_constant
from rembrandt.parts.embedding import solve as module
from rembrandt.parts.embedding.solve import embed
from tests.parts.problems import embedding_settings

N, D, C, K = 400, 60, 30, 5


def problem(decades=0.0, dtype=np.float32):
    """Columns whose lengths go over ``decades`` orders of magnitude, all of which predict
    labels.
    """
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, D))
    scores = X @ rng.standard_normal((D, C)) + rng.standard_normal((N, C))
    Y = sparse.csr_array((scores > np.quantile(scores, 0.9, axis=0)).astype(np.float32))
    return (X * np.logspace(-decades / 2, decades / 2, D)).astype(dtype), Y


def dense(X, Y, ridge):
    """Eigenvalues and vectors in double precision; columns are scaled before the solve, which is
    exact then.
    """
    X, Y = np.hstack([X, np.ones((N, 1))]).astype(np.float64), Y.toarray().astype(np.float64)
    A = X.T @ X
    A += ridge * np.trace(A) / len(A) * np.eye(len(A))
    S = 1 / np.sqrt(np.diag(A))
    B = S[:, None] * (X.T @ Y)
    values, vectors = np.linalg.eigh(B.T @ np.linalg.solve(S[:, None] * A * S, B))
    return values[::-1][:K], vectors[:, ::-1][:, :K]


def degrees(V, exact):
    cosines = np.linalg.svd(exact.T @ np.linalg.qr(V.astype(np.float64))[0], compute_uv=False)
    return np.degrees(np.arccos(np.clip(cosines.min(), 0, 1)))


def fit(X, Y, center=False, **settings):
    engine = CpuEngine(append_constant(X), Y)
    if center:
        engine = Centred(engine)
    return embed(engine, embedding_settings(n_components=K, n_iter=3, tol=0.01, **settings), seed=0)


@pytest.mark.parametrize("solver", ["pcg", "cholesky"])
@pytest.mark.parametrize("ridge", [1.0, 1e-6, 0.0])
@pytest.mark.parametrize("decades", [0, 4, 12])
def test_columns_of_very_different_lengths(decades, ridge, solver):
    X, Y = problem(decades)
    values, vectors = dense(X, Y, ridge)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        embedding = fit(X, Y, ridge=ridge, solver=solver)
        fit(X, Y, center=True, ridge=ridge, solver=solver)
    assert embedding.sigma == pytest.approx(values, rel=0.01)
    assert degrees(embedding.V, vectors) < 2
    assert embedding.residual <= (1e-6 if solver == "cholesky" else 0.01)


def test_repeated_columns_without_a_ridge():
    """They are the same as one column, whatever its weight."""
    X, Y = problem()
    once = fit(X, Y, ridge=0.0, solver="cholesky")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        twice = fit(np.hstack([X, X[:, :20]]), Y, ridge=0.0, solver="cholesky")
    assert twice.sigma == pytest.approx(once.sigma, rel=1e-4)
    assert degrees(twice.V, once.V.astype(np.float64)) < 0.5


def test_columns_that_differ_by_less_than_the_solver_sees():
    """All that predicts the labels is the difference of two columns, which the floor of the factor
    hides.
    """
    X, Y = problem(dtype=np.float64)
    common = np.random.default_rng(1).standard_normal(X.shape)
    pairs = np.hstack([common, common + 1e-6 * X])
    with pytest.warns(
        RembrandtWarning, match="some features are combinations of others, to rounding: raise ridge"
    ):
        embedding = fit(pairs, Y, ridge=0.0, solver="cholesky")
    assert degrees(embedding.V, dense(X, Y, 0.0)[1]) > 20, "it is indeed wrong"


def test_too_few_iterations_are_reported_and_never_overshoot(monkeypatch):
    """Without the scaling of columns the solver cannot get there in single precision."""
    monkeypatch.setattr(module, "UNEQUAL", np.inf)
    X, Y = problem(4)
    values, _ = dense(X, Y, 1e-6)
    with pytest.warns(RembrandtWarning, match="raise max_iter, or ridge"):
        embedding = fit(X, Y, ridge=1e-6, solver="pcg")
    assert 0.5 < embedding.residual < 10
    assert (embedding.sigma <= 1.1 * values[: len(embedding.sigma)]).all()


def test_probes_of_the_leverage_cause_no_warning():
    """Many columns along which there are no labels: the probes are far from solved where the labels
    are.
    """
    rng = np.random.default_rng(0)
    X, Y = problem()
    weak = 1e-4 * rng.standard_normal((N, 300))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        embedding = fit(
            np.hstack([X, weak]).astype(np.float32), Y, ridge=1e-7, solver="pcg", max_iter=12
        )
    assert embedding.residual < 0.1 and 0 <= embedding.leverage <= 1
