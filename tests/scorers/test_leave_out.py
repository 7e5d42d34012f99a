"""Training rows without their own labels, against regressions without the row."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from rembrandt.data.examples import Examples
from rembrandt.data.rows import as_rows
from rembrandt.embeddings import fit as module
from rembrandt.engines.place import CPU
from rembrandt.scorers.embedding_fit import MOST_LEVERAGE, Embedded, embed_labels, leave_out
from tests.embeddings.problems import dense_parts, latent, recipe, relative

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
    settings = recipe(n_components=6, ridge=RIDGE, leave_out=1.0, center=center)
    embedded = embed_labels(examples, settings)
    X, Y = dense_parts(type(data)(examples.X[:], data.Y))
    target = Y @ embedded.embedding.V
    rest, goal = (
        (X[:, :-1] - X[:, :-1].mean(axis=0), target - target.mean(axis=0))
        if center
        else (X, target)
    )
    A = rest.T @ rest
    A += relative(RIDGE, A) * np.eye(len(A))
    without = np.empty_like(target)
    for i, (x, y) in enumerate(zip(rest, goal, strict=True)):
        without[i] = x @ np.linalg.solve(A - np.outer(x, x), rest.T @ goal - np.outer(x, y))
    return examples, settings, embedded, target, without + (target - goal)


def error_left(found, H, without):
    return np.linalg.norm(found - without) / np.linalg.norm(H - without)


@pytest.mark.parametrize("center", [False, True])
def test_rows_are_those_of_a_regression_without_them(center):
    """The mean leverage leaves most of the error where rows have unequal lengths; a row's own
    leaves none.
    """
    examples, settings, embedded, target, without = problem(1.0, center)
    H = embedded.project(examples.X, CPU)
    assert embedded.leverages.mean() == pytest.approx(embedded.embedding.leverage, rel=1e-4)
    assert embedded.leverages.max() < MOST_LEVERAGE
    assert error_left(leave_out(embedded, H, examples, settings, CPU), H, without) < (
        0.02 if center else 1e-3
    )
    mean = embedded.embedding.leverage
    assert error_left((H - mean * target) / (1 - mean), H, without) > 0.9


def test_the_mean_stands_for_each_row_of_many_features(monkeypatch):
    monkeypatch.setattr(module, "OWN_LEVERAGE", 5)
    examples, settings, embedded, target, _ = problem(0.7)
    H, mean = embedded.project(examples.X, CPU), embedded.embedding.leverage
    assert embedded.leverages is None
    found = leave_out(embedded, H, examples, settings, CPU)
    assert found.dtype == H.dtype
    assert_allclose(found, (H - mean * target) / (1 - mean), atol=1e-5)


def test_a_fraction_of_the_leverage():
    examples, settings, embedded, target, _ = problem(0.7)
    H = embedded.project(examples.X, CPU)
    assert leave_out(embedded, H, examples, settings.with_embedding(leave_out=0.0), CPU) is H
    share = 0.5 * embedded.leverages[:, None]
    found = leave_out(embedded, H, examples, settings.with_embedding(leave_out=0.5), CPU)
    assert found.dtype == H.dtype
    assert_allclose(found, (H - share * target) / (1 - share), atol=1e-5)


def test_columns_without_entries_and_weights():
    """Weights are repetitions: the leverage of a row that occurs twice is that of both together."""
    examples, settings, embedded, _, _ = problem(0.7)
    X = np.insert(examples.X[:], 3, 0, axis=1)
    assert_allclose(
        embed_labels(replace(examples, X=as_rows(X)), settings).leverages,
        embedded.leverages,
        rtol=1e-3,
    )
    weights = np.random.default_rng(0).integers(0, 3, examples.n).astype(np.float64)
    again = np.repeat(np.arange(examples.n), weights.astype(int))
    weighted = embed_labels(replace(examples, weights=weights), settings).leverages
    repeated = embed_labels(examples.take(again), settings).leverages
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
