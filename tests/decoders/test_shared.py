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
from rembrandt.data.rows import MemoryRows
from rembrandt.data.stored import StoredRows
from rembrandt.decoders.logistic import LogisticSettings, fit_logistic
from rembrandt.decoders.ridge import fit_ridge
from rembrandt.engines import projected
from rembrandt.engines.place import CPU
from rembrandt.engines.projected import label_blocks
from rembrandt.engines.stored_place import DaskPlace, StoredPlace
from rembrandt.errors import RembrandtError
from rembrandt.features.fourier import draw
from rembrandt.scorers import centroids, tree_fit
from rembrandt.scorers.tree_fit import fit_trees
from tests.scorers.problems import tree_settings

N, D, C, K = 360, 120, 45, 6
WEIGHTS = np.random.default_rng(5).integers(0, 3, N).astype(np.float32)


@pytest.fixture(
    scope="module", params=[False, True], ids=["plain", "weighted, one's own labels left out"]
)
def given(request, tmp_path_factory):
    """Projected rows of a store of six shards, and the same in memory."""
    X, Y = sparse_problem(N, D, C, 5, seed=3)
    weights = WEIGHTS if request.param else None
    names = [str(i) for i in range(C)]
    whole = Dataset.build(Y, X, label_names=names, task="multilabel")
    whole = whole if weights is None else replace(whole, weights=weights)
    parts = (whole.rows(np.arange(start, start + 60)) for start in range(0, N, 60))
    store = write_store(parts, tmp_path_factory.mktemp("shared") / "store")
    data = store.dataset()
    rng = np.random.default_rng(0)
    W, V = (rng.standard_normal((size, K)).astype(np.float32) for size in (D + 1, C))

    def project(place):
        H = place.project(data.X, W)
        return place.leave_out(H, 0.3, data.Y, V) if request.param else H

    return project, project(StoredPlace())[:], data.Y, weights


def maps(H):
    return (None, draw("gaussian", H, 20, seed=1))


def ridge(H, Y, weights, fourier, place):
    return fit_ridge(place.statistics(H, Y, fourier, weights), 0.1)


def logistic(H, Y, weights, fourier, place):
    settings = LogisticSettings(
        multiclass=False, max_epochs=4, dropout=0.0 if fourier is None else 0.5, l2=0.01
    )
    return fit_logistic(H, Y, settings, fourier, weights, place=place)


def assert_same(one, other):
    assert_array_equal(one.weights, other.weights)
    assert_array_equal(one.bias, other.bias)


def test_rows_are_those_in_memory(given):
    project, whole, Y, _ = given
    H = project(StoredPlace())
    assert_allclose(H[100:130], whole[100:130], rtol=1e-5, atol=1e-6)
    assert_allclose(H[[5, 300, 7]], whole[[5, 300, 7]], rtol=1e-5, atol=1e-6)
    assert_allclose(H.on_disk()[:], whole, rtol=1e-5, atol=1e-6)
    assert_array_equal(H.on_disk()[[7, 200]], H.on_disk()[:][[7, 200]])
    assert H.mean_square == pytest.approx((whole**2).sum(axis=1).mean(), rel=1e-5)
    assert_allclose(draw("gaussian", H, 9).linear, draw("gaussian", whole, 9).linear, rtol=1e-5)
    assert [i for block in label_blocks(Y.shape[1]) for i in range(Y.shape[1])[block]] == list(
        range(Y.shape[1])
    )


def test_ridge_is_that_of_rows_in_memory(given):
    project, whole, Y, weights = given
    place = StoredPlace()
    for fourier in maps(whole):
        expected = ridge(whole, Y, weights, fourier, CPU)
        found = ridge(project(place), Y, weights, fourier, place)
        size = np.abs(expected.weights).max()
        assert_allclose(found.weights, expected.weights, atol=1e-5 * size)
        assert_allclose(found.bias, expected.bias, atol=1e-5)


def test_logistic_is_that_of_rows_in_memory(given, monkeypatch):
    project, whole, Y, weights = given
    place = StoredPlace()
    H = project(place)
    for fourier in maps(whole):
        expected = logistic(whole, Y, weights, fourier, CPU)
        found = logistic(H, Y, weights, fourier, place)
        assert_allclose(found.weights, expected.weights, rtol=1e-3, atol=1e-3)
        monkeypatch.setattr(projected, "IN_MEMORY", 0)
        on_access = logistic(H, Y, weights, fourier, place)
        monkeypatch.undo()
        assert_allclose(on_access.weights, found.weights, rtol=1e-3, atol=1e-3)


def test_softmax_streams_rows_too(given, monkeypatch):
    project, whole, Y, weights = given
    settings = LogisticSettings(multiclass=True, max_epochs=3)
    expected = fit_logistic(whole, Y, settings, weights=weights)
    monkeypatch.setattr(projected, "IN_MEMORY", 0)
    found = fit_logistic(project(StoredPlace()), Y, settings, weights=weights, place=StoredPlace())
    assert_allclose(found.weights, expected.weights, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("given", [True], indirect=True)
def test_the_same_bits_on_workers_one_of_which_is_killed(given, monkeypatch):
    pytest.importorskip("distributed", reason="pip install 'rembrandt[dask]'")
    from rembrandt.engines.dask import cluster

    project, whole, Y, weights = given
    fourier, here = maps(whole)[1], StoredPlace()
    H = project(here)
    expected = ridge(H, Y, weights, fourier, here), logistic(H, Y, weights, fourier, here)
    settings = tree_settings(pairs=1e3)
    monkeypatch.setattr(tree_fit, "ENTRIES", 900)  # samples of pools
    trees = fit_trees(H.X, Y, settings, weights=weights, place=here)
    with cluster(workers=3) as client:
        place = DaskPlace(scheduler=client.scheduler.address)
        with place.session():
            there = project(place)
            assert_same(ridge(there, Y, weights, fourier, place), expected[0])
            tally, executor = place.tallies["decoder"], there.executor
            assert tally.sent >= 3 * H.projection.W.nbytes
            assert tally.gathered >= expected[0].weights.nbytes and tally.passes == 2
            found = fit_trees(H.X, Y, settings, weights=weights, place=place)
            levels = trees.trees[0].levels
            assert len(levels) > 1 and place.tallies["trees"].passes == len(levels)
            for one, other in zip(found.trees[0].levels, levels, strict=True):
                assert_array_equal(one.weights.data, other.weights.data)
                assert_array_equal(one.bias, other.bias)
            in_shares, epochs = executor.in_shares, []

            def killing(*task):
                epochs.append(task)
                if len(epochs) == 4:
                    os.kill(min(client.run(os.getpid).values()), signal.SIGKILL)
                return in_shares(*task)

            executor.in_shares = killing  # a worker dies between two epochs
            assert_same(logistic(there, Y, weights, fourier, place), expected[1])
            assert len(epochs) > 4
            kept = client.run(
                lambda dask_worker: sorted(dask_worker.__dict__.get("rembrandt_values", {}))
            )
            assert all(not names for names in kept.values()), "features are freed after the fit"


@pytest.mark.parametrize("entries", [1 << 25, 900])
def test_trees_of_a_store_are_those_of_rows_in_memory(given, entries, monkeypatch):
    project, _, Y, weights = given
    rows, settings, read = (
        project(StoredPlace()).X,
        tree_settings(pairs=1e3, n_trees=2),
        list[int](),
    )
    monkeypatch.setattr(
        tree_fit, "ENTRIES", entries
    )  # the smaller one samples pools, and reads few at a time
    monkeypatch.setattr(tree_fit, "LARGEST", 8)
    monkeypatch.setattr(centroids, "SUMMED", 100)
    expected = fit_trees(MemoryRows(rows[:]), Y, settings, weights=weights)
    rows_at = StoredRows.__getitem__

    def counted(self, index):
        found = rows_at(self, index)
        read.append(found.nnz)
        return found

    monkeypatch.setattr(StoredRows, "__getitem__", counted)
    found = fit_trees(rows, Y, settings, weights=weights, place=StoredPlace())
    assert all(len(tree.levels) > 2 for tree in found.trees)
    for one, other in zip(found.arrays()[0].values(), expected.arrays()[0].values(), strict=True):
        assert_array_equal(one, other)
    if entries == 900:
        assert len(read) > 20 and max(read) < rows.nnz / 2, "no pass over all rows"


def test_a_full_temporary_disk_is_a_sentence(given, monkeypatch):
    with Path("/dev/full").open("r+b", buffering=0) as full:
        monkeypatch.setattr("tempfile.TemporaryFile", lambda **how: full)
        with pytest.raises(RembrandtError, match="TMPDIR"):
            given[0](StoredPlace()).on_disk()
