"""Inverted lists against dense products."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from rembrandt.linalg.inverted import (
    MAX_READ_RATIO,
    MIN_ROWS_TO_LAY_OUT,
    add_lists,
    add_products,
    best_members,
    csr_arrays,
    lists_by_cluster,
)

N_FEATURES = 30


def matrix(n, width, density, seed):
    rng = np.random.default_rng(seed)
    A = sparse.random_array((n, width), density=density, rng=rng, dtype=np.float32, format="csr")
    A.data -= np.float32(0.3)
    A.sort_indices()
    return A


def test_rows_add_the_lists_of_their_features():
    X = matrix(9, N_FEATURES, 0.3, seed=0)
    S = matrix(N_FEATURES, 7, 0.2, seed=1)
    out = np.ones((4, 7), np.float32)
    add_lists(csr_arrays(X), 3, csr_arrays(S), out)
    assert_allclose(out, 1 + (X @ S).toarray()[3:7], rtol=1e-5, atol=1e-6)


def clusters_of(n_labels, n_clusters, seed):
    """Labels in random clusters."""
    cluster = np.random.default_rng(seed).integers(n_clusters, size=n_labels)
    cluster = np.random.default_rng(seed + 1).permutation(np.sort(cluster))
    return arranged(cluster, n_clusters)


def arranged(cluster, n_clusters):
    """The cluster of each label, starts and labels of all clusters, and each label's number."""
    members = np.argsort(cluster, kind="stable")
    starts = np.append(0, np.cumsum(np.bincount(cluster, minlength=n_clusters)))
    rank = np.empty(len(cluster), np.uint16)
    rank[members] = np.arange(len(cluster)) - starts[cluster[members]]
    return cluster, starts, members, rank


def test_lists_are_arranged_by_cluster_feature_and_label():
    S = matrix(N_FEATURES, 12, 0.3, seed=2)
    cluster, starts, members, rank = clusters_of(12, 4, seed=3)
    first, features, list_starts, numbers, values = lists_by_cluster(
        csr_arrays(S), cluster, rank, 4
    )
    again = np.zeros(S.shape, np.float32)
    for q in range(4):
        assert (np.diff(features[first[q] : first[q + 1]]) > 0).all()
        for at in range(first[q], first[q + 1]):
            for entry in range(list_starts[at], list_starts[at + 1]):
                again[features[at], members[starts[q] + numbers[entry]]] += values[entry]
    assert_array_equal(again, S.toarray())
    assert first[-1] == len(features) and list_starts[-1] == S.nnz == len(values)


@pytest.mark.parametrize("power", [1.0, 2.0, 3.0])
@pytest.mark.parametrize("n", [MIN_ROWS_TO_LAY_OUT - 1, MIN_ROWS_TO_LAY_OUT, 25])
def test_the_best_members_of_clusters_are_those_of_a_sort(power, n):
    assert_best_members(power, n, clusters_of(20, 5, seed=5))


def test_the_best_members_of_a_large_and_of_small_clusters_are_those_of_a_sort():
    cluster = np.random.default_rng(0).permutation(np.append(np.arange(5), np.full(60_000, 2)))
    assert_best_members(2.0, 25, arranged(cluster, 5))


def assert_best_members(power, n, clusters):
    """Search four of five clusters for each row, and compare with a loop over their labels."""
    cluster, starts, members, rank = clusters
    n_labels, n_clusters, k, start = len(cluster), 5, 4, 2
    rng = np.random.default_rng(n)
    X = matrix(n + start, N_FEATURES, 0.3, seed=n)
    S = matrix(N_FEATURES, n_labels, 0.3, seed=4)
    lists = lists_by_cluster(csr_arrays(S), cluster, rank, n_clusters)
    bias = rng.normal(size=n_labels).astype(np.float32)
    visited = np.array([rng.permutation(n_clusters)[:4] for _ in range(n)])
    so_far = -np.sort(rng.exponential(1.0, (n, 4)).astype(np.float32), axis=1)
    best = np.full((n, k), -1)
    scores = np.full((n, k), -np.inf, np.float32)
    position = np.full(N_FEATURES, -1, np.int32)
    arrays = ((starts, members), lists, bias[members])
    best_members(csr_arrays(X), start, visited, so_far, *arrays, power, position, best, scores)
    assert (position == -1).all(), "work space is left as it was"
    hinge = np.maximum(0, 1 - ((X[start:] @ S).toarray() + bias))
    for row in range(n):
        base = np.full(n_clusters, -np.inf)
        base[visited[row]] = so_far[row]
        expected = base[cluster] - hinge[row] ** power
        assert_allclose(-np.sort(-scores[row]), -np.sort(-expected)[:k], rtol=1e-4, atol=1e-6)
        assert_allclose(scores[row], expected[best[row]], rtol=1e-4, atol=1e-6)
        assert len(set(best[row])) == k


def test_products_with_a_few_labels_of_each_row():
    """Lists of labels are read, or searched where they are much longer than the row."""
    X = sparse.vstack([matrix(4, N_FEATURES, 0.4, seed=6), matrix(4, N_FEATURES, 0.05, seed=7)])
    X = sparse.csr_array(X)
    weights = matrix(6, N_FEATURES, 0.3, seed=8).toarray()
    weights[5] = np.arange(N_FEATURES) + 1
    labels = sparse.csr_array(weights)
    n_entries = np.diff(X.indptr)
    assert ((n_entries > 0) & (MAX_READ_RATIO * n_entries < N_FEATURES)).any()
    wanted = np.array([[5, 0, -1], [1, 5, 2], [3, 4, 5], [5, 5, -1], [5, 1, 0], [-1, -1, 5]])
    out = np.ones((6, 3), np.float32)
    dense = np.zeros(N_FEATURES, np.float32)
    add_products(csr_arrays(X), 2, wanted, csr_arrays(labels), dense, out)
    assert not dense.any(), "work space is left as it was"
    products = np.take_along_axis((X @ weights.T)[2:], np.maximum(wanted, 0), axis=1)
    assert_allclose(out, 1 + np.where(wanted < 0, 0, products), rtol=1e-5, atol=1e-5)


def test_a_long_label_is_searched_up_to_its_own_end():
    """The next label begins with the feature that is searched for and that this one lacks."""
    weights = np.zeros((2, N_FEATURES), dtype=np.float32)
    weights[0, : 2 * MAX_READ_RATIO] = 3
    weights[1, 2 * MAX_READ_RATIO :] = 5
    row = np.zeros((1, N_FEATURES), dtype=np.float32)
    row[0, 2 * MAX_READ_RATIO] = 1
    out = np.zeros((1, 2), dtype=np.float32)
    dense = np.zeros(N_FEATURES, np.float32)
    wanted = np.array([[0, 1]])
    labels = csr_arrays(sparse.csr_array(weights))
    add_products(csr_arrays(sparse.csr_array(row)), 0, wanted, labels, dense, out)
    assert out.tolist() == [[0.0, 5.0]]
