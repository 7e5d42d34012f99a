"""The sparse part: classifiers as a reference finds them, the tree as its own dense decoding, and nothing by chance."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.svm import LinearSVC

from rembrandt.decoders import tree as tree_module
from rembrandt.decoders.tree import LARGEST, TreeSettings, cluster_depths, fit_tree
from rembrandt.linalg.bisection import bisect
from rembrandt.linalg.sparse import normalize_rows
from rembrandt.metrics import precision_at_k, top_k

EXACT = {"tolerance": 1e-5, "passes": 2000, "threshold": 0.0}


def words(n=300, c=40, d=200, seed=0):
    """Rows of words: each label has two of its own, and every row has some that say nothing."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, c, n)
    columns = np.hstack([2 * label[:, None] + rng.integers(0, 2, (n, 1)), rng.integers(2 * c, d, (n, 5))])
    X = sparse.csr_array((np.ones(columns.size), (np.repeat(np.arange(n), 6), columns.ravel())), shape=(n, d))
    Y = sparse.csr_array((np.ones(n, dtype=np.float32), (np.arange(n), label)), shape=(n, c))
    X.sum_duplicates()
    return X.astype(np.float32), Y


def test_a_classifier_is_the_one_that_liblinear_finds() -> None:
    rng = np.random.default_rng(0)
    X = normalize_rows(sparse.csr_array(rng.random((200, 6)).astype(np.float32)))  # any row has all features
    Y = sparse.csr_array((rng.random((200, 3)) + X.toarray()[:, :3] > 1.2).astype(np.float32))
    [level] = fit_tree(X, Y, TreeSettings(cost=2.0, **EXACT)).levels
    for label in range(3):
        svm = LinearSVC(C=2.0, loss="squared_hinge", intercept_scaling=1.0, tol=1e-8, max_iter=100_000)
        svm.fit(X.toarray().astype(np.float64), Y.toarray()[:, label])
        np.testing.assert_allclose(level.weights.toarray()[label], svm.coef_[0], atol=2e-3)
        np.testing.assert_allclose(level.bias[label], svm.intercept_[0], atol=2e-3)


@pytest.mark.parametrize("pairs", [1e9, 2000.0])
def test_with_every_cluster_in_the_beam_the_best_are_those_of_dense_decoding(pairs: float) -> None:
    X, Y = words()
    tree = fit_tree(X, Y, TreeSettings(pairs=pairs, beam=10_000))
    assert len(tree.levels) == (1 if pairs == 1e9 else 2)
    dense = tree.probabilities(X)
    labels, scores = tree.top_k(X, 5)
    np.testing.assert_allclose(scores, top_k(dense, 5)[1], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(np.take_along_axis(dense, labels, axis=1), scores, rtol=1e-4, atol=1e-6)
    chosen = np.array([3, 7, 30])
    np.testing.assert_allclose(tree.probabilities(X, chosen), dense[:, chosen], rtol=1e-5)
    found, best = tree.top_k(X, 4, allowed=chosen)
    assert set(found[:, :3].ravel()) == set(chosen.tolist())
    assert (found[:, 3] == -1).all()
    assert (best[:, 3] == 0).all()


def test_a_narrow_beam_finds_nearly_what_the_whole_tree_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree_module, "LARGEST", 25)
    X, Y = words(2000, 400, 1200)
    new, truth = words(500, 400, 1200, seed=1)
    tree = fit_tree(X, Y, TreeSettings(pairs=4e4, beam=4))
    assert len(tree.levels[-2].bias) >= 16
    found = precision_at_k(truth, tree.top_k(new, 1)[0], 1)
    full = precision_at_k(truth, top_k(tree.probabilities(new), 1)[0], 1)
    assert found >= 0.99 * full > 0.7


def test_a_label_has_weights_on_its_own_words_alone() -> None:
    X, Y = words()
    [level] = fit_tree(X, Y, TreeSettings(**EXACT)).levels
    assert (level.weights.toarray()[(Y.T @ X).toarray() == 0] == 0).all()


def test_the_number_of_threads_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    X, Y = words()
    trees = []
    for threads in "12":
        monkeypatch.setenv("REMBRANDT_NUM_THREADS", threads)
        trees.append(fit_tree(X, Y, TreeSettings(pairs=2000.0)))
    for one, two in zip(trees[0].levels, trees[1].levels, strict=True):
        np.testing.assert_array_equal(one.weights.toarray(), two.weights.toarray())
        np.testing.assert_array_equal(one.bias, two.bias)


def test_weights_count_examples() -> None:
    X, Y = words(120, 6, 40)
    twice, never = np.arange(0, 120, 3), np.arange(1, 120, 3)
    weights = np.ones(120)
    weights[twice], weights[never] = 2, 0
    rows = np.sort(np.concatenate([np.setdiff1d(np.arange(120), never), twice]))
    settings = TreeSettings(**EXACT)
    weighted, repeated = fit_tree(X, Y, settings, weights), fit_tree(X[rows], Y[rows], settings)
    np.testing.assert_allclose(weighted.levels[0].weights.toarray(), repeated.levels[0].weights.toarray(), atol=2e-3)


def test_labels_without_examples_and_empty_rows_are_no_trouble() -> None:
    X, Y = words()
    Y = sparse.csr_array(sparse.hstack([Y, sparse.csr_array((300, 2), dtype=np.float32)]))
    X = sparse.csr_array(sparse.vstack([sparse.csr_array((1, 200), dtype=np.float32), X[1:]]))
    for pairs in (1e9, 2000.0):
        tree = fit_tree(X, Y, TreeSettings(pairs=pairs, beam=100))
        labels, scores = tree.top_k(X, 42)
        assert np.isfinite(scores).all()
        assert (np.sort(labels, axis=1) == np.arange(42)).all()


def test_bisection_is_balanced_nested_and_keeps_like_with_like() -> None:
    rng = np.random.default_rng(0)
    group = rng.permutation(np.repeat(np.arange(4), 25))
    A = sparse.csr_array((np.eye(4)[group] + 0.01 * rng.random((100, 4))).astype(np.float32))
    clusters = bisect(A, 2)
    assert np.bincount(clusters).tolist() == [25, 25, 25, 25]
    assert len({(a, b) for a, b in zip(group.tolist(), clusters.tolist(), strict=True)}) == 4
    np.testing.assert_array_equal(bisect(A, 1), clusters >> 1)


def test_more_halvings_than_rows_leave_clusters_empty() -> None:
    clusters = bisect(sparse.csr_array(np.eye(3, dtype=np.float32)), 3)
    assert sorted(clusters.tolist()) == sorted(set(clusters.tolist()))
    assert clusters.max() < 8


@given(st.integers(1, 10**6), st.integers(2, 10**6), st.floats(1e3, 1e9))
def test_clusters_are_small_and_the_first_level_affordable(n: int, c: int, pairs: float) -> None:
    depths = cluster_depths(n, c, pairs)
    if n * c <= pairs:
        assert depths == []
        return
    assert depths == sorted(set(depths))
    assert 2 ** depths[0] <= max(2, 1.5 * pairs / n)
    assert c / 2 ** depths[-1] <= LARGEST
