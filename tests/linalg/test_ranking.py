"""The best entries of each row, with ties."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_array_equal

from rembrandt.errors import DataError
from rembrandt.linalg.ranking import look_up, rank, top_k


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
    hnp.arrays(np.float32, st.tuples(st.integers(0, 4), st.integers(0, 20)), elements=few_values),
    st.integers(1, 12),
)
def test_top_k_obeys_the_tie_rule(block, k):
    labels, scores = top_k(block, k)
    assert_array_equal(labels, brute_top_k(block, k))
    assert scores.dtype == np.float32
    expected = np.where(
        labels >= 0, np.take_along_axis(np.pad(block, ((0, 0), (0, 1))), labels, axis=1), -np.inf
    )
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


def test_wrong_arguments_are_refused():
    with pytest.raises(DataError, match="k ≥ 1"):
        top_k(np.zeros((1, 2)), 0)
    with pytest.raises(DataError, match="one score per label"):
        rank(np.zeros((3, 3), dtype=int), np.zeros((3, 2)))


@given(st.integers(0, 2**32 - 1))
def test_values_are_looked_up_by_label(seed):
    rng = np.random.default_rng(seed)
    labels = np.full((4, 5), -1)
    listed = np.full((4, 6), -1)
    for row in range(4):
        known = np.sort(rng.permutation(9)[: rng.integers(0, 6)])
        labels[row, : len(known)] = known
        some = rng.permutation(9)[: rng.integers(0, 6)]
        listed[row, rng.permutation(6)[: len(some)]] = some
    values = rng.random((4, 6))
    out = np.zeros((4, 5))
    look_up(labels, listed, values, out)
    expected = np.zeros((4, 5))
    for row, position in np.argwhere(listed >= 0):
        expected[row][labels[row] == listed[row, position]] = values[row, position]
    assert_array_equal(out, expected)
