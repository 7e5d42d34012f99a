"""Thresholds that are learned from probabilities of held-out examples."""

import numpy as np
from numpy.testing import assert_array_equal
from sklearn.metrics import f1_score

from rembrandt.thresholds import Pairs, best_threshold, label_thresholds


def pairs_of(P, Y):
    """All pairs of rows and labels."""
    labels = np.indices(P.shape)[1].ravel()
    return Pairs(labels, P.ravel(), Y.ravel() == 1, Y.sum(axis=0).astype(np.int64))


def test_the_micro_threshold_is_the_best_of_all():
    rng = np.random.default_rng(0)
    Y = rng.random((60, 8)) < 0.3
    P = np.clip(0.3 * Y + 0.7 * rng.random(Y.shape), 0, 1)
    chosen = best_threshold(pairs_of(P, Y))
    scores = [f1_score(Y, t <= P, average="micro") for t in np.unique(P)]
    assert f1_score(Y, chosen <= P, average="micro") > max(scores) - 0.01


def test_true_labels_that_are_no_candidates_count():
    """Labels that are never found lower the recall, and with it the threshold that is best."""
    P, Y = np.array([[0.9], [0.8], [0.75], [0.7], [0.6]]), np.array([[1], [0], [0], [0], [1]])
    pairs = pairs_of(P, Y)
    missed = Pairs(pairs.labels, pairs.likely, pairs.right, pairs.true_counts + 20)
    assert best_threshold(pairs) > 0.8 and best_threshold(missed) == 0.6


def test_labels_with_few_examples_stay_near_the_common_threshold():
    rng = np.random.default_rng(0)
    Y = np.zeros((400, 3), dtype=bool)
    Y[:, 0], Y[:, 1] = rng.random(400) < 0.3, rng.random(400) < 0.3
    Y[0, 2] = True
    P = np.where(Y, [0.9, 0.4, 0.02], [0.5, 0.1, 0.01]) + 0.001 * rng.random(Y.shape)
    first, second, rare = label_thresholds(pairs_of(P, Y))
    assert 0.5 < first <= 0.91 and 0.1 < second <= 0.41
    assert rare > 0.1


def test_without_a_true_label_the_threshold_is_one_half():
    P = np.random.default_rng(0).random((5, 3))
    pairs = pairs_of(P, np.zeros((5, 3), dtype=int))
    assert best_threshold(pairs) == 0.5
    assert_array_equal(label_thresholds(pairs), [0.5] * 3)
