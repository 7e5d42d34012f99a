"""Row shards on the workers of a Dask cluster.

Every worker has some runs of shards. A block goes to all workers, and partial results are added on
the workers in the same binary tree as in one process, so the bits do not depend on the number of
workers. The work of a worker that dies is repeated by the others. Workers must see the store under
the same path.
"""

from __future__ import annotations

import asyncio
import logging
import operator
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, TypeVar

from scipy import sparse

from rembrandt.engines.shard_products import Data, Product, cut_in_runs, partial
from rembrandt.engines.shards import Executor, Task, tree_cut
from rembrandt.errors import EngineError, SettingsError
from rembrandt.linalg import Array
from rembrandt.linalg.threads import cpu_count

try:
    from distributed import Client, LocalCluster, Security, get_worker
    from distributed.comm.core import CommClosedError
    from distributed.scheduler import KilledWorker, NoValidWorkerError
except ImportError as cause:
    raise SettingsError(
        "a Dask cluster needs more packages: pip install 'rembrandt[dask]'"
    ) from cause

Found = TypeVar("Found")

ATTEMPTS = 4  # per product, before a cluster that keeps losing workers is given up
TIMEOUT = 30  # seconds to connect to a scheduler
ANSWER_TIMEOUT = 10  # seconds for a busy scheduler to answer
SEND_CHECK = 3  # seconds of sending after which the receivers are checked
PAUSE = 0.5  # seconds before the next attempt, growing with each one
WORKER_TIMEOUT = 60  # seconds to wait for a first worker
_LOST = (KilledWorker, NoValidWorkerError, CancelledError, CommClosedError, TimeoutError)


@contextmanager
def cluster(
    scheduler: str | None = None, workers: int | None = None, timeout: float | None = None
) -> Iterator[Client]:
    """Connect to a scheduler, or start processes on this machine that end with the block."""
    if scheduler is not None:
        if (
            scheduler.startswith("tls:")
            and Security().get_connection_args("client")["ssl_context"] is None
        ):
            raise EngineError(
                f"{scheduler} needs certificates: set distributed.comm.tls in the configuration of "
                "Dask"
            )
        try:
            client = Client(scheduler, timeout=timeout or TIMEOUT, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            raise EngineError(
                f"no Dask scheduler answers at {scheduler} ({error}); start one with: dask "
                "scheduler"
            ) from error
        with client, _quiet():
            yield client
        return
    workers = workers or min(2, cpu_count())
    threads = str(max(1, cpu_count() // workers))
    with (
        LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            dashboard_address="127.0.0.1:0",
            env={"REMBRANDT_NUM_THREADS": threads},
        ) as local,
        Client(local, set_as_default=False) as client,
        _quiet(),
    ):
        yield client


@contextmanager
def _quiet() -> Iterator[None]:
    """Hide the tracebacks that a client logs when it loses its scheduler; `EngineError` reports the
    loss.
    """
    log = logging.getLogger("distributed.client")
    before = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(before)


def on_worker(name: str, key: str, make: Callable[[], Found]) -> Found:
    """Return a value that this worker keeps between tasks; called from a task.

    A worker keeps one value for each ``name``: that of the last ``key``, such as the examples of
    the fit in progress.
    """
    kept: dict[str, tuple[str, Any]] = get_worker().__dict__.setdefault("rembrandt_values", {})
    if name not in kept or kept[name][0] != key:
        kept.pop(name, None)  # the old value is freed before the new one is made
        kept[name] = key, make()
    found: Found = kept[name][1]
    return found


def _forget(names: Sequence[str], dask_worker: Any) -> None:
    for name in names:
        dask_worker.__dict__.get("rembrandt_values", {}).pop(name, None)


class DaskExecutor(Executor):
    """Computes runs of shards, and shares of independent pieces, on the workers of a cluster."""

    def __init__(self, client: Client) -> None:
        super().__init__()
        self.client = client
        self.address = client.scheduler.address
        self._sent: dict[type, tuple[Any, _Copies]] = {}  # the last value broadcast of each type
        self._workers()  # waits for the first worker

    def total(self, product: str | Product, data: Data, block: Any) -> Array:
        with self.tally.one_pass():
            return self._retry(lambda: self._total(product, data, block))

    def in_shares(self, task: Task, pieces: Sequence[Any], *shared: Any) -> list[Any]:
        with self.tally.one_pass():
            return self._retry(lambda: self._in_shares(task, pieces, shared))

    def forget(self, *names: str) -> None:
        """Free the values that workers keep under these names; see `on_worker`."""
        self.client.run(_forget, names, on_error="return")

    def _total(self, product: str | Product, data: Data, block: Any) -> Array:
        workers, n = self._workers(), len(data.runs)
        shared = self._broadcast(data)
        sent = None if block is None else self._scatter(block, workers)
        owner = [workers[run * len(workers) // n] for run in range(n)]
        runs = [self._submit(owner[run], partial, product, shared, run, sent) for run in range(n)]
        total, moved = self._tree(runs, owner, 0, n)
        found: Array = total.result()
        self.tally.between += moved * found.nbytes
        self.tally.gathered += found.nbytes
        return found

    def _tree(self, runs: list[Any], owner: list[str], first: int, last: int) -> tuple[Any, int]:
        """Sum the runs as `tree_sum` does, each addition on the worker that has the left operand.

        Also return how many partial sums move from one worker to another.
        """
        if last - first == 1:
            return runs[first], 0
        middle = first + tree_cut(last - first)
        (left, before), (right, after) = (
            self._tree(runs, owner, *part) for part in ((first, middle), (middle, last))
        )
        moved = before + after + (owner[first] != owner[middle])
        return self._submit(owner[first], operator.add, left, right), moved

    def _in_shares(self, task: Task, pieces: Sequence[Any], shared: tuple[Any, ...]) -> list[Any]:
        workers = self._workers()
        sent = [self._broadcast(value) for value in shared]
        futures = []
        for worker, run in zip(workers, cut_in_runs(len(pieces), len(workers)), strict=False):
            part = self._scatter(_Pieces([pieces[i] for i in run]), [worker])
            futures.append(self._submit(worker, _share, part, task, *sent))
        found = self.client.gather(futures)
        self.tally.gathered += _nbytes(found)
        return [one for share in found for one in share]

    def _submit(self, worker: str, task: Callable[..., Any], *arguments: Any) -> Any:
        """Submit a task to a worker, with that worker's copy of each broadcast argument."""
        own = [
            argument[worker] if isinstance(argument, _Copies) else argument
            for argument in arguments
        ]
        # The worker is a preference: the task of a dead worker moves to another one.
        return self.client.submit(
            task, *own, workers=[worker], allow_other_workers=True, pure=False
        )

    def _broadcast(self, value: Any) -> _Copies:
        """Copy a value to every worker, once as long as it is the same object."""
        kind, workers = type(value), self._workers()
        if (
            kind not in self._sent
            or self._sent[kind][0] is not value
            or not self._sent[kind][1].keys() >= set(workers)
        ):
            self._sent[kind] = (value, self._scatter(value, workers))
        return self._sent[kind][1]

    def _scatter(self, value: Any, workers: list[str]) -> _Copies:
        """Copy a value to these workers, in parallel."""
        size = _nbytes(value)
        if size:
            self.tally.broadcasts += 1
            self.tally.sent += size * len(workers)
        loop: Any = self.client.loop
        waiting = asyncio.run_coroutine_threadsafe(
            self._scatter_each(value, workers), loop.asyncio_loop
        )
        while True:
            try:
                return _Copies(zip(workers, waiting.result(SEND_CHECK), strict=True))
            except OSError as error:
                # A send to a worker that died may wait forever without an error.
                alive = None if waiting.done() else self._alive()
                if alive is None or not set(workers) <= set(alive):
                    waiting.cancel()
                    raise CommClosedError("a worker was lost while data was sent to it") from error

    async def _scatter_each(self, value: Any, workers: list[str]) -> list[Any]:
        # One call per worker: a scheduler that broadcasts to a lost worker retries forever.
        return await asyncio.gather(
            *(self.client._scatter(value, workers=[one], hash=False) for one in workers)
        )

    def _workers(self) -> list[str]:
        """Return the addresses of the workers, sorted."""
        found = self.client.scheduler_info(n_workers=-1).get("workers")
        if not found:
            if self._alive() is None:
                raise CommClosedError("the scheduler does not answer")
            self.client.wait_for_workers(1, timeout=WORKER_TIMEOUT)
            found = self.client.scheduler_info(n_workers=-1)["workers"]
        return sorted(found)

    def _retry(self, attempt: Callable[[], Found]) -> Found:
        """Return the result of ``attempt``, repeated when a worker was lost with data that it
        needed.
        """
        for left in reversed(range(ATTEMPTS)):
            try:
                return attempt()
            except _LOST as error:
                self._sent.clear()
                if self._alive() is None:
                    raise EngineError(
                        f"the Dask scheduler at {self.address} is gone ({type(error).__name__}); "
                        "start a scheduler and "
                        "workers, and run the same command with its address: finished stages in a "
                        "checkpoint are kept"
                    ) from error
                if left == 0:
                    raise EngineError(
                        f"workers of {self.address} were lost {ATTEMPTS} times in one product "
                        f"({error}); see their "
                        "logs. Memory is the usual reason: smaller shards or fewer components need "
                        "less"
                    ) from error
                time.sleep(PAUSE * (ATTEMPTS - left))  # until the scheduler has noticed the loss
        raise AssertionError("the last attempt has returned or raised")

    def _alive(self) -> list[str] | None:
        """Return the workers that the scheduler knows now; None when it does not answer."""
        try:
            if self.client.status != "running":
                return None
            known = self.client.sync(
                self.client.scheduler.identity, n_workers=-1, callback_timeout=ANSWER_TIMEOUT
            )
        except (OSError, TimeoutError, CancelledError, RuntimeError):
            return None
        return list(known["workers"])


class _Copies(dict[str, Any]):
    """Futures of a value's copies, by worker."""


@dataclass(frozen=True)
class _Pieces:
    """The pieces of one worker; Dask would send a plain list piece by piece."""

    pieces: list[Any]


def _share(part: _Pieces, task: Task, *shared: Any) -> list[Any]:
    return list(task(part.pieces, *shared))


def _nbytes(value: Any) -> int:
    """Return the size of the arrays in a value."""
    if isinstance(value, tuple | list):
        return sum(map(_nbytes, value))
    if isinstance(value, sparse.csr_array):
        return int(value.data.nbytes + value.indices.nbytes + value.indptr.nbytes)
    if is_dataclass(value) and not isinstance(value, Data):  # shards are read by the workers
        return sum(_nbytes(getattr(value, part.name)) for part in fields(value))
    return int(getattr(value, "nbytes", 0))
