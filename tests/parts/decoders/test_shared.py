"""Decoders of a store: those of rows in memory, in the same bits here and on any number of
workers.
"""

import os
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from benchmarks.generated import sparse_problem
from numpy.testing import assert_allclose, assert_array_equal

from rembrandt.data import Dataset
from rembrandt.data.convert import write_store
from rembrandt.data.examples import Examples
from rembrandt.data.rows import MemoryRows
from rembrandt.data.stored import StoredRows
from rembrandt.engines import projected
from rembrandt.engines.backend import CPU
from rembrandt.engines.projected import label_blocks
from rembrandt.engines.stored_backend import DaskBackend, StoredBackend
from rembrandt.errors import RembrandtError
from rembrandt.features.fourier import draw
from rembrandt.parts.centroids import fit as centroid_fit
from rembrandt.parts.embedding.decoders.logistic import LogisticSettings, fit_logistic
from rembrandt.parts.embedding.decoders.ridge import fit_ridge
from rembrandt.parts.protocol import Fitting
from rembrandt.parts.trees import fit as tree_fit
from rembrandt.parts.trees.fit import fit_trees
from tests.parts.problems import tree_settings

N, D, C, K = 360, 120, 45, 6
WEIGHTS = np.random.default_rng(5).integers(0, 3, N).astype(np.float32)


@pytest.fixture(
    scope="module", params=[False, True], ids=["plain", "weighted, one's own labels left out"]
)
def stored(request, tmp_path_factory):
    """Projected rows of a store of six shards, and the same in memory."""
    X, Y = sparse_problem(N, D, C, 5, seed=3)
    weights = WEIGHTS if request.param else None
    names = [str(i) for i in range(C)]
    whole = Dataset.build(Y, X, label_ids=names, task="multilabel")
    whole = whole if weights is None else replace(whole, weights=weights)
    parts = (whole.rows(np.arange(start, start + 60)) for start in range(0, N, 60))
    store = write_store(parts, tmp_path_factory.mktemp("shared") / "store")
    data = store.dataset()
    rng = np.random.default_rng(0)
    W, V = (rng.standard_normal((size, K)).astype(np.float32) for size in (D + 1, C))

    def project(backend):
        H = backend.project(data.X, W)
        return backend.leave_out(H, 0.3, data.Y, V) if request.param else H

    return project, project(StoredBackend())[:], data.Y, weights


def maps(H):
    return (None, draw("gaussian", H, 20, seed=1))


def ridge(H, Y, weights, fourier, backend):
    return fit_ridge(backend.statistics(H, Y, fourier, weights), 0.1)


def logistic(H, Y, weights, fourier, backend):
    settings = LogisticSettings(
        multiclass=False, max_epochs=4, dropout=0.0 if fourier is None else 0.5, l2=0.01
    )
    return fit_logistic(H, Y, settings, fourier, weights, backend=backend)


def assert_same(decoder, expected):
    assert_array_equal(decoder.weights, expected.weights)
    assert_array_equal(decoder.bias, expected.bias)


def test_rows_are_those_in_memory(stored):
    project, whole, Y, _ = stored
    H = project(StoredBackend())
    assert_allclose(H[100:130], whole[100:130], rtol=1e-5, atol=1e-6)
    assert_allclose(H[[5, 300, 7]], whole[[5, 300, 7]], rtol=1e-5, atol=1e-6)
    assert_allclose(H.on_disk()[:], whole, rtol=1e-5, atol=1e-6)
    assert_array_equal(H.on_disk()[[7, 200]], H.on_disk()[:][[7, 200]])
    assert H.mean_square == pytest.approx((whole**2).sum(axis=1).mean(), rel=1e-5)
    assert_allclose(draw("gaussian", H, 9).linear, draw("gaussian", whole, 9).linear, rtol=1e-5)
    assert [i for block in label_blocks(Y.shape[1]) for i in range(Y.shape[1])[block]] == list(
        range(Y.shape[1])
    )


def test_ridge_is_that_of_rows_in_memory(stored):
    project, whole, Y, weights = stored
    backend = StoredBackend()
    for fourier in maps(whole):
        expected = ridge(whole, Y, weights, fourier, CPU)
        decoder = ridge(project(backend), Y, weights, fourier, backend)
        size = np.abs(expected.weights).max()
        assert_allclose(decoder.weights, expected.weights, atol=1e-5 * size)
        assert_allclose(decoder.bias, expected.bias, atol=1e-5)


def test_logistic_is_that_of_rows_in_memory(stored, monkeypatch):
    project, whole, Y, weights = stored
    backend = StoredBackend()
    H = project(backend)
    for fourier in maps(whole):
        expected = logistic(whole, Y, weights, fourier, CPU)
        decoder = logistic(H, Y, weights, fourier, backend)
        assert_allclose(decoder.weights, expected.weights, rtol=1e-3, atol=1e-3)
        monkeypatch.setattr(projected, "IN_MEMORY", 0)
        on_access = logistic(H, Y, weights, fourier, backend)
        monkeypatch.undo()
        assert_allclose(on_access.weights, decoder.weights, rtol=1e-3, atol=1e-3)


def test_softmax_streams_rows_too(stored, monkeypatch):
    project, whole, Y, weights = stored
    settings = LogisticSettings(multiclass=True, max_epochs=3)
    expected = fit_logistic(whole, Y, settings, weights=weights)
    monkeypatch.setattr(projected, "IN_MEMORY", 0)
    decoder = fit_logistic(
        project(StoredBackend()), Y, settings, weights=weights, backend=StoredBackend()
    )
    assert_allclose(decoder.weights, expected.weights, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("stored", [True], indirect=True)
def test_the_same_bits_on_workers_one_of_which_is_killed(stored, monkeypatch):
    pytest.importorskip("distributed", reason="pip install 'rembrandt[dask]'")
    from rembrandt.engines.dask import cluster

    project, whole, Y, weights = stored
    fourier, here = maps(whole)[1], StoredBackend()
    H = project(here)
    expected = ridge(H, Y, weights, fourier, here), logistic(H, Y, weights, fourier, here)
    settings = tree_settings(max_example_node_pairs=1e3)
    monkeypatch.setattr(tree_fit, "LARGEST_CLUSTER", 8)
    monkeypatch.setattr(tree_fit, "MAX_POOL_ENTRIES", 900)  # samples of pools
    examples = Examples(H.X, Y, np.arange(C), False, weights)
    trees = fit_trees(examples, settings, Fitting(backend=here))
    with cluster(workers=3) as client:
        backend = DaskBackend(scheduler=client.scheduler.address)
        with backend.session():
            there = project(backend)
            assert_same(ridge(there, Y, weights, fourier, backend), expected[0])
            tally, executor = backend.tallies["decoder"], there.executor
            assert tally.sent >= 3 * H.projection.W.nbytes
            assert tally.gathered >= expected[0].weights.nbytes and tally.passes == 2
            trees_of_workers = fit_trees(examples, settings, Fitting(backend=backend))
            levels = trees.trees[0].levels
            assert len(levels) > 1
            assert backend.tallies["trees"].passes == len(levels)
            for level, expected_level in zip(trees_of_workers.trees[0].levels, levels, strict=True):
                assert_array_equal(level.weights.data, expected_level.weights.data)
                assert_array_equal(level.bias, expected_level.bias)
            in_shares = executor.in_shares
            epochs = []

            def killing(*task):
                epochs.append(task)
                if len(epochs) == 4:
                    os.kill(min(client.run(os.getpid).values()), signal.SIGKILL)
                return in_shares(*task)

            executor.in_shares = killing  # a worker dies between two epochs
            assert_same(logistic(there, Y, weights, fourier, backend), expected[1])
            assert len(epochs) > 4
            kept = client.run(
                lambda dask_worker: sorted(dask_worker.__dict__.get("rembrandt_values", {}))
            )
            assert all(not names for names in kept.values()), "features are freed after the fit"


@pytest.mark.parametrize("entries", [1 << 25, 900])
def test_trees_of_a_store_are_those_of_rows_in_memory(stored, entries, monkeypatch):
    project, _, Y, weights = stored
    rows = project(StoredBackend()).X
    settings = tree_settings(max_example_node_pairs=1e3, n_trees=2)
    # The smaller number samples pools, and reads few at a time.
    monkeypatch.setattr(tree_fit, "MAX_POOL_ENTRIES", entries)
    monkeypatch.setattr(tree_fit, "LARGEST_CLUSTER", 8)
    monkeypatch.setattr(centroid_fit, "SUMMED_BLOCK_ROWS", 100)
    in_memory = Examples(MemoryRows(rows[:]), Y, np.arange(C), False, weights)
    expected, _ = fit_trees(in_memory, settings, Fitting()).arrays()
    rows_at = StoredRows.__getitem__
    entries_read: list[int] = []

    def counted(self, index):
        block = rows_at(self, index)
        entries_read.append(block.nnz)
        return block

    monkeypatch.setattr(StoredRows, "__getitem__", counted)
    on_disk = replace(in_memory, X=rows)
    trees = fit_trees(on_disk, settings, Fitting(backend=StoredBackend()))
    assert all(len(tree.levels) > 2 for tree in trees.trees)
    arrays, _ = trees.arrays()
    assert arrays.keys() == expected.keys()
    for name, array in arrays.items():
        assert_array_equal(array, expected[name])
    if entries == 900:
        assert len(entries_read) > 20
        assert max(entries_read) < rows.nnz / 2, "no pass over all rows"


def test_a_full_temporary_disk_is_a_sentence(stored, monkeypatch):
    with Path("/dev/full").open("r+b", buffering=0) as full:
        monkeypatch.setattr("tempfile.TemporaryFile", lambda **how: full)
        with pytest.raises(RembrandtError, match="TMPDIR"):
            stored[0](StoredBackend()).on_disk()
