"""Decoders of a store: those of rows in memory, in the same bits here and on any number of workers."""

import os
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from rembrandt.data import Dataset
from rembrandt.data.convert import write_store
from rembrandt.data.generated import sparse_problem
from rembrandt.decoders import shared_logistic
from rembrandt.decoders.logistic import LogisticSettings, fit_logistic
from rembrandt.decoders.ridge import RidgeStatistics
from rembrandt.decoders.shared_ridge import fit_shared_ridge
from rembrandt.decoders.tree import TreeSettings, fit_tree
from rembrandt.engines.projected import ProjectedRows, label_blocks
from rembrandt.engines.shards import LocalExecutor
from rembrandt.engines.stored_place import DaskPlace, StoredPlace
from rembrandt.errors import RembrandtError
from rembrandt.features.fourier import draw

N, D, C, K = 360, 120, 45, 6
WEIGHTS = np.random.default_rng(5).integers(0, 3, N).astype(np.float32)


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "weighted, one's own labels left out"])
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
    H = ProjectedRows.of(data.X, W, LocalExecutor())
    H = H.left_out(0.3, data.Y, V) if request.param else H
    return H, H[:], data.Y, weights


def maps(H):
    return (None, draw("gaussian", H, 20, seed=1))


def logistic(H, Y, weights, fourier, place):
    settings = LogisticSettings(multiclass=False, max_epochs=4, dropout=0.0 if fourier is None else 0.5, l2=0.01)
    return fit_logistic(H, Y, settings, fourier, weights, place=place)


def assert_same(one, other):
    assert_array_equal(one.weights, other.weights)
    assert_array_equal(one.bias, other.bias)


def test_rows_are_those_in_memory(given):
    H, whole, Y, _ = given
    assert_allclose(H[100:130], whole[100:130], rtol=1e-5, atol=1e-6)
    assert_allclose(H[[5, 300, 7]], whole[[5, 300, 7]], rtol=1e-5, atol=1e-6)
    assert_allclose(H.on_disk()[:], whole, rtol=1e-5, atol=1e-6)
    assert_array_equal(H.on_disk()[[7, 200]], H.on_disk()[:][[7, 200]])
    assert H.mean_square == pytest.approx((whole**2).sum(axis=1).mean(), rel=1e-5)
    assert_allclose(draw("gaussian", H, 9).linear, draw("gaussian", whole, 9).linear, rtol=1e-5)
    assert [i for block in label_blocks(Y.shape[1]) for i in range(Y.shape[1])[block]] == list(range(Y.shape[1]))


def test_ridge_is_that_of_rows_in_memory(given):
    H, whole, Y, weights = given
    for fourier in maps(whole):
        expected = RidgeStatistics(whole, Y, fourier, weights).solve(0.1)
        found = fit_shared_ridge(H, fourier, 0.1)
        size = np.abs(expected.weights).max()
        assert_allclose(found.weights, expected.weights, atol=1e-5 * size)
        assert_allclose(found.bias, expected.bias, atol=1e-5)


def test_logistic_is_that_of_rows_in_memory(given, monkeypatch):
    H, whole, Y, weights = given
    for fourier in maps(whole):
        expected = logistic(whole, Y, weights, fourier, StoredPlace())
        found = logistic(H, Y, weights, fourier, StoredPlace())
        assert_allclose(found.weights, expected.weights, rtol=1e-3, atol=1e-3)
        monkeypatch.setattr(shared_logistic, "IN_MEMORY", 0)
        made_anew = logistic(H, Y, weights, fourier, StoredPlace())
        monkeypatch.undo()
        assert_allclose(made_anew.weights, found.weights, rtol=1e-3, atol=1e-3)


def test_softmax_streams_rows_too(given, monkeypatch):
    H, whole, Y, weights = given
    settings = LogisticSettings(multiclass=True, max_epochs=3)
    expected = fit_logistic(whole, Y, settings, weights=weights)
    monkeypatch.setattr(shared_logistic, "IN_MEMORY", 0)
    found = fit_logistic(H, Y, settings, weights=weights, place=StoredPlace())
    assert_allclose(found.weights, expected.weights, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("given", [True], indirect=True)
def test_the_same_bits_on_workers_one_of_which_is_killed(given):
    pytest.importorskip("distributed", reason="pip install 'rembrandt[dask]'")
    from rembrandt.engines.dask import DaskExecutor, cluster

    H, whole, Y, weights = given
    fourier = maps(whole)[1]
    expected = fit_shared_ridge(H, fourier, 0.1), logistic(H, Y, weights, fourier, StoredPlace())
    trees = TreeSettings(pairs=1e3)
    tree = fit_tree(H.X, Y, trees, weights)
    with cluster(workers=3) as client:
        executor = DaskExecutor(client)
        there = replace(H, executor=executor)
        assert_same(fit_shared_ridge(there, fourier, 0.1), expected[0])
        assert executor.tally.sent >= 3 * H.projection.nbytes
        assert executor.tally.gathered >= expected[0].weights.nbytes and executor.tally.passes == 2
        place = DaskPlace(scheduler=client.scheduler.address)
        with place.held():
            found = fit_tree(H.X, Y, trees, weights, place=place)
        assert len(tree.levels) > 1 and place.tallies["sparse part"].passes == len(tree.levels)
        for one, other in zip(found.levels, tree.levels, strict=True):
            assert_array_equal(one.weights.data, other.weights.data)
            assert_array_equal(one.bias, other.bias)
        in_shares, epochs = executor.in_shares, []

        def killing(*task):
            epochs.append(task)
            if len(epochs) == 4:
                os.kill(min(client.run(os.getpid).values()), signal.SIGKILL)
            return in_shares(*task)

        executor.in_shares = killing  # a worker that dies between two epochs
        assert_same(logistic(there, Y, weights, fourier, StoredPlace()), expected[1])
        assert len(epochs) > 4


def test_a_full_temporary_disk_is_a_sentence(given, monkeypatch):
    with Path("/dev/full").open("r+b", buffering=0) as full:
        monkeypatch.setattr("tempfile.TemporaryFile", lambda **how: full)
        with pytest.raises(RembrandtError, match="TMPDIR"):
            given[0].on_disk()
