"""Clusters of rows, and searches over clusters, against plain NumPy."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from rembrandt.linalg import bisection, selection
from rembrandt.linalg.bisection import MAX_CHANGED_SHARE, MAX_ROUNDS, bisect
from rembrandt.linalg.cluster_search import choose_clusters, merge_best, paired_scores
from rembrandt.linalg.hashing import hashed
from rembrandt.linalg.kmeans import _nearest, _sample, cluster_means, kmeans


def halved(X, n_left, seed):
    """Spherical two-means with sides of given sizes: which rows are in the first half."""
    m = len(X)

    def side(nearness):
        marked = np.zeros(m, bool)
        marked[np.argsort(-nearness, kind="stable")[:n_left]] = True
        return marked

    first, opposite = np.argsort(hashed(np.arange(m, dtype=np.uint64), seed))[:2]
    in_half = side(X @ (X[first] - X[opposite]))
    for _ in range(MAX_ROUNDS):
        centres = [X[in_half].sum(axis=0), X[~in_half].sum(axis=0)]
        products = [X @ centre / np.linalg.norm(centre) for centre in centres]
        now = side(products[0] - products[1])
        n_changed = (now != in_half).sum()
        in_half = now
        if n_changed <= MAX_CHANGED_SHARE * m:
            break
    return in_half


@pytest.mark.parametrize("n", [2, 3, 31, 400])
@pytest.mark.parametrize("seed", [0, 1, 5])
def test_a_cut_is_that_of_plain_two_means(n, seed):
    rng = np.random.default_rng(n)
    X = rng.standard_normal((n, 12)) * (rng.random((n, 12)) < 0.6)
    X[:, 0] += 1 + rng.random(n)
    in_half = halved(X, (n + 1) // 2, seed)
    clusters = bisect(sparse.csr_array(X, dtype=np.float32), 1, seed)
    assert_array_equal(clusters, np.where(in_half, 0, 1))


def test_one_row_more_hardly_changes_clusters_of_rows_with_keys():
    rng = np.random.default_rng(0)
    topics = rng.random((8, 30))
    X = topics[rng.integers(0, 8, 201)] + 0.1 * rng.random((201, 30))
    keys = hashed(np.arange(201, dtype=np.uint64))
    without = np.delete(np.arange(201), 57)
    all_rows = bisect(sparse.csr_array(X, dtype=np.float32), 3, 0, keys)
    fewer = bisect(sparse.csr_array(X[without], dtype=np.float32), 3, 0, keys[without])
    # A cut has equal sides, so that at most one row of each changes sides with one row less.
    assert (all_rows[without] != fewer).sum() <= 16


def test_every_cut_makes_halves_of_the_last_ones():
    X = sparse.csr_array(np.random.default_rng(0).standard_normal((53, 8)), dtype=np.float32)
    coarse = bisect(X, 2)
    fine = bisect(X, 3)
    assert_array_equal(fine >> 1, coarse)
    assert np.ptp(np.bincount(fine, minlength=8)) <= 1
    assert_array_equal(bisect(X, 0), np.zeros(53))


def test_of_equal_rows_the_first_are_in_the_half(monkeypatch):
    monkeypatch.setattr(bisection, "nth_smallest", selection.nth_smallest.py_func)

    def nearest_half(nearness, n_left):
        marked = np.zeros(len(nearness), dtype=np.bool_)
        bisection._mark_nearest.py_func(nearness, n_left, np.empty_like(nearness), marked)
        return marked

    nearness = np.array([1, 3, 2, 2, 0, 2], np.float32)
    for n_left, expected in ((1, [1]), (2, [1, 2]), (3, [1, 2, 3]), (5, [0, 1, 2, 3, 5])):
        assert np.flatnonzero(nearest_half(nearness, n_left)).tolist() == expected


def test_rows_without_entries_have_a_cluster():
    clusters = bisect(sparse.csr_array((7, 3), dtype=np.float32), 2)
    assert np.bincount(clusters, minlength=4).tolist() == [2, 2, 2, 1]


def test_means_and_nearest_centres():
    rng = np.random.default_rng(1)
    A = rng.standard_normal((2500, 5)).astype(np.float32)
    centres = rng.standard_normal((9, 5)).astype(np.float32)
    distances = np.square(A[:, None] - centres).sum(axis=2)
    clusters = _nearest(A, centres)
    assert_array_equal(clusters, distances.argmin(axis=1))
    clusters[clusters == 4] = 3
    means = cluster_means(A, clusters, 11)
    for q in range(11):
        rows = A[clusters == q]
        expected = rows.mean(axis=0) if len(rows) else np.zeros(5)
        assert_allclose(means[q], expected, atol=1e-5)
    assert_array_equal(cluster_means(A, clusters), means[: clusters.max() + 1])


def test_separate_groups_are_found():
    rng = np.random.default_rng(2)
    group = rng.integers(4, size=600)
    A = (10 * np.eye(4)[group] + 0.1 * rng.standard_normal((600, 4))).astype(np.float32)
    stages = []
    clusters = kmeans(A, 4, seed=1, report=lambda *stage: stages.append(stage))
    purity = max(np.bincount(clusters[group == 0]).max() / (group == 0).sum(), 0)
    assert purity == 1 and len(np.unique(clusters)) >= 3
    assert [done for _, done, _ in stages] == sorted(done for _, done, _ in stages)
    assert stages[-1][1] == stages[-1][2]


def test_a_centre_with_one_row_stays():
    A = np.random.default_rng(0).standard_normal((12, 5)).astype(np.float32)
    A /= np.linalg.norm(A, axis=1, keepdims=True)
    for seed in range(3):
        assert sorted(kmeans(A, len(A), seed).tolist()) == list(range(len(A)))


def test_empty_clusters_hold_no_labels():
    visits = np.zeros((2, 3), dtype=np.bool_)
    bounds = np.zeros((2, 3), dtype=np.float32)
    choose_clusters(bounds, np.zeros(3, dtype=np.int64), 4, np.empty(3, dtype=np.int64), visits)
    assert not visits.any()


def test_rows_far_from_the_mean_are_sampled():
    A = np.zeros((1000, 2), np.float32)
    A[:30] = np.arange(1, 31)[:, None] + 100
    sample = _sample(A, 40, np.random.default_rng(0))
    assert len(sample) == 40
    assert (sample[:, 0] > 0).sum() == 30
    assert _sample(A, 1000, np.random.default_rng(0)) is A


@pytest.mark.parametrize("wanted", [1, 5, 12, 100])
def test_clusters_are_chosen_until_they_hold_enough(wanted):
    rng = np.random.default_rng(wanted)
    bounds = rng.standard_normal((20, 13))
    sizes = rng.integers(0, 4, 13)
    visits = np.zeros((20, 13), bool)
    choose_clusters(bounds, sizes, wanted, np.empty(13, dtype=np.int64), visits)
    for row, visited in zip(bounds, visits, strict=True):
        expected, n_labels = [], 0
        for q in np.argsort(-row):
            if n_labels >= wanted:
                break
            if sizes[q]:
                expected.append(q)
                n_labels += sizes[q]
        assert_array_equal(np.flatnonzero(visited), np.sort(expected))


def test_labels_are_merged_into_sorted_lists():
    rng = np.random.default_rng(3)
    best = np.full((5, 4), np.iinfo(np.int64).max)
    scores = np.full((5, 4), -np.inf, np.float32)
    expected = {row: [] for row in range(5)}
    for labels in np.array_split(rng.permutation(12), 3):
        rows = np.sort(rng.permutation(5)[:4])
        seen = rng.integers(0, 3, (4, len(labels))).astype(np.float32)
        bias = rng.integers(0, 2, len(labels)).astype(np.float32)
        merge_best(seen, bias, labels, rows, best, scores)
        for r, row in enumerate(rows):
            expected[row] += zip(-(seen[r] + bias), labels, strict=True)
    for row in range(5):
        ranked = sorted(expected[row])[:4]
        assert best[row, : len(ranked)].tolist() == [label for _, label in ranked]
        assert scores[row, : len(ranked)].tolist() == [-score for score, _ in ranked]


def test_scores_of_named_columns():
    rng = np.random.default_rng(4)
    Phi = rng.standard_normal((6, 3)).astype(np.float32)
    columns = rng.standard_normal((8, 4)).astype(np.float32)
    at = rng.integers(-1, 8, (6, 5))
    out = np.empty((6, 5), np.float32)
    paired_scores(Phi, columns, at, out)
    all_scores = Phi @ columns[:, :3].T + columns[:, 3]
    expected = np.where(at < 0, -np.inf, np.take_along_axis(all_scores, np.maximum(at, 0), axis=1))
    assert_allclose(out, expected, rtol=1e-5, atol=1e-6)
