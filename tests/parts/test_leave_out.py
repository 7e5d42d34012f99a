"""Training rows without their own labels, against regressions without the row."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from rembrandt.data.examples import Examples
from rembrandt.data.rows import as_rows
from rembrandt.engines.backend import CPU
from rembrandt.parts.embedding import solve as module
from rembrandt.parts.embedding.fit import MAX_LEVERAGE, Embedded, embed_labels, leave_out
from tests.parts.embedding.problems import dense_parts, latent, relative
from tests.parts.problems import embedding_settings

RIDGE = 0.3


def problem(spread, center=False, n=300):
    """Rows whose lengths are log-normal; their projections, and those of regressions without each
    row.
    """
    data = latent(n=n, kind="dense")
    lengths = np.exp(spread * np.random.default_rng(1).standard_normal((n, 1)))
    examples = Examples(
        as_rows((data.X * lengths).astype(np.float32)), data.Y, np.arange(data.Y.shape[1]), False
    )
    settings = embedding_settings(n_components=6, ridge=RIDGE, leave_out=1.0, center=center)
    embedded = embed_labels(examples, settings, seed=0)
    X, Y = dense_parts(type(data)(examples.X[:], data.Y))
    target = Y @ embedded.embedding.V
    features = X
    goal = target
    if center:
        features = X[:, :-1] - X[:, :-1].mean(axis=0)
        goal = target - target.mean(axis=0)
    A = features.T @ features
    A += relative(RIDGE, A) * np.eye(len(A))
    without = np.empty_like(target)
    for i, (x, y) in enumerate(zip(features, goal, strict=True)):
        without[i] = x @ np.linalg.solve(A - np.outer(x, x), features.T @ goal - np.outer(x, y))
    return examples, settings, embedded, target, without + (target - goal)


def error_left(rows, H, without):
    return np.linalg.norm(rows - without) / np.linalg.norm(H - without)


@pytest.mark.parametrize("center", [False, True])
def test_rows_are_those_of_a_regression_without_them(center):
    """The mean leverage leaves most of the error where rows have unequal lengths; a row's own
    leaves none.
    """
    examples, settings, embedded, target, without = problem(1.0, center)
    H = embedded.project(examples.X, CPU)
    assert embedded.leverages.mean() == pytest.approx(embedded.embedding.leverage, rel=1e-4)
    assert embedded.leverages.max() < MAX_LEVERAGE
    assert error_left(leave_out(embedded, H, examples, settings, CPU), H, without) < (
        0.02 if center else 1e-3
    )
    mean = embedded.embedding.leverage
    assert error_left((H - mean * target) / (1 - mean), H, without) > 0.9


def test_the_mean_stands_for_each_row_of_many_features(monkeypatch):
    monkeypatch.setattr(module, "OWN_LEVERAGE", 5)
    examples, settings, embedded, target, _ = problem(0.7)
    H = embedded.project(examples.X, CPU)
    mean = embedded.embedding.leverage
    assert embedded.leverages is None
    rows = leave_out(embedded, H, examples, settings, CPU)
    assert rows.dtype == H.dtype
    assert_allclose(rows, (H - mean * target) / (1 - mean), atol=1e-5)


def test_a_fraction_of_the_leverage():
    examples, settings, embedded, target, _ = problem(0.7)
    H = embedded.project(examples.X, CPU)
    assert leave_out(embedded, H, examples, replace(settings, leave_out=0.0), CPU) is H
    share = 0.5 * embedded.leverages[:, None]
    rows = leave_out(embedded, H, examples, replace(settings, leave_out=0.5), CPU)
    assert rows.dtype == H.dtype
    assert_allclose(rows, (H - share * target) / (1 - share), atol=1e-5)


def test_columns_without_entries_and_weights():
    """Weights are repetitions: the leverage of a row that occurs twice is that of both together."""
    examples, settings, embedded, _, _ = problem(0.7)
    X = np.insert(examples.X[:], 3, 0, axis=1)
    assert_allclose(
        embed_labels(replace(examples, X=as_rows(X)), settings, seed=0).leverages,
        embedded.leverages,
        rtol=1e-3,
    )
    weights = np.random.default_rng(0).integers(0, 3, examples.n).astype(np.float64)
    again = np.repeat(np.arange(examples.n), weights.astype(int))
    weighted = embed_labels(replace(examples, weights=weights), settings, seed=0).leverages
    repeated = embed_labels(examples.take(again), settings, seed=0).leverages
    assert_allclose(
        weighted, np.bincount(again, repeated, minlength=examples.n), rtol=1e-3, atol=1e-6
    )


def test_leverages_are_kept_by_a_checkpoint():
    _, _, embedded, _, _ = problem(0.7)
    assert_allclose(
        Embedded.from_arrays(
            *embedded.arrays(), CPU, len(embedded.leverages), len(embedded.embedding.V)
        ).leverages,
        embedded.leverages,
    )
