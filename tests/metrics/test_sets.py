"""Label sets and coverage along label frequency."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.metrics import f1_score, hamming_loss

from rembrandt.errors import DataError
from rembrandt.metrics import coverage_by_decile, hamming, macro_f1, micro_f1


@given(st.integers(0, 1000), st.integers(1, 6), st.integers(2, 7), st.sampled_from([0.0, 0.3, 1.0]))
def test_sets_agree_with_sklearn(seed, n, c, density):
    rng = np.random.default_rng(seed)
    truth, guess = rng.random((n, c)) < density, rng.random((n, c)) < 0.4
    Y, G = sparse.csr_array(truth), sparse.csr_array(guess)
    assert micro_f1(Y, G) == pytest.approx(f1_score(truth, guess, average="micro", zero_division=0))
    assert macro_f1(Y, G) == pytest.approx(f1_score(truth, guess, average="macro", zero_division=0))
    assert hamming(Y, G) == pytest.approx(hamming_loss(truth, guess))


def test_sets_of_different_shapes_are_refused():
    with pytest.raises(DataError, match="examples × labels"):
        micro_f1(sparse.csr_array((2, 3)), sparse.csr_array((2, 4)))


def test_coverage_by_hand():
    truth = sparse.csr_array(np.eye(20, dtype=int)[[0, 0, 1, 19]])
    labels = np.array([[0, 5], [3, 0], [2, 3], [1, 2]])
    counts = np.arange(20, 0, -1)
    deciles = coverage_by_decile(truth, labels, counts)
    assert len(deciles) == 10
    head, tail = deciles[0], deciles[-1]
    assert (head.rarest, head.commonest, head.n_labels, head.n_true) == (19, 20, 2, 3)
    assert head.recall == pytest.approx(2 / 3)
    assert head.covered == pytest.approx(1 / 2)
    assert (tail.rarest, tail.commonest, tail.recall, tail.covered) == (1, 2, 0.0, 0.0)
    assert np.isnan(deciles[5].recall)
    assert np.isnan(deciles[5].covered)


def test_coverage_of_few_labels_and_wrong_counts():
    truth = sparse.csr_array(np.eye(3, dtype=int))
    assert len(coverage_by_decile(truth, np.array([[0], [1], [2]]), [5, 5, 5])) == 3
    with pytest.raises(DataError, match="2 training counts for 3 labels"):
        coverage_by_decile(truth, np.array([[0], [1], [2]]), [5, 5])
