"""The contract of FastXML and LPSR, and tests of their parts."""

import numpy as np
import pytest
from benchmarks.peers.arrays import keep_top
from benchmarks.peers.fastxml import FastXML
from benchmarks.peers.l1_logistic import fit as l1_fit
from benchmarks.peers.lpsr import LPSR
from scipy import sparse

from rembrandt.errors import DataError
from rembrandt.metrics import precision_at_k

PEERS = {
    "fastxml": lambda **options: FastXML(n_trees=8, **options),
    "lpsr": lambda **options: LPSR(n_trees=2, max_partition=60, **options),
}


def topics(n, rng, n_topics=8, words_each=12):
    """Return rows with words of one topic and some noise; every topic has two labels that always
    occur together.
    """
    topic = rng.integers(0, n_topics, n)
    X = rng.random((n, n_topics * words_each)) < 0.02
    for i, t in enumerate(topic):
        X[i, t * words_each + rng.integers(0, words_each, 5)] = True
    Y = np.zeros((n, 2 * n_topics), bool)
    Y[np.arange(n), 2 * topic] = Y[np.arange(n), 2 * topic + 1] = True
    return sparse.csr_array(X.astype(np.float32)), sparse.csr_array(Y.astype(np.float32))


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    return *topics(400, rng), *topics(200, rng)


@pytest.fixture(params=list(PEERS))
def peer(request):
    return PEERS[request.param]


def test_learns_a_separable_problem(peer, problem):
    X, Y, X_new, Y_new = problem
    labels, scores = peer().fit(X, Y).top_k(X_new, 2)
    assert precision_at_k(Y_new, labels, 2) > 0.9
    assert (np.diff(scores, axis=1) <= 0).all()


def test_the_result_depends_on_the_seed_and_not_on_threads(peer, problem, monkeypatch):
    X, Y, X_new, _ = problem
    found = []
    for threads, seed in (("1", 3), ("2", 3), ("2", 4)):
        monkeypatch.setenv("REMBRANDT_NUM_THREADS", threads)
        model = peer(seed=seed).fit(X, Y)
        found.append((model.trees, *model.top_k(X_new, 3)))
    for ours, theirs in zip(found[0][0], found[1][0], strict=True):
        for one, other in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(found[0][1], found[1][1])
    np.testing.assert_array_equal(found[0][2], found[1][2])
    assert any(
        len(a.weights) != len(b.weights) or (a.weights != b.weights).any()
        for a, b in zip(found[1][0], found[2][0], strict=True)
    )


def test_empty_rows_are_accepted(peer, problem):
    X, Y, *_ = problem
    no_words, no_labels = sparse.csr_array((5, X.shape[1])), sparse.csr_array((5, Y.shape[1]))
    X = sparse.vstack([X, no_words, X[:5]]).tocsr()
    Y = sparse.vstack([Y, Y[:5], no_labels]).tocsr()
    model = peer().fit(X, Y)
    labels, scores = model.top_k(sparse.csr_array((3, X.shape[1])), 2)
    assert (labels >= 0).all() and np.isfinite(scores).all() and (labels == labels[0]).all()
    assert model.top_k(X[:0], 2)[0].shape == (0, 2)


def test_prediction_does_not_depend_on_the_other_rows(peer, problem):
    X, Y, X_new, _ = problem
    model = peer().fit(X, Y)
    together = model.top_k(X_new, 3)
    for i in (0, 7, 199):
        alone = model.top_k(X_new[[i]], 3)
        np.testing.assert_array_equal(alone[0][0], together[0][i])
        np.testing.assert_array_equal(alone[1][0], together[1][i])


def test_one_example_and_more_labels_requested_than_known(peer):
    labels, scores = (
        peer().fit(np.ones((1, 2)), np.array([[0.0, 1.0, 0.0]])).top_k(np.ones((1, 2)), 3)
    )
    assert labels.tolist() == [[1, -1, -1]]
    assert scores[0, 0] > -np.inf and (scores[0, 1:] == -np.inf).all()


def test_other_features_than_in_training_are_refused(peer, problem):
    X, Y, *_ = problem
    with pytest.raises(DataError, match="features"):
        peer().fit(X, Y).top_k(X[:, :5], 1)


def test_naive_bayes_refuses_negative_counts():
    with pytest.raises(DataError, match="negative"):
        LPSR().fit(-np.eye(3), np.eye(3))


def test_naive_bayes_agrees_with_a_dense_computation(problem):
    """With one partition that has all labels, LPSR is naive Bayes of each label against the
    rest.
    """
    X, Y, X_new, _ = problem
    labels, scores = LPSR(max_partition=10**6).fit(X, Y).top_k(X_new, Y.shape[1])
    held, total = Y.sum(axis=0), X.sum(axis=0)
    inside = (Y.T @ X).toarray().astype(float)
    outside = total - inside
    d = X.shape[1]
    weights = np.log((inside + 1) / (inside.sum(axis=1, keepdims=True) + d))
    weights -= np.log((outside + 1) / (outside.sum(axis=1, keepdims=True) + d))
    expected = X_new @ weights.T + np.log((held + 0.5) / (Y.shape[0] - held + 0.5))
    got = np.take_along_axis(scores, np.argsort(labels, axis=1), axis=1)
    difference = got - expected  # up to a term that all labels of a row share
    np.testing.assert_allclose(
        difference, np.broadcast_to(difference[:, :1], difference.shape), atol=1e-3
    )


def test_l1_logistic_reaches_a_stationary_point():
    rng = np.random.default_rng(1)
    X = sparse.random_array((300, 40), density=0.2, rng=rng, format="csc", dtype=np.float32)
    sign = np.where(X @ rng.standard_normal(40) + 2 * rng.standard_normal(300) > 0, 1.0, -1.0)
    cost = np.where(sign > 0, 2.0, 0.5)
    w = l1_fit(
        X.indptr.astype(np.int64), X.indices.astype(np.int32), X.data, sign, cost, 200, 1e-6, rng
    )
    gradient = -X.T @ (cost * sign / (1 + np.exp(sign * (X @ w))))
    assert 0 < np.count_nonzero(w) < len(w)
    np.testing.assert_allclose(gradient[w != 0], -np.sign(w[w != 0]), atol=1e-3)
    assert (abs(gradient[w == 0]) <= 1 + 1e-3).all()


def test_keep_top_breaks_ties_by_label():
    scores = np.array([1.0, 3.0, 3.0, 2.0, 3.0, 0.0], np.float32)
    labels, best = np.full(3, -1), np.full(3, -np.inf, np.float32)
    keep_top(np.array([5, 4, 3, 2, 1, 0]), scores, labels, best)
    assert labels.tolist() == [1, 2, 4] and best.tolist() == [3.0, 3.0, 3.0]
