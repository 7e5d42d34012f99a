"""Top-k and the rank-based measures."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.metrics import ndcg_score

from rembrandt.errors import DataError
from rembrandt.metrics import error, ndcg_at_k, precision_at_k, rank, top_k

from .strategies import problems

TRUTH = sparse.csr_array(np.array([[1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]]))
RANKED = np.array([[0, 1, 2], [2, 1, -1], [3, 0, 1]])


def test_precision_by_hand():
    assert precision_at_k(TRUTH, RANKED, 1) == pytest.approx(1 / 3)
    assert precision_at_k(TRUTH, RANKED, 3) == pytest.approx((2 + 1 + 0) / 9)
    assert precision_at_k(TRUTH, RANKED, 5) == pytest.approx((2 + 1 + 0) / 15), "ranks nobody predicted are misses"
    assert error(TRUTH, RANKED) == pytest.approx(2 / 3)


def test_ndcg_by_hand():
    second, third = 1 / math.log2(3), 1 / math.log2(4)
    assert ndcg_at_k(TRUTH, RANKED, 1) == pytest.approx(1 / 3)
    assert ndcg_at_k(TRUTH, RANKED, 3) == pytest.approx(((1 + third) / (1 + second) + second / 1 + 0) / 3)


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
    untidy = sparse.csr_array((np.array([1, 0, 1, 1]), np.array([2, 0, 1, 1]), np.array([0, 2, 4])), shape=(2, 3))
    assert precision_at_k(untidy, np.array([[0], [1]]), 1) == 0.5
    assert untidy.nnz == 4, "the caller's matrix is left as it was"


@given(problems())
def test_bounds_and_row_order(problem):
    truth, labels, _, _, _ = problem
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
    assert error(truth, labels) == 0.0


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
        (np.array([[0, 1], [2, 2], [0, 1]]), "row 1 predicts the same label twice"),
    ],
)
def test_impossible_predictions_are_refused(labels, complaint):
    with pytest.raises(DataError, match=complaint):
        precision_at_k(TRUTH, labels, 1)


def test_impossible_k_and_missing_are_refused():
    with pytest.raises(DataError, match="k must be at least 1"):
        precision_at_k(TRUTH, RANKED, 0)
    with pytest.raises(DataError, match="one count"):
        ndcg_at_k(TRUTH, RANKED, 1, missing_labels=[1])
    with pytest.raises(DataError, match="k ≥ 1"):
        top_k(np.zeros((1, 2)), 0)
    with pytest.raises(DataError, match="one score per label"):
        rank(RANKED, np.zeros((3, 2)))


def brute_top_k(block, k):
    """Sort every row by (falling score, label), leaving out what can never win."""
    rows = []
    for row in block:
        order = sorted((-s, label) for label, s in enumerate(row) if s > -np.inf)[:k]
        rows.append([label for _, label in order] + [-1] * (k - len(order)))
    return np.array(rows, dtype=int).reshape(len(block), k)


few_values = st.sampled_from([0.0, -0.0, 1.0, -1.0, 0.5, np.nan, np.inf, -np.inf])


@settings(max_examples=300)
@given(
    hnp.arrays(np.float32, st.tuples(st.integers(0, 4), st.integers(0, 20)), elements=few_values), st.integers(1, 12)
)
def test_top_k_obeys_the_tie_rule(block, k):
    labels, scores = top_k(block, k)
    assert_array_equal(labels, brute_top_k(block, k))
    assert scores.dtype == np.float32
    expected = np.where(labels >= 0, np.take_along_axis(np.pad(block, ((0, 0), (0, 1))), labels, axis=1), -np.inf)
    assert_array_equal(scores, expected)


@pytest.mark.parametrize("k", [1, 5, 100, 3000])
@pytest.mark.parametrize("make", ["random", "rising", "tied"])
def test_top_k_on_longer_rows(k, make):
    rng = np.random.default_rng(0)
    block = {
        "random": rng.random((3, 2000), dtype=np.float32),
        "rising": np.arange(6000, dtype=np.float32).reshape(3, 2000),
        "tied": rng.integers(0, 7, (3, 2000)).astype(np.float32),
    }[make]
    assert_array_equal(top_k(block, k)[0], brute_top_k(block, k))


def test_top_k_takes_views_and_other_types():
    block = np.arange(12).reshape(3, 4).T
    assert_array_equal(top_k(block, 2)[0], [[2, 1]] * 4)
    assert_array_equal(top_k(block.astype(np.float16), 1)[0], [[2]] * 4)
    assert top_k(block.astype(np.float64), 1)[1].dtype == np.float64


def test_rank_puts_missing_predictions_last():
    labels, scores = rank(np.array([[-1, 4, 2, 3]]), np.array([[9.0, 1.0, 1.0, 2.0]]))
    assert_array_equal(labels, [[3, 2, 4, -1]])
    assert_array_equal(scores[:, :3], [[2.0, 1.0, 1.0]])
