"""The logistic decoder: its gradient, its progress, and what it does when steps are too long."""

from typing import ClassVar
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import sparse

from rembrandt.data.splits import draw_rows
from rembrandt.engines.backend import CPU
from rembrandt.engines.descent import Examples, NumpyDescent, total_losses
from rembrandt.engines.descent import gradient as gradient_of
from rembrandt.engines.whitening import Whitening
from rembrandt.features.fourier import draw
from rembrandt.parts.embedding.decoders.decoder import softmax
from rembrandt.parts.embedding.decoders.logistic import (
    LogisticSettings,
    _judge_epoch,
    _Progress,
    fit_logistic,
    stopping_rows,
    usable_rows,
)

from .contract import C, DecoderContract, problem

FAST = {"max_epochs": 12, "batch": 100}
ABSURD = {"step": 1e6, "reach": 1e6}


class TestSoftmax(DecoderContract):
    kernel = None
    more: ClassVar[dict] = {}

    def fit(self, H, Y, places):
        fourier = None if self.kernel is None else draw(self.kernel, H, 100)
        return fit_logistic(
            H, Y, LogisticSettings(multiclass=self.multiclass, **FAST | self.more), fourier
        )

    def test_probabilities_sum_to_one(self, train, test):
        decoder = self.fit(*train)
        P = decoder.probabilities(decoder.scores(test[0]))
        assert decoder.link == "softmax"
        assert_allclose(P.sum(axis=1), 1, atol=1e-5)

    def test_improves_on_the_base_rates(self, train, test):
        assert loss(self.fit(*train), *test[:2]) < 0.5 * base_loss(
            self.multiclass, *train[:2], *test[:2]
        )


class TestIndependent(TestSoftmax):
    multiclass = False

    def test_probabilities_sum_to_one(self, train, test):
        """They need not: labels are independent, and their mean number is learned."""
        decoder = self.fit(*train)
        assert decoder.link == "sigmoid"
        expected = decoder.probabilities(decoder.scores(test[0])).sum() / len(test[0])
        assert expected == pytest.approx(train[1].nnz / train[1].shape[0], rel=0.1)


class TestSoftmaxOnAKernel(TestSoftmax):
    kernel = "gaussian"
    more: ClassVar[dict] = {"dropout": 0.5}


def base_loss(multiclass, H, Y, held_H, held_Y):
    n = Y.shape[0]
    rates = np.clip(Y.mean(axis=0), 0.5 / n, 1 - 0.5 / n)
    logits = np.tile(
        np.log(rates) if multiclass else np.log(rates) - np.log1p(-rates), (len(held_H), 1)
    )
    return loss_of(multiclass, logits, held_Y)


def loss(decoder, H, Y):
    return loss_of(decoder.link == "softmax", decoder.scores(H), Y)


def loss_of(multiclass, logits, Y):
    Y, logits = Y.toarray(), np.asarray(logits, dtype=np.float64)
    if multiclass:
        return float(-(Y * np.log(np.maximum(softmax(logits), 1e-300))).sum(axis=1).mean())
    return float((np.logaddexp(0, logits) - Y * logits).sum(axis=1).mean())


def mean_loss(F, Y, Q, multiclass, parts=(slice(None),)):
    examples = Examples(F, Y, np.ones(len(F)))
    return sum(total_losses(examples, np.arange(len(F)), Q, multiclass, parts)) / len(F)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**20), st.booleans())
def test_the_gradient_is_the_slope_of_the_loss(seed, multiclass):
    rng = np.random.default_rng(seed)
    _, Y, _ = problem(seed, n=25, multiclass=multiclass)
    F, Q = rng.standard_normal((25, 4)), rng.standard_normal((4, C))
    gradient = gradient_of(F, Y, Q, np.ones(25), multiclass)
    for _ in range(5):
        direction = rng.standard_normal(Q.shape)
        step = 1e-5
        up, down = (mean_loss(F, Y, Q + s * step * direction, multiclass) for s in (1, -1))
        assert (gradient * direction).sum() == pytest.approx(
            (up - down) / (2 * step), rel=1e-5, abs=1e-7
        )


@pytest.mark.parametrize("multiclass", [True, False])
def test_weights_in_the_gradient_are_repetitions(multiclass):
    rng = np.random.default_rng(0)
    _, Y, _ = problem(n=25, multiclass=multiclass)
    F, Q = rng.standard_normal((25, 4)), rng.standard_normal((4, C))
    w = rng.integers(0, 3, 25).astype(float)
    again = np.repeat(np.arange(25), w.astype(int))
    repeated = gradient_of(F[again], Y[again], Q, np.ones(len(again)), multiclass)
    assert_allclose(gradient_of(F, Y, Q, w, multiclass), repeated, atol=1e-12)


def test_the_mean_loss_by_hand():
    Y = sparse.csr_array(np.float32([[1, 0], [0, 1]]))
    F, Q = np.eye(2), np.array([[2.0, 0.0], [1.0, 0.0]])
    expected = np.mean([np.log1p(np.exp(-2)), np.log(np.exp(1) + 1)])
    assert mean_loss(F, Y, Q, True) == pytest.approx(expected)
    independent = np.logaddexp(0, [[2, 0], [1, 0]]) - [[2, 0], [0, 0]]
    assert mean_loss(F, Y, Q, False) == pytest.approx(independent.sum(axis=1).mean())


def test_the_loss_does_not_depend_on_blocks():
    _, Y, _ = problem(n=50)
    rng = np.random.default_rng(0)
    F, Q = rng.standard_normal((50, 4)), rng.standard_normal((4, C))
    whole = mean_loss(F, Y, Q, True)
    with mock.patch("rembrandt.engines.descent.LOGITS", 3 * C):
        assert mean_loss(F, Y, Q, True) == pytest.approx(whole, rel=1e-12)
    parts = (slice(0, 2), slice(2, C))
    assert mean_loss(F, Y, Q, False, parts) == pytest.approx(mean_loss(F, Y, Q, False), rel=1e-12)


@pytest.mark.parametrize("multiclass", [True, False])
@pytest.mark.parametrize("kernel", [None, "gaussian"])
@pytest.mark.filterwarnings("ignore:(overflow|invalid value):RuntimeWarning")
def test_absurd_steps_never_end_worse_than_the_start(multiclass, kernel):
    H, Y, _ = problem(multiclass=multiclass)
    fourier = None if kernel is None else draw(kernel, H, 100, scale=0.05)
    options = LogisticSettings(multiclass=multiclass, **FAST | ABSURD)
    decoder = fit_logistic(H, Y, options, fourier)
    assert np.isfinite(decoder.weights).all()
    held = stopping_rows(Y, None, multiclass, options.seed)
    start = base_loss(multiclass, H, Y, H[held], Y[held])
    assert loss(decoder, H[held], Y[held]) <= start * (1 + 1e-4)


@pytest.mark.parametrize("multiclass", [True, False])
def test_early_stopping_keeps_the_best_epoch(multiclass):
    """Random labels cannot be learned: however long it runs, new rows are predicted no worse than
    by base rates.
    """
    rng = np.random.default_rng(0)
    H = rng.standard_normal((400, 60)).astype(np.float32)
    _, Y, _ = problem(n=400, multiclass=multiclass)
    decoder = fit_logistic(
        H[:300], Y[:300], LogisticSettings(multiclass=multiclass), stopping=np.arange(0, 300, 5)
    )
    start = base_loss(multiclass, H[:300], Y[:300], H[300:], Y[300:])
    assert loss(decoder, H[300:], Y[300:]) < 1.15 * start


@pytest.mark.parametrize("multiclass", [True, False])
def test_targets_stay_sparse(multiclass, monkeypatch):
    H, Y, _ = problem(multiclass=multiclass)

    def refuse(*_, **__):
        raise AssertionError("the targets were made dense")

    for kind in (sparse.csr_array, sparse.csc_array, sparse.csr_matrix, sparse.coo_array):
        monkeypatch.setattr(kind, "toarray", refuse)
        monkeypatch.setattr(kind, "todense", refuse)
    fit_logistic(H, Y, LogisticSettings(multiclass=multiclass, **FAST))


def test_a_penalty_makes_smaller_weights():
    H, Y, _ = problem(multiclass=False)
    free, held = (
        fit_logistic(H, Y, LogisticSettings(multiclass=False, l2=l2, **FAST)) for l2 in (0.0, 10.0)
    )
    assert np.linalg.norm(held.weights) < 0.7 * np.linalg.norm(free.weights)


def test_weights_decide_between_contradicting_examples():
    H, Y, _ = problem(noise=0)
    swapped = sparse.csr_array(Y[:, np.roll(np.arange(C), 1)])
    both, truth = np.vstack([H, H]), sparse.vstack([Y, swapped], format="csr")
    first = np.repeat([1.0, 0.05], len(H))
    options = LogisticSettings(multiclass=True, **FAST)
    for w, expected in ((first, Y), (first[::-1].copy(), swapped)):
        scores = fit_logistic(both, truth, options, weights=w).scores(H)
        assert (scores.argmax(axis=1) == expected.indices).mean() > 0.95


@pytest.mark.parametrize("multiclass", [True, False])
def test_examples_of_no_weight_do_not_decide_when_to_stop(multiclass):
    """Most rows are wrong and weigh nothing, the held-out ones among them: the fit is that of the
    others.
    """
    H, Y, _ = problem(multiclass=multiclass, n=300)
    wrong = Y[np.random.default_rng(0).permutation(300)]
    both, truth = np.vstack([H, H, H, H]), sparse.vstack([Y, wrong, wrong, wrong], format="csr")
    weights = np.repeat([1.0, 0.0, 0.0, 0.0], 300)
    decoder = fit_logistic(
        both, truth, LogisticSettings(multiclass=multiclass, **FAST), weights=weights
    )
    assert loss(decoder, H, Y) < 0.5 * base_loss(multiclass, H, Y, H, Y)


@pytest.mark.parametrize("multiclass", [True, False])
def test_rows_in_use_have_a_weight_and_with_one_label_a_row_a_label(multiclass):
    rng = np.random.default_rng(0)
    Y = sparse.csr_array((rng.random((50, 4)) < 0.3).astype(np.float32))
    weights = rng.integers(0, 3, 50).astype(np.float64)
    has_label = Y.toarray().any(axis=1)
    expected = weights > 0
    if multiclass:
        expected = expected & has_label
    assert usable_rows(Y, weights, multiclass).tolist() == np.flatnonzero(expected).tolist()
    without_weights = np.flatnonzero(has_label) if multiclass else np.arange(50)
    assert usable_rows(Y, None, multiclass).tolist() == without_weights.tolist()


class Recorded:
    """A descent that says what is asked of it."""

    def __init__(self):
        self.asked = []

    def keep(self):
        self.asked.append("keep")

    def restart(self):
        self.asked.append("restart")


@pytest.mark.parametrize("loss", [3.0, 5.0, np.nan, np.inf])
def test_an_epoch_that_diverges_starts_again_with_a_smaller_step_than_a_worse_one(loss):
    diverged = _Progress(first_loss=3.0, best_loss=2.0, scale=1.0)
    descent = Recorded()
    _judge_epoch(descent, loss, diverged)
    assert descent.asked == ["restart"]
    worse = _Progress(first_loss=3.0, best_loss=2.0, scale=1.0)
    descent = Recorded()
    _judge_epoch(descent, 2.5, worse)
    assert descent.asked == []
    assert diverged.scale < worse.scale < 1
    assert diverged.best_loss == worse.best_loss == 2.0
    assert diverged.since == worse.since == 1
    _judge_epoch(descent, 1.0, worse)
    assert descent.asked == ["keep"]
    assert (worse.best_loss, worse.since, worse.done) == (1.0, 0, 2)


def test_examples_without_a_class_do_not_move_the_scores_away():
    """Such a row says nothing about which class: nothing may be won by pushing all scores down."""
    H, Y, _ = problem()
    none = Y.copy()
    none.data[np.random.default_rng(0).random(Y.nnz) < 0.3] = 0
    none.eliminate_zeros()
    options = LogisticSettings(multiclass=True, max_epochs=40, batch=100)
    scores = fit_logistic(H, none, options).scores(H)
    assert np.log(np.exp(scores.astype(float)).sum(axis=1)).mean() > -3
    assert (scores.argmax(axis=1) == Y.indices).mean() > 0.97


def test_whitened_features_are_white():
    H, _, _ = problem()
    H = H @ np.diag(np.logspace(0, 2, H.shape[1])).astype(np.float32) + 5
    w = np.random.default_rng(0).random(len(H))
    whitening = Whitening.of(CPU.statistics(H, None, None, w), 0.0, H.dtype)
    F = whitening(H).astype(np.float64)
    covariance = (F * w[:, None]).T @ F / w.sum()
    assert_allclose(covariance, np.eye(F.shape[1]), atol=1e-2)
    Q = np.random.default_rng(1).standard_normal((F.shape[1], 3)).astype(np.float32)
    weights, bias = whitening.undo(Q)
    assert_allclose(H @ weights + bias, F @ Q, atol=1e-2)


@pytest.mark.parametrize("n", [1, 2, 5, 19])
def test_few_examples(n):
    H, Y, _ = problem(n=n)
    assert np.isfinite(
        fit_logistic(H, Y, LogisticSettings(multiclass=True, **FAST)).scores(H)
    ).all()


def test_rows_are_cut_in_two():
    rest, held = draw_rows(100, 0.2, 0, max_held=15)
    assert len(held) == 15
    assert sorted([*rest, *held]) == list(range(100))
    assert np.array_equal(draw_rows(100, 0.2, 0, max_held=15)[1], held)
    assert not np.array_equal(draw_rows(100, 0.2, 1, max_held=15)[1], held)


def test_batches_are_random_rows_in_their_order():
    """Rows of a class often stand together; a batch has rows from everywhere."""
    H, Y, _ = problem()
    stopping = np.arange(0, 600, 10)
    epochs = []

    def record(self, batches, features, scale):
        epochs.append(batches)

    with mock.patch.object(NumpyDescent, "epoch", record):
        settings_of_fit = LogisticSettings(multiclass=True, **FAST)
        fit_logistic(H, Y, settings_of_fit, stopping=stopping)
    assert len(epochs) > 1
    for batches in epochs:
        rows = np.sort(batches, axis=None)
        assert len(np.unique(rows)) == rows.size > 0.8 * 540
        assert not np.isin(rows, stopping).any()
        assert (np.diff(batches, axis=1) > 0).all()
        assert batches[:, 0].max() < 300 < batches[:, -1].min()
    assert (epochs[0] != epochs[1]).any()
