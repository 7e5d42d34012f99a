"""Propensities, the table of measures, and the popularity baseline."""

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from rembrandt.errors import DataError
from rembrandt.metrics import (
    evaluate,
    f1_scores,
    inverse_propensity,
    largest_precision,
    most_popular,
    psp_at_k,
)

from . import reference
from .strategies import problems

KEYS = ["error", "p@1", "p@3", "p@5", "ndcg@1", "ndcg@3", "ndcg@5", "psp@1", "psp@3", "psp@5"]
KEYS += [f"{name}@{k}" for k in (1, 3, 5) for name in ("r", "f1")]


def test_propensity_by_hand():
    C = (math.log(1000) - 1) * 2.5**0.55
    assert_allclose(inverse_propensity([0, 10], 1000), [1 + C * 1.5**-0.55, 1 + C * 11.5**-0.55])
    C = (math.log(1000) - 1) * 3.6**0.6
    assert_allclose(inverse_propensity([3], 1000, A=0.6, B=2.6), [1 + C * 5.6**-0.6])
    assert inverse_propensity([0, 1], 1).tolist() == [1.0, 1.0]


def test_psp_by_hand():
    truth = sparse.csr_array(np.array([[1, 1, 0], [0, 0, 1], [0, 0, 0]]))
    inverse = np.array([1.0, 4.0, 2.0])
    labels = np.array([[0, 1], [1, 2], [0, 1]])
    assert psp_at_k(truth, labels, 1, inverse) == pytest.approx(1 / (4 + 2))
    assert psp_at_k(truth, labels, 2, inverse) == pytest.approx((1 + 4 + 2) / (1 + 4 + 2))
    assert psp_at_k(sparse.csr_array((3, 3)), labels, 1, inverse) == 0.0
    assert psp_at_k(truth, labels, 2, inverse, [1, 0, 3], 5.0) == pytest.approx(
        7 / (5 + 4 + 2 + 10)
    )


@given(problems(), st.sampled_from([(0.55, 1.5), (0.5, 0.4), (0.6, 2.6)]))
def test_agrees_with_the_obvious_way(problem, constants):
    truth, labels, counts, n_train = problem
    A, B = constants
    table = evaluate(truth, labels, counts, n_train, A, B)
    assert list(table) == KEYS
    expected = reference.evaluate(truth.toarray(), labels, counts, n_train, A, B, (1, 3, 5))
    for key in KEYS:
        assert table[key] == pytest.approx(expected[key], abs=1e-12)
        assert 0.0 <= table[key] <= 1.0 + 1e-12


@given(problems(), st.integers(0, 1000))
def test_missing_labels_are_columns_never_seen(problem, seed):
    """Leaving out empty columns and counting their labels as missing changes nothing."""
    truth, labels, counts, n_train = problem
    unseen = np.random.default_rng(seed).random((truth.shape[0], 3)) < 0.4
    wide = sparse.hstack([truth, sparse.csr_array(unseen.astype(np.int8))]).tocsr()
    expected = evaluate(wide, labels, np.append(counts, [0, 0, 0]), n_train)
    table = evaluate(truth, labels, counts, n_train, missing_labels=unseen.sum(axis=1))
    assert table == pytest.approx(expected)


def test_most_popular():
    assert_array_equal(most_popular([3, 7, 3, 0], 2, 3), [[1, 0, 2]] * 2)
    assert_array_equal(most_popular([3, 7], 1, 3), [[1, 0, -1]])


def test_mismatched_counts_are_refused():
    with pytest.raises(DataError, match="2 propensities for 3 labels"):
        evaluate(sparse.csr_array((1, 3)), np.array([[0]]), [1, 2], 10)
    with pytest.raises(DataError, match="n_train"):
        inverse_propensity([1], 0)


def test_a_large_problem_is_never_made_dense():
    n, c = 100_000, 200_000
    rng = np.random.default_rng(0)
    truth = sparse.csr_array(
        (np.ones(n * 3), rng.integers(0, c, n * 3), np.arange(n + 1) * 3), shape=(n, c)
    )
    labels = (rng.integers(0, c - 5, (n, 1)) + np.arange(5)).astype(np.int32)
    tracemalloc.start()
    try:
        evaluate(truth, labels, np.ones(c, dtype=int), n)
        assert tracemalloc.get_traced_memory()[1] < 200e6
    finally:
        tracemalloc.stop()


@given(problems(), st.integers(0, 1000))
def test_f1_of_sets_is_that_of_scikit_learn(problem, seed):
    from sklearn.metrics import f1_score

    truth, labels, _, _ = problem
    rng = np.random.default_rng(seed)
    kept = np.where(rng.random(labels.shape) < 0.5, labels, -1)
    known = np.pad(truth.toarray(), ((0, 0), (0, 1)))  # scikit-learn takes one column for classes
    dense = np.zeros(known.shape, dtype=int)
    rows, ranks = np.nonzero(kept >= 0)
    dense[rows, kept[rows, ranks]] = 1
    used = known.any(axis=0) | dense.any(axis=0)
    found = f1_scores(truth, kept)
    assert found["micro_f1"] == pytest.approx(
        f1_score(known, dense, average="micro", zero_division=0)
    )
    each = f1_score(known, dense, average=None, zero_division=0)
    assert found["macro_f1"] == pytest.approx(np.atleast_1d(each)[used].mean() if used.any() else 0)
    unseen = rng.integers(0, 2, truth.shape[0])
    lower = f1_scores(truth, kept, unseen, n_missing=2)
    assert lower["micro_f1"] <= found["micro_f1"] and lower["macro_f1"] <= found["macro_f1"]


@given(problems())
def test_no_ranking_exceeds_the_largest_precision(problem):
    truth, labels, counts, n_train = problem
    table = evaluate(truth, labels, counts, n_train)
    for k in (1, 3, 5):
        assert table[f"p@{k}"] <= largest_precision(truth, k) + 1e-12
    assert largest_precision(sparse.csr_array(np.array([[1, 1, 0], [1, 1, 1]])), 5) == 0.5
