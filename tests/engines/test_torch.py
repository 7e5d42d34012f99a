"""The engine of devices: the products that every engine must do, in one block and in many, on one
device and two.
"""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from rembrandt.data.rows import MemoryRows
from rembrandt.engines import protocol
from rembrandt.engines import torch as module
from rembrandt.engines.backend import CPU
from rembrandt.engines.cpu import CpuEngine
from rembrandt.engines.torch import TorchEngine
from rembrandt.engines.torch_memory import halving
from rembrandt.engines.torch_products import Csr
from rembrandt.errors import MemoryEstimateError
from rembrandt.linalg.blocks import as_numpy
from rembrandt.linalg.sparse import append_constant
from rembrandt.parts.embedding.settings import METHODS
from rembrandt.parts.embedding.solve import certificate, embed
from tests.devices import CPU_ONE, CPU_TWO, PLACES, needs_gpu
from tests.parts.embedding.contract import assert_same_embedding
from tests.parts.embedding.problems import latent
from tests.parts.problems import embedding_settings

from .contract import EngineContract, case


class TestTorch(EngineContract):
    devices = CPU_ONE

    def make(self, X, Y, weights=None, constant=False):
        return TorchEngine(X, Y, weights, self.devices, constant)


class TestTorchWithoutSmallProducts(TestTorch):
    """Every product goes through the data, a few columns at a time."""

    @pytest.fixture(autouse=True)
    def _limits(self, monkeypatch):
        monkeypatch.setattr(protocol, "SMALL_CROSS", 0)
        monkeypatch.setattr(module, "BLOCK_BYTES", 512)
        monkeypatch.setattr(module, "DENSE_BYTES", 1024)


class TestTorchTwice(TestTorchWithoutSmallProducts):
    devices = CPU_TWO


@needs_gpu
class TestGpu(TestTorch):
    devices = (torch.device("cuda", 0),)


@needs_gpu
class TestGpuWithoutSmallProducts(TestTorchWithoutSmallProducts):
    devices = (torch.device("cuda", 0),)


@pytest.mark.parametrize("kind", ["sparse", "dense"])
@pytest.mark.parametrize("backend", PLACES)
def test_the_constant_feature_is_appended(backend, kind):
    problem = case(kind, weighted=True)
    backend = backend()
    engine = backend.engine(MemoryRows(problem.X), problem.Y, problem.weights)
    expected = CpuEngine(append_constant(problem.X), problem.Y, problem.weights)
    assert (engine.d, engine.c) == (expected.d, expected.c)
    assert_allclose(as_numpy(engine.gram_matrix()), expected.gram_matrix(), atol=1e-5)


@pytest.mark.parametrize("solver", ["cholesky", "pcg"])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("backend", PLACES)
def test_embeddings_agree_with_the_processors(backend, method, solver, monkeypatch):
    monkeypatch.setattr(protocol, "SMALL_CROSS", 0)
    data = latent()
    settings = embedding_settings(
        method=method, n_components=5, ridge=0.1, n_iter=4, solver=solver, tol=1e-5, max_iter=100
    )
    engine = backend().engine(MemoryRows(data.X), data.Y, None)
    embedding = embed(engine, settings, seed=0)
    expected = embed(CPU.engine(MemoryRows(data.X), data.Y, None), settings, seed=0)
    host = type(embedding)(
        *(as_numpy(x) for x in (embedding.V, embedding.sigma, embedding.W)),
        None,
        embedding.residual,
        embedding.leverage,
        embedding.iterations,
    )
    assert_same_embedding(host, expected, atol=5e-3)
    assert embedding.leverage == pytest.approx(expected.leverage, rel=1e-2, abs=1e-6)


def test_two_devices_give_the_embedding_of_one():
    data, settings = latent(), embedding_settings(n_components=5, ridge=0.1, n_iter=2)
    one, two = (
        embed(TorchEngine(data.X, data.Y, devices=devices), settings, seed=0)
        for devices in (CPU_ONE, CPU_TWO)
    )
    assert_allclose(one.V, two.V, atol=1e-5)
    assert_allclose(one.sigma, two.sigma, rtol=1e-6)


def test_the_certificate_runs_on_a_device():
    data, settings = latent(), embedding_settings(n_components=5, ridge=0.1, n_iter=4)
    engine = TorchEngine(data.X, data.Y)
    embedding = embed(engine, settings, seed=0)
    proof = certificate(engine, settings, 0, embedding.V, embedding.sigma)
    assert proof.residuals.max() < 0.05 * float(embedding.sigma[0])


def test_weights_leave_dense_features_as_they_are():
    rng = np.random.default_rng(0)
    X, Y = (
        rng.standard_normal((20, 4)),
        sparse.csr_array((rng.random((20, 3)) < 0.5).astype(np.float64)),
    )
    engine = TorchEngine(X.copy(), Y, rng.choice([0.5, 2.0], 20))
    engine.cross_matrix()
    assert_array_equal(as_numpy(engine.X), X)


def test_a_transpose_and_rows_of_a_sparse_matrix():
    A = sparse.random_array(
        (40, 30), density=0.2, rng=np.random.default_rng(0), dtype=np.float32
    ).tocsr()
    placed = Csr.of(A, CPU_ONE[0], torch.float32)
    assert_array_equal(placed.T.dense(torch.float32), A.toarray().T)
    assert_array_equal(placed[7:19].dense(torch.float32), A.toarray()[7:19])
    assert_array_equal(placed.with_constant().dense(torch.float32), append_constant(A).toarray())
    Z = torch.randn(30, 5)
    assert_allclose(placed @ Z, A.toarray() @ Z.numpy(), atol=1e-5)
    assert (Csr.of(A[:0], CPU_ONE[0], torch.float32) @ Z).shape == (0, 5)


def test_a_product_that_does_not_fit_is_done_in_smaller_blocks(monkeypatch):
    """A device that holds no more than two columns at a time."""
    problem = case()
    engine = TorchEngine(problem.X, problem.Y)
    Z = engine.asarray(np.random.default_rng(0).standard_normal((engine.d, 7)))
    expected, times, widths = engine.gram(Z), Csr.__matmul__, []

    def limited(self, block):
        widths.append(block.shape[1])
        if block.shape[1] > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return times(self, block)

    monkeypatch.setattr(Csr, "__matmul__", limited)
    assert_allclose(engine.gram(Z), expected, atol=1e-5)
    assert widths[0] == 7 and max(widths[3:]) <= 2


def test_the_smallest_block_that_does_not_fit_is_an_error_with_what_to_do():
    def never(_):
        raise torch.OutOfMemoryError("CUDA out of memory")

    with pytest.raises(MemoryEstimateError, match=r"smallest piece of a product.*device='cpu'"):
        halving(never, slice(0, 100), 64, "a product")


def test_halving_covers_everything_once():
    done = []

    def work(part):
        if part.stop - part.start > 9:
            raise torch.OutOfMemoryError("CUDA out of memory")
        done.extend(range(part.start, part.stop))

    assert halving(work, slice(3, 100), 64, "work") <= 9
    assert done == list(range(3, 100))


@pytest.mark.parametrize("backend", PLACES)
def test_memory_that_runs_out_anywhere_is_a_sentence_and_settings_come_back(backend):
    before = torch.backends.cuda.matmul.allow_tf32
    with (
        pytest.raises(MemoryEstimateError, match="another device, or device='cpu'"),
        backend().session(),
    ):
        raise torch.OutOfMemoryError("CUDA out of memory")
    assert torch.backends.cuda.matmul.allow_tf32 == before
