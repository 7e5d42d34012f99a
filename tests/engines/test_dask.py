"""The engine on a Dask cluster of processes: the contract, the same bits on any number of workers,
and dead workers.
"""

import os
import shutil
import signal
import subprocess
import time
import warnings

import numpy as np
import pytest
from benchmarks.attack.clusters import Cluster
from benchmarks.generated import sparse_problem
from numpy.testing import assert_array_equal
from scipy import sparse

from rembrandt.data.convert import convert
from rembrandt.engines.shard_products import Data
from rembrandt.engines.shards import ShardedEngine
from rembrandt.errors import DataError, EngineError, RembrandtWarning
from rembrandt.parts.embedding.solve import embed
from tests.parts.problems import embedding_settings

from .contract import EngineContract, case
from .test_shards import cut

pytest.importorskip("distributed", reason="pip install 'rembrandt[dask]'")
import dask
import psutil
from distributed.comm.core import CommClosedError

from rembrandt.engines.dask import DaskExecutor, cluster


@pytest.fixture(scope="module")
def client():
    with cluster(workers=2) as connected:
        yield connected


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    X, Y = sparse_problem(900, 300, 80, 6, seed=2)
    folder = tmp_path_factory.mktemp("dask")
    sparse.save_npz(folder / "X.npz", X)
    sparse.save_npz(folder / "Y.npz", Y)
    return convert(
        [folder / "X.npz"], folder / "store", rows=90, format="npz", labels=folder / "Y.npz"
    )


def engine_of(store, executor=None):
    return ShardedEngine(Data(store.shards, store.d, store.c, constant=True), executor)


class TestDask(EngineContract):
    """One case of each kind: a call to a cluster takes milliseconds, and the arithmetic is that of
    the shards.
    """

    @pytest.fixture(autouse=True)
    def _client(self, client):
        self.client = client

    @pytest.fixture(
        params=[
            ("sparse", False, False),
            ("sparse", True, True),
            ("sparse", True, True, (0.25, 0.5)),
        ]
    )
    def problem(self, request):
        return case(*request.param)

    def make(self, X, Y, weights=None, constant=False, row_power=0.0):
        data = Data(
            cut(X, Y, weights), X.shape[1], Y.shape[1], constant=constant, row_power=row_power
        )
        return ShardedEngine(data, DaskExecutor(self.client))

    def make_scaled(self, problem):
        return self.make(problem.X, problem.Y, problem.weights, problem.center, problem.row_power)


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_the_same_bits_as_in_one_process(store, workers):
    here = engine_of(store)
    Z = np.random.default_rng(0).standard_normal((here.d, 6)).astype(np.float32)
    with cluster(workers=workers) as client:
        there = engine_of(store, DaskExecutor(client))
        assert_array_equal(there.gram(Z), here.gram(Z))
        assert_array_equal(
            there.column_sums("X", squared=True), here.column_sums("X", squared=True)
        )
        settings = embedding_settings(n_components=4, n_oversamples=4, solver="pcg", max_iter=3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RembrandtWarning)  # three iterations may be too few
            assert_array_equal(embed(there, settings, seed=0).V, embed(here, settings, seed=0).V)


def test_nothing_listens_beyond_this_machine(client):
    """The scheduler and its dashboard are in this process, the workers in others."""
    assert "127.0.0.1" in client.dashboard_link
    for process in (psutil.Process(), *psutil.Process().children(recursive=True)):
        listening = [
            one.laddr.ip
            for one in process.net_connections("inet")
            if one.status == psutil.CONN_LISTEN
        ]
        assert set(listening) <= {"127.0.0.1", "::1"}, process


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes a certificate with openssl")
def test_certificates_of_dask_are_required(store, tmp_path):
    """With certificates in the configuration of Dask, a client without them cannot connect."""
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
    ]
    command += ["-subj", "/CN=test", "-days", "1", "-keyout", str(key), "-out", str(cert)]
    subprocess.run(command, check=True, capture_output=True)
    tls = {"ca-file": cert} | {
        f"{role}.{part}": file
        for role in ("client", "scheduler", "worker")
        for part, file in (("cert", cert), ("key", key))
    }
    settings = {f"distributed.comm.tls.{name}": str(file) for name, file in tls.items()}
    bare = dict.fromkeys(settings)
    settings["distributed.comm.require-encryption"] = True
    Z = np.ones((store.d, 3), np.float32)
    with dask.config.set(settings), cluster(workers=1) as client:
        address = client.scheduler.address
        assert address.startswith("tls://")
        with cluster(address) as another:
            assert_array_equal(
                engine_of(store, DaskExecutor(another)).gram(Z), engine_of(store).gram(Z)
            )
        without = dask.config.set(bare | {"distributed.comm.require-encryption": None})
        with without, pytest.raises(EngineError, match="needs certificates"), cluster(address):
            pass


def test_bytes_are_counted(client, store):
    engine = engine_of(store, DaskExecutor(client))
    Z = np.zeros((engine.d, 6), np.float32)
    before = vars(engine.tally).copy()
    engine.gram(Z)
    after = vars(engine.tally)
    moved = {
        name: after[name] - before[name] for name in ("broadcasts", "sent", "between", "gathered")
    }
    # Two workers: the block to each, one partial sum across, the result back.
    assert moved == {
        "broadcasts": 1,
        "sent": 2 * Z.nbytes,
        "between": Z.nbytes,
        "gathered": Z.nbytes,
    }
    assert "to the workers" in engine.tally.sentence()


def test_a_shard_that_is_missing_is_named(client, store, tmp_path):
    shards = [type(s)(tmp_path / s.entry.file, s.entry) for s in store.shards]
    with pytest.raises(DataError, match=r"shard-0000-0000\d\d\.safetensors: .* missing"):
        ShardedEngine(Data(shards, store.d, store.c), DaskExecutor(client))


class Killing(DaskExecutor):
    """Kills workers in the middle of a pass: when the ``at``-th piece of work has been handed
    out.
    """

    def __init__(self, *how, pids, at):
        super().__init__(*how)
        self.pids, self.left = pids, at

    def _submit(self, *task):
        submitted = super()._submit(*task)
        self.left -= 1
        if self.left == 0:
            for pid in self.pids:
                os.kill(pid, signal.SIGKILL)
        return submitted


def test_a_killed_worker_changes_nothing(store):
    settings = embedding_settings(
        n_components=5, n_oversamples=5, solver="pcg", tol=0.0, max_iter=3
    )
    undisturbed = embed(engine_of(store), settings, seed=0)
    with cluster(workers=2) as client:
        executor = Killing(client, pids=[min(client.run(os.getpid).values())], at=50)
        survived = embed(engine_of(store, executor), settings, seed=0)
        assert executor.left < 0, "no worker was killed"
        assert_array_equal(survived.sigma, undisturbed.sigma)


def test_all_workers_are_killed(store, tmp_path, monkeypatch):
    """Workers that nobody starts again: the fit ends with a sentence soon after."""
    monkeypatch.setattr("rembrandt.engines.dask.RESULT_CHECK", 0.5)
    monkeypatch.setattr("rembrandt.engines.dask.WORKER_TIMEOUT", 2)
    settings = embedding_settings(
        n_components=5, n_oversamples=5, solver="pcg", tol=0.0, max_iter=3
    )
    processes = Cluster(tmp_path)
    try:
        with cluster(processes.wait()) as client:
            executor = Killing(client, pids=client.run(os.getpid).values(), at=50)
            start = time.monotonic()
            with pytest.raises(EngineError, match="has had no workers for 2 seconds; start some"):
                embed(engine_of(store, executor), settings, seed=0)
            assert executor.left < 0, "no worker was killed"
            assert time.monotonic() - start < 60
    finally:
        processes.close()


def test_a_worker_that_is_removed_while_data_is_sent_to_it(client, store, monkeypatch):
    """The scheduler raises a KeyError for a worker that it has just removed."""
    executor = DaskExecutor(client)
    engine = engine_of(store, executor)
    Z = np.ones((engine.d, 3), np.float32)
    send = client._scatter
    lost = []

    async def lose_first(*args, **options):
        if not lost:
            lost.append(options["workers"])
            raise KeyError(options["workers"][0])
        return await send(*args, **options)

    monkeypatch.setattr(client, "_scatter", lose_first)
    assert_array_equal(engine.gram(Z), engine_of(store).gram(Z))
    assert len(lost) == 1


def test_a_result_that_no_worker_computes(client, monkeypatch):
    """Without workers a result would be waited for without end; a busy worker has its time."""
    monkeypatch.setattr("rembrandt.engines.dask.RESULT_CHECK", 0.1)
    executor = DaskExecutor(client)
    assert executor._result(client.submit(time.sleep, 0.5)) is None
    monkeypatch.setattr(executor, "_alive", list)
    with pytest.raises(CommClosedError, match="no worker is left"):
        executor._result(client.submit(time.sleep, 0.6))


def test_a_cluster_without_workers_is_a_sentence(monkeypatch):
    from distributed import Client, LocalCluster

    monkeypatch.setattr("rembrandt.engines.dask.WORKER_TIMEOUT", 0.5)
    with (
        LocalCluster(n_workers=0, dashboard_address=":0", processes=False) as local,
        Client(local, set_as_default=False) as client,
        pytest.raises(EngineError, match=r"has had no workers for 0.5 seconds; start some"),
    ):
        DaskExecutor(client)


def test_no_scheduler_and_one_that_goes(store):
    with (
        pytest.raises(EngineError, match="no Dask scheduler answers"),
        cluster("tcp://127.0.0.1:1", timeout=1),
    ):
        pass
    from dask import config
    from distributed import Client, LocalCluster

    local = LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0", processes=False)
    with (
        config.set({"distributed.comm.timeouts.connect": "1s"}),
        Client(local, set_as_default=False) as client,
    ):
        executor = DaskExecutor(client)
        engine = engine_of(store, executor)
        local.close()
        with pytest.raises(EngineError, match=r"scheduler at .* is gone"):
            engine.gram(np.zeros((engine.d, 2), np.float32))
