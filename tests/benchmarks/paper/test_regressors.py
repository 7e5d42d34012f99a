"""Other regressors in place of the ridge regression of the embedding."""

import numpy as np
import pytest
from benchmarks.generated import sparse_problem
from benchmarks.paper.regressors import fit_regressor_embedding, label_vectors
from scipy import sparse
from sklearn.dummy import DummyRegressor
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import Ridge
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import normalize

from benchmarks.paper import regressors
from rembrandt.errors import DataError
from rembrandt.metrics import precision_at_k
from tests.benchmarks.paper.conftest import CLASSES

KERNEL = make_pipeline(Nystroem(gamma=1.0, n_components=60, random_state=0), Ridge())
NETWORK = MLPRegressor(hidden_layer_sizes=(32,), random_state=0, max_iter=200)


@pytest.fixture(scope="module")
def problem():
    X, Y = sparse_problem(500, 80, 12, 5, labels_each=1)
    return sparse.csr_array(X), sparse.csr_array(Y)


def test_with_ridge_regression_the_vectors_are_those_of_the_symmetric_operator(problem):
    X, Y = problem
    X = normalize(X).astype(np.float64)
    Y = Y.astype(np.float64)
    vectors, eigenvalues = label_vectors(
        X, Y, Ridge(fit_intercept=False, solver="cholesky"), 4, seed=0
    )
    dense = X.toarray()
    smoother = dense @ np.linalg.solve(dense.T @ dense + np.eye(dense.shape[1]), dense.T)
    operator = Y.toarray().T @ smoother @ Y.toarray()
    exact = np.linalg.eigvalsh(operator)[::-1][:4]
    np.testing.assert_allclose(eigenvalues, exact, rtol=1e-6)
    np.testing.assert_allclose(operator @ vectors, vectors * exact, atol=1e-5 * exact[0])
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(4), atol=1e-8)


@pytest.mark.parametrize("regressor", [Ridge(), KERNEL, NETWORK], ids=["ridge", "kernel", "mlp"])
def test_every_kind_of_regressor_learns(problem, regressor):
    X, Y = problem
    model = fit_regressor_embedding(X[:400], Y[:400], regressor, 8, 0.1)
    labels = model.top_labels(X[400:], 3)
    most_frequent = np.tile(np.argmax(np.bincount(Y[:400].indices)), (100, 1))
    chance = precision_at_k(Y[400:], most_frequent, 1)
    assert labels.shape == (100, 3)
    assert precision_at_k(Y[400:], labels, 1) > 2 * chance


def test_a_regressor_that_learns_nothing_is_refused(problem):
    with pytest.raises(DataError, match="DummyRegressor predicts nothing of the labels"):
        fit_regressor_embedding(
            *problem, DummyRegressor(strategy="constant", constant=[0] * 12), 8, 0.1
        )


@pytest.mark.parametrize("kind", regressors.REGRESSORS)
def test_every_run_is_measured(small, monkeypatch, kind):
    monkeypatch.setattr("benchmarks.real_sets.FOLDER", small)
    monkeypatch.setitem(regressors.SETS, "aloi", {"n_components": 10, "decoder_ridge": 0.01})
    monkeypatch.setattr(
        regressors, "regressor_of", lambda name, seed: {"kernel": KERNEL, "mlp": NETWORK}[name]
    )
    row = regressors.one(f"aloi, {kind}")
    assert row["p@1"] > 10 / CLASSES
    assert row["examples_per_second"] > 0
