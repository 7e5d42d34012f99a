"""Recall and precision by label frequency."""

import numpy as np
import pytest
from scipy import sparse

from rembrandt.errors import DataError
from rembrandt.metrics import coverage_by_decile


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
