"""The engine of one machine, with XᵀY kept and without, in one block and in many."""

import numpy as np
import pytest
from scipy import sparse

from rembrandt.engines import cpu
from rembrandt.engines.cpu import CpuEngine

from .contract import EngineContract, case


class TestCpu(EngineContract):
    def make(self, X, Y, weights=None, center_features=False, center_labels=False):
        return CpuEngine(X, Y, weights, center_features, center_labels)


class TestCpuWithoutSmallProducts(TestCpu):
    """Every product goes through the data, in blocks of a few rows and columns."""

    @pytest.fixture(autouse=True)
    def _limits(self, monkeypatch):
        monkeypatch.setattr(cpu, "SMALL_CROSS", 0)
        monkeypatch.setattr(cpu, "BLOCK_BYTES", 512)


class TestCpuInSmallBlocks(TestCpu):
    """XᵀY is kept, and formed in blocks."""

    @pytest.fixture(autouse=True)
    def _limits(self, monkeypatch):
        monkeypatch.setattr(cpu, "BLOCK_BYTES", 512)


def test_the_two_ways_to_a_cross_product_are_taken(monkeypatch):
    given = case()
    Q = np.eye(given.Y.shape[1], dtype=np.float32)
    kept = CpuEngine(given.X, given.Y)
    kept.cross(Q)
    assert kept._cross is not None
    monkeypatch.setattr(cpu, "SMALL_CROSS", 0)
    streamed = CpuEngine(given.X, given.Y)
    streamed.cross(Q)
    assert streamed._cross is None


def test_gram_matrix_of_very_sparse_rows():
    X = sparse.random_array((500, 60), density=0.01, rng=np.random.default_rng(0), dtype=np.float32).tocsr()
    weights = np.random.default_rng(1).random(500)
    dense = X.toarray().astype(np.float64)
    centred = dense - weights @ dense / weights.sum()
    found = CpuEngine(X, None, weights, center_features=True).gram_matrix()
    np.testing.assert_allclose(found, centred.T @ (weights[:, None] * centred), atol=1e-6)


def test_without_labels_it_says_so():
    engine = CpuEngine(case().X)
    assert engine.c == 0
    with pytest.raises(ValueError, match="no labels"):
        engine.label_gram(np.ones((3, 1), dtype=np.float32))
