"""Measures of ranked predictions."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.metrics import ndcg_score

from rembrandt.errors import DataError
from rembrandt.metrics import ndcg_at_k, precision_at_k, top_k

from .strategies import problems

TRUTH = sparse.csr_array(np.array([[1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]]))
RANKED = np.array([[0, 1, 2], [2, 1, -1], [3, 0, 1]])


def test_precision_by_hand():
    assert precision_at_k(TRUTH, RANKED, 1) == pytest.approx(1 / 3)
    assert precision_at_k(TRUTH, RANKED, 3) == pytest.approx((2 + 1 + 0) / 9)
    assert precision_at_k(TRUTH, RANKED, 5) == pytest.approx((2 + 1 + 0) / 15), (
        "missing predictions are misses"
    )


def test_ndcg_by_hand():
    second, third = 1 / math.log2(3), 1 / math.log2(4)
    assert ndcg_at_k(TRUTH, RANKED, 1) == pytest.approx(1 / 3)
    assert ndcg_at_k(TRUTH, RANKED, 3) == pytest.approx(
        ((1 + third) / (1 + second) + second / 1 + 0) / 3
    )


def test_ndcg_counts_labels_without_a_column():
    second = 1 / math.log2(3)
    assert ndcg_at_k(TRUTH, RANKED, 3, missing_labels=[0, 1, 4]) == pytest.approx(
        ((1 + 0.5) / (1 + second) + second / (1 + second) + 0) / 3
    )


def test_no_rows_and_no_labels():
    nothing = sparse.csr_array((0, 4))
    assert precision_at_k(nothing, np.empty((0, 3), dtype=int), 3) == 0.0
    assert ndcg_at_k(nothing, np.empty((0, 3), dtype=int), 3) == 0.0
    assert ndcg_at_k(sparse.csr_array((2, 4)), np.zeros((2, 1), dtype=int), 1) == 0.0


def test_stored_zeros_and_duplicates_are_not_labels():
    untidy = sparse.csr_array(
        (np.array([1, 0, 1, 1]), np.array([2, 0, 1, 1]), np.array([0, 2, 4])), shape=(2, 3)
    )
    assert precision_at_k(untidy, np.array([[0], [1]]), 1) == 0.5
    assert untidy.nnz == 4, "the caller's matrix is left as it was"


@given(problems())
def test_bounds_and_row_order(problem):
    truth, labels, _, _ = problem
    order = np.random.default_rng(0).permutation(len(labels))
    for measure in (precision_at_k, ndcg_at_k):
        for k in (1, 3):
            value = measure(truth, labels, k)
            assert 0.0 <= value <= 1.0 + 1e-12
            assert value == pytest.approx(measure(truth[order], labels[order], k))


@given(st.integers(1, 6), st.integers(1, 5), st.integers(0, 1000))
def test_perfect_prediction_is_one(n, k, seed):
    labels = np.argsort(np.random.default_rng(seed).random((n, 8)), axis=1)[:, :k]
    truth = sparse.csr_array((np.ones(n * k), labels.ravel(), np.arange(n + 1) * k), shape=(n, 8))
    assert precision_at_k(truth, labels, k) == 1.0
    assert ndcg_at_k(truth, labels, k) == pytest.approx(1.0)


@given(st.integers(0, 1000), st.integers(1, 6))
def test_ndcg_agrees_with_sklearn(seed, k):
    rng = np.random.default_rng(seed)
    truth = rng.random((5, 12)) < 0.3
    scores = rng.permuted(np.arange(60.0).reshape(5, 12), axis=1)
    labels, _ = top_k(scores, k)
    assert_allclose(ndcg_at_k(sparse.csr_array(truth), labels, k), ndcg_score(truth, scores, k=k))


@pytest.mark.parametrize(
    ("labels", "complaint"),
    [
        (np.zeros((2, 1), dtype=int), "3 rows"),
        (np.zeros((3, 1)), "integer array"),
        (np.full((3, 1), 4), "4 columns"),
        (np.full((3, 1), -2), "-1 for no prediction"),
        (np.array([[0, 1], [1, -2], [2, 3]]), "in -2…3"),
        (np.array([[0, 1], [2, 2], [0, 1]]), "row 1 predicts a label twice"),
    ],
)
def test_impossible_predictions_are_refused(labels, complaint):
    with pytest.raises(DataError, match=complaint):
        precision_at_k(TRUTH, labels, 1)


def test_impossible_k_and_missing_are_refused():
    with pytest.raises(DataError, match="k must be at least 1"):
        precision_at_k(TRUTH, RANKED, 0)
    with pytest.raises(DataError, match="a count"):
        ndcg_at_k(TRUTH, RANKED, 1, missing_labels=[1])
