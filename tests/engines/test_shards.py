"""The engine of shards, in memory and on disk: the contract, agreement with the engine of one
machine, few bits.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from benchmarks.generated import sparse_problem
from numpy.testing import assert_allclose
from scipy import sparse

from rembrandt.data.convert import convert
from rembrandt.engines import protocol, shard_products
from rembrandt.engines.centring import Centred
from rembrandt.engines.cpu import CpuEngine
from rembrandt.engines.shard_products import Data, cut_in_runs
from rembrandt.engines.shards import ShardedEngine, tree_sum
from rembrandt.errors import SettingsError
from rembrandt.estimators import LabelEmbedder
from rembrandt.linalg.sparse import append_constant, normalize_rows
from rembrandt.parts.embedding.solve import embed
from tests.parts.problems import embedding_settings

from .contract import EngineContract


@dataclass
class InMemory:
    """A shard that is in memory already."""

    X: Any
    Y: Any
    weights: Any
    key: str

    @property
    def n(self):
        return self.X.shape[0]

    def rows(self, d, c):
        return self

    def prefetch(self):
        pass

    def release(self):
        pass


def cut(X, Y, weights=None, size=10):
    X, Y = sparse.csr_array(X), sparse.csr_array(Y)
    spans = [slice(start, start + size) for start in range(0, X.shape[0], size)]
    return [
        InMemory(X[s], Y[s], None if weights is None else weights[s], f"{id(X)}-{s.start}")
        for s in spans
    ]


class TestShards(EngineContract):
    def make(self, X, Y, weights=None, constant=False, row_power=0.0):
        how = {"constant": constant, "row_power": row_power, "n_runs": 3}
        return ShardedEngine(Data(cut(X, Y, weights), X.shape[1], Y.shape[1], **how))

    def make_scaled(self, problem):
        return self.make(problem.X, problem.Y, problem.weights, problem.center, problem.row_power)


class TestShardsWithoutSmallProducts(TestShards):
    @pytest.fixture(autouse=True)
    def _limits(self, monkeypatch):
        monkeypatch.setattr(protocol, "SMALL_CROSS", 0)
        monkeypatch.setattr(shard_products, "BLOCK_BYTES", 100)


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A problem in memory, and in a store of seven shards."""
    X, Y = sparse_problem(700, 400, 90, 6, seed=1)
    X = sparse.csr_array(sparse.hstack([X[:, :395], sparse.csr_array((700, 5), dtype=np.float32)]))
    folder = tmp_path_factory.mktemp("shards")
    sparse.save_npz(folder / "X.npz", X)
    sparse.save_npz(folder / "Y.npz", Y)
    store = convert(
        [folder / "X.npz"], folder / "store", rows=100, format="npz", labels=folder / "Y.npz"
    )
    assert len(store.shards) == 7
    return X, Y, store


def engine_of(store, **how):
    return ShardedEngine(Data(store.shards, store.d, store.c, **how))


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("method", ["rembrandt", "cca"])
@pytest.mark.parametrize("solver", ["cholesky", "pcg"])
def test_embeds_as_the_engine_of_one_machine(stored, method, solver, normalize):
    X, Y, store = stored
    settings = embedding_settings(
        method=method,
        n_components=5,
        n_oversamples=10,
        n_iter=2,
        solver=solver,
        tol=1e-6,
        max_iter=60,
    )
    whole = embed(
        CpuEngine(append_constant(normalize_rows(X) if normalize else X), Y), settings, seed=0
    )
    streamed = embed(engine_of(store, constant=True, normalize=normalize), settings, seed=0)
    assert_allclose(streamed.sigma, whole.sigma, rtol=1e-5)
    assert_allclose(np.abs(streamed.V), np.abs(whole.V), atol=2e-3)


def test_centred_like_the_engine_of_one_machine(stored):
    X, Y, store = stored
    settings = embedding_settings(n_components=5, solver="cholesky")
    whole = embed(Centred(CpuEngine(append_constant(X), Y)), settings, seed=0)
    streamed = embed(Centred(engine_of(store, constant=True)), settings, seed=0)
    assert_allclose(streamed.sigma, whole.sigma, rtol=1e-5)
    assert streamed.W.shape == whole.W.shape == (X.shape[1] + 1, 5)


def test_only_the_features_that_occur(stored):
    X, Y, store = stored
    used = np.unique(X.indices)
    assert len(used) < X.shape[1]
    Z = np.random.default_rng(0).standard_normal((len(used), 3)).astype(np.float32)
    narrow = engine_of(store, columns=used)
    expected = CpuEngine(X[:, used], Y)
    assert_allclose(narrow.gram(Z), expected.gram(Z), rtol=1e-4, atol=1e-3)
    assert_allclose(
        narrow.column_sums("X", squared=True), expected.column_sums("X", squared=True), rtol=1e-6
    )


def test_estimators_take_the_rows_of_a_store(stored):
    X, Y, store = stored
    data = store.dataset()
    whole, streamed = (LabelEmbedder(n_components=5, random_state=0) for _ in range(2))
    whole.fit(X, Y)
    streamed.fit(data.X, data.Y)
    assert_allclose(streamed.singular_values_, whole.singular_values_, rtol=1e-5)
    assert_allclose(streamed.transform(data.X), streamed.transform(X), rtol=1e-5, atol=1e-6)
    assert streamed.tallies_["embedding"].passes > 0 and whole.tallies_ == {}
    with pytest.raises(SettingsError, match="its own labels"):
        LabelEmbedder(n_components=5).fit(data.X, Y[:, :50])


def test_passes_are_counted(stored):
    engine = engine_of(stored[2])
    Z = np.ones((engine.d, 1), np.float32)
    before = engine.tally.passes
    engine.gram(Z)
    assert engine.tally.passes == before + 1
    assert (
        "passes over the data" in engine.tally.sentence()
        and "broadcast" not in engine.tally.sentence()
    )


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 13])
def test_sums_in_a_tree(n):
    assert tree_sum(lambda i: np.array([i + 1]), 0, n)[0] == n * (n + 1) // 2
    runs = cut_in_runs(n, 4)
    assert [i for run in runs for i in run] == list(range(n)) and len(runs) == min(n, 4)
