"""Sums of the examples of labels against dense ones, in any number of blocks and threads."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from rembrandt.linalg.sparse import unit_rows
from rembrandt.parts.centroids import fit as module
from rembrandt.parts.centroids.fit import label_sums
from tests.estimators.problems import examples, words


@pytest.mark.parametrize("n_blocks", [1, 3, 7, 100])
def test_they_are_dense_sums(monkeypatch, n_blocks):
    data = examples(*words(60, 20, 50))
    weights = np.random.default_rng(0).random(60).astype(np.float32)
    monkeypatch.setattr(module, "LABEL_BLOCKS", n_blocks)
    sums = label_sums(data.X, data.Y, weights)
    expected = (data.Y.toarray() * weights[:, None]).T @ unit_rows(data.X[:]).toarray()
    assert sums.shape == (20, 50)
    assert sums.has_canonical_format
    assert_allclose(sums.toarray(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("n_blocks", [3, 32])
def test_neither_threads_nor_blocks_change_a_bit(monkeypatch, n_blocks):
    """Also where sums are pruned between blocks of rows."""
    data = examples(*words(60, 20, 50))
    monkeypatch.setattr(module, "MAX_SUM_ENTRIES", 400)
    monkeypatch.setattr(module, "SUMMED_BLOCK_ROWS", 25)
    monkeypatch.setattr(module, "LABEL_BLOCKS", 1)
    monkeypatch.setenv("REMBRANDT_NUM_THREADS", "1")
    one_by_one = label_sums(data.X, data.Y, n_entries=5)
    monkeypatch.setattr(module, "LABEL_BLOCKS", n_blocks)
    monkeypatch.setenv("REMBRANDT_NUM_THREADS", "3")
    together = label_sums(data.X, data.Y, n_entries=5)
    for name in ("data", "indices", "indptr"):
        assert_array_equal(getattr(together, name), getattr(one_by_one, name))
