"""The backend of a device: for rows in memory, for a store, and for rows of a store in memory."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from rembrandt import memory
from rembrandt.data import Dataset
from rembrandt.data.convert import write_store
from rembrandt.data.rows import MemoryRows
from rembrandt.engines.backend import CPU, backend_for, is_dask
from rembrandt.engines.stored_backend import DaskBackend, StoredBackend
from rembrandt.errors import MemoryEstimateError, SettingsError
from rembrandt.linalg.blocks import as_numpy
from tests.devices import PLACES

from .contract import case


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    problem = case()
    data = Dataset.build(problem.Y, problem.X, label_ids=list("abcdefghi"), task="multilabel")
    return write_store([data], tmp_path_factory.mktemp("backend") / "store").dataset()


def test_backends_of_a_store(stored):
    assert (
        type(backend_for("cpu", stored.X)) is type(backend_for("auto", stored.X)) is StoredBackend
    )
    backend = backend_for("dask:tcp://host:8786", stored.X)
    assert isinstance(backend, DaskBackend) and backend.scheduler == "tcp://host:8786"
    assert backend_for("dask?workers=3", stored.X).workers == 3
    assert backend.in_memory() is CPU, "rows of a store that were loaded are in this process"
    for device in ("cuda", "cpu,cpu", "dask?cut=columns", "tpu"):
        with pytest.raises(SettingsError, match="takes no store"):
            backend_for(device, stored.X)


def test_backends_of_rows_in_memory():
    rows = MemoryRows(case().X)
    assert backend_for("cpu", rows) is backend_for("cpu") is CPU and CPU.in_memory() is CPU
    assert is_dask("dask") and is_dask("dask:tcp://host:1") and not is_dask("cpu")
    with pytest.raises(SettingsError, match="works on a store"):
        backend_for("dask", rows)
    for device in ("", None, 3):
        with pytest.raises(SettingsError, match="must be a name"):
            backend_for(device, rows)


def test_a_store_is_fitted_as_it_is(stored):
    backend = backend_for("cpu", stored.X)
    with pytest.raises(SettingsError, match="its own labels and weights"):
        backend.engine(stored.X, stored.Y, np.ones(stored.n_examples))
    with pytest.raises(SettingsError, match="its own labels and weights"):
        backend.engine(stored.X, stored.Y[:, :3], None)


@pytest.mark.parametrize("backend", [pytest.param(lambda: CPU, id="cpu"), *PLACES])
@pytest.mark.parametrize("kind", ["sparse", "dense"])
def test_rows_are_projected_and_their_own_labels_left_out(backend, kind):
    problem = case(kind)
    backend = backend()
    dense, Y = problem.dense[:2]
    rng = np.random.default_rng(0)
    W, V = (
        rng.standard_normal((size, 3)).astype(np.float32)
        for size in (dense.shape[1] + 1, Y.shape[1])
    )
    H = backend.project(MemoryRows(problem.X), backend.asarray(W))
    expected = dense @ W[:-1] + W[-1]
    assert_allclose(as_numpy(H), expected, atol=1e-4)
    weights = rng.random(len(dense))
    leverages = backend.leverages(MemoryRows(problem.X), weights, backend.asarray(W))
    assert_allclose(leverages, weights * (expected**2).sum(axis=1), rtol=1e-4)
    for s in (0.25, np.linspace(0, 0.9, len(dense), dtype=np.float32)[:, None]):
        left = backend.leave_out(
            H, s if isinstance(s, float) else backend.asarray(s), problem.Y, backend.asarray(V)
        )
        assert left.dtype == H.dtype
        assert_allclose(as_numpy(left), (expected - s * (Y @ V)) / (1 - s), atol=1e-4)


def shape(**more):
    sizes = {
        "n": 1000,
        "d": 100,
        "c": 100_000,
        "nonzeros": 10_000,
        "k": 50,
        "width": 70,
        "mapped": 50,
    }
    return memory.Shape(**sizes | {"decoder": "ridge"} | more)


def test_memory_is_checked_where_it_is_used(monkeypatch, stored):
    assert CPU.check_memory(shape(), independent=True) == memory.estimate(shape())["total"]
    large = shape(n=10_000_000, mapped=1000, decoder="logistic", c=10)
    here = backend_for("cpu", stored.X)
    assert here.check_memory(large, independent=True) < memory.estimate(large)["total"], (
        "features of a store stream"
    )
    monkeypatch.setattr(memory, "available", lambda: 1000)
    for backend in (CPU, here):
        with pytest.raises(MemoryEstimateError, match="GiB is free"):
            backend.check_memory(shape(), independent=True)


def test_independent_labels_may_take_turns_on_a_device(monkeypatch):
    pytest.importorskip("torch")
    backend = backend_for("cpu,cpu")
    logistic = shape(decoder="logistic", mapped=4000, d=10)
    free = memory.estimate(shape(decoder="transpose", d=10))["total"]
    monkeypatch.setattr(type(backend), "available", lambda _: free)
    assert backend.check_memory(logistic, independent=True) <= free
    with pytest.raises(MemoryEstimateError, match="on cpu,cpu"):
        backend.check_memory(logistic, independent=False)


def test_trees_are_in_the_memory_of_the_host_on_a_device_too(monkeypatch):
    pytest.importorskip("torch")
    backend, trees = backend_for("cpu,cpu"), {"together": 10**9}
    alone = shape(k=0, width=0, mapped=0, decoder="transpose", **trees)
    monkeypatch.setattr(type(backend), "available", lambda _: memory.estimate(shape())["total"])
    monkeypatch.setattr(memory, "available", lambda: memory.estimate(alone)["total"])
    for sizes in (alone, shape(**trees)):
        assert backend.check_memory(sizes, independent=True) == memory.estimate(alone)["total"]
    monkeypatch.setattr(memory, "available", lambda: memory.estimate(alone)["total"] - 1)
    with pytest.raises(MemoryEstimateError, match="trees"):
        backend.check_memory(shape(**trees), independent=True)


def test_an_empty_matrix_of_rows_is_not_copied():
    X = sparse.csr_array((3, 4), dtype=np.float32)
    assert MemoryRows(X)[:] is X and MemoryRows(X)[:2].shape == (2, 4)
