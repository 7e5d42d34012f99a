"""The engine of one machine, with XᵀY kept and without, in one block and in many."""

import numpy as np
import pytest
from scipy import sparse

from rembrandt.engines import cpu, protocol
from rembrandt.engines.cpu import CpuEngine
from rembrandt.linalg.sparse import append_constant

from .contract import EngineContract, case


class TestCpu(EngineContract):
    def make(self, X, Y, weights=None, constant=False):
        return CpuEngine(append_constant(X) if constant else X, Y, weights)


class TestCpuWithoutSmallProducts(TestCpu):
    """Every product goes through the data, in blocks of a few rows and columns."""

    @pytest.fixture(autouse=True)
    def _limits(self, monkeypatch):
        monkeypatch.setattr(protocol, "SMALL_CROSS", 0)
        monkeypatch.setattr(cpu, "BLOCK_BYTES", 512)


class TestCpuInSmallBlocks(TestCpu):
    """XᵀY is kept, and formed in blocks."""

    @pytest.fixture(autouse=True)
    def _limits(self, monkeypatch):
        monkeypatch.setattr(cpu, "BLOCK_BYTES", 512)


def test_the_two_ways_to_a_cross_product_are_taken(monkeypatch):
    problem = case()
    Q = np.eye(problem.Y.shape[1], dtype=np.float32)
    kept = CpuEngine(problem.X, problem.Y)
    kept.cross(Q)
    assert kept._cross is not None
    monkeypatch.setattr(protocol, "SMALL_CROSS", 0)
    streamed = CpuEngine(problem.X, problem.Y)
    streamed.cross(Q)
    assert streamed._cross is None


def test_gram_matrix_of_very_sparse_rows():
    X = sparse.random_array(
        (500, 60), density=0.01, rng=np.random.default_rng(0), dtype=np.float32
    ).tocsr()
    weights = np.random.default_rng(1).random(500)
    dense = X.toarray().astype(np.float64)
    gram = CpuEngine(X, sparse.csr_array((500, 0), dtype=np.float32), weights).gram_matrix()
    np.testing.assert_allclose(gram, dense.T @ (weights[:, None] * dense), atol=1e-6)


def test_without_labels():
    problem = case()
    engine = CpuEngine(problem.X, problem.Y[:, :0])
    assert engine.c == 0 and engine.label_gram(np.ones((0, 1), dtype=np.float32)).shape == (0, 1)
