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

Value = TypeVar("Value")

# Attempts per product, before a cluster that keeps losing workers is given up.
ATTEMPTS = 4
# Seconds to connect to a scheduler.
TIMEOUT = 30
# Seconds for a busy scheduler to answer.
ANSWER_TIMEOUT = 10
# Seconds of sending after which the receivers are checked.
SEND_CHECK = 3
# Seconds of waiting for a result after which scheduler and workers are checked.
RESULT_CHECK = 20
# Seconds before the next attempt, growing with each one.
PAUSE = 0.5
# Seconds to wait for a worker where there is none.
WORKER_TIMEOUT = 45
# What is raised when a worker or the scheduler is lost.
_LOST = (KilledWorker, NoValidWorkerError, CancelledError, CommClosedError, TimeoutError)


@contextmanager
def cluster(
    scheduler: str | None = None, workers: int | None = None, timeout: float | None = None
) -> Iterator[Client]:
    """Connect to a scheduler, or start processes on this machine that end with the block."""
    if scheduler is not None:
        with _quiet(), _connect(scheduler, timeout or TIMEOUT) as client:
            yield client
        return
    workers = workers or min(2, cpu_count())
    threads = str(max(1, cpu_count() // workers))
    with (
        _quiet(),
        LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            dashboard_address="127.0.0.1:0",
            env={"REMBRANDT_NUM_THREADS": threads},
        ) as local,
        Client(local, set_as_default=False) as client,
    ):
        yield client


def _connect(scheduler: str, timeout: float) -> Client:
    """Connect to a scheduler."""
    if scheduler.startswith("tls:"):
        arguments = Security().get_connection_args("client")
        if arguments["ssl_context"] is None:
            raise EngineError(
                f"{scheduler} needs certificates: set distributed.comm.tls in the configuration of "
                "Dask"
            )
    try:
        return Client(scheduler, timeout=timeout, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise EngineError(
            f"no Dask scheduler answers at {scheduler} ({error}); start one with: dask scheduler"
        ) from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Hide the tracebacks that a client logs when it loses its scheduler, also while it is closed;
    `EngineError` reports the loss.
    """
    log = logging.getLogger("distributed.client")
    before = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(before)


def on_worker(name: str, key: str, make: Callable[[], Value]) -> Value:
    """Return a value that this worker keeps between tasks; called from a task.

    A worker keeps one value for each ``name``: that of the last ``key``, such as the examples of
    the fit in progress.
    """
    kept: dict[str, tuple[str, Any]] = get_worker().__dict__.setdefault("rembrandt_values", {})
    if name not in kept or kept[name][0] != key:
        # The old value is freed before the new one is made.
        kept.pop(name, None)
        kept[name] = (key, make())
    value: Value = kept[name][1]
    return value


def _forget(names: Sequence[str], dask_worker: Any) -> None:
    """Free the values of these names on a worker."""
    kept = dask_worker.__dict__.get("rembrandt_values", {})
    for name in names:
        kept.pop(name, None)


class DaskExecutor(Executor):
    """Computes runs of shards, and shares of independent pieces, on the workers of a cluster."""

    def __init__(self, client: Client) -> None:
        super().__init__()
        self.client = client
        self.address = client.scheduler.address
        # The last value broadcast of each type, and its copies.
        self._sent: dict[type, tuple[Any, _Copies]] = {}
        # Waits for the first worker.
        self._workers()

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
        workers = self._workers()
        n_runs = len(data.runs)
        data_copies = self._broadcast(data, workers)
        block_copies = None
        if block is not None:
            block_copies = self._scatter(block, workers)
        owners = [workers[run * len(workers) // n_runs] for run in range(n_runs)]
        partial_sums = [
            self._submit(owner, partial, product, data_copies, run, block_copies)
            for run, owner in enumerate(owners)
        ]
        future, n_moved = self._tree(partial_sums, owners, 0, n_runs)
        total: Array = self._result(future)
        self.tally.between += n_moved * total.nbytes
        self.tally.gathered += total.nbytes
        return total

    def _tree(self, runs: list[Any], owners: list[str], first: int, last: int) -> tuple[Any, int]:
        """Sum the runs as `tree_sum` does, each addition on the worker that has the left operand.

        Also return how many partial sums move from one worker to another.
        """
        if last - first == 1:
            return runs[first], 0
        middle = first + tree_cut(last - first)
        left, left_moved = self._tree(runs, owners, first, middle)
        right, right_moved = self._tree(runs, owners, middle, last)
        n_moved = left_moved + right_moved
        if owners[first] != owners[middle]:
            n_moved += 1
        return self._submit(owners[first], operator.add, left, right), n_moved

    def _in_shares(self, task: Task, pieces: Sequence[Any], shared: tuple[Any, ...]) -> list[Any]:
        workers = self._workers()
        shared_copies = [self._broadcast(value, workers) for value in shared]
        runs = cut_in_runs(len(pieces), len(workers))
        futures = []
        # There may be fewer runs than workers.
        for worker, run in zip(workers, runs, strict=False):
            share = _Pieces([pieces[number] for number in run])
            copies = self._scatter(share, [worker])
            futures.append(self._submit(worker, _share, copies, task, *shared_copies))
        shares = [self._result(future) for future in futures]
        self.tally.gathered += _nbytes(shares)
        return [result for share in shares for result in share]

    def _result(self, future: Any) -> Any:
        """Wait for a result as long as there are workers; without them it would never come."""
        while True:
            try:
                return future.result(timeout=RESULT_CHECK)
            except TimeoutError:
                if future.status == "error":  # raised by the task itself
                    raise
                if not future.done() and not self._alive():
                    raise CommClosedError("no worker is left to compute a result") from None

    def _submit(self, worker: str, task: Callable[..., Any], *arguments: Any) -> Any:
        """Submit a task to a worker, with that worker's copy of each broadcast argument."""
        local_arguments = []
        for argument in arguments:
            if isinstance(argument, _Copies):
                argument = argument[worker]
            local_arguments.append(argument)
        # The worker is a preference: the task of a dead worker moves to another one.
        return self.client.submit(
            task, *local_arguments, workers=[worker], allow_other_workers=True, pure=False
        )

    def _broadcast(self, value: Any, workers: list[str]) -> _Copies:
        """Copy a value to these workers, once as long as it is the same object."""
        sent_value, copies = self._sent.get(type(value), (None, _Copies()))
        if sent_value is not value or not copies.keys() >= set(workers):
            copies = self._scatter(value, workers)
            self._sent[type(value)] = (value, copies)
        return copies

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
            except (OSError, KeyError) as error:
                # A send to a worker that died may wait forever without an error. The scheduler
                # raises a KeyError for one that it has just removed.
                alive = None
                if not waiting.done():
                    alive = self._alive()
                if alive is None or not set(workers) <= set(alive):
                    waiting.cancel()
                    raise CommClosedError("a worker was lost while data was sent to it") from error

    async def _scatter_each(self, value: Any, workers: list[str]) -> list[Any]:
        # One call per worker: a scheduler that broadcasts to a lost worker retries forever.
        calls = [self.client._scatter(value, workers=[worker], hash=False) for worker in workers]
        return await asyncio.gather(*calls)

    def _workers(self) -> list[str]:
        """Return the addresses of the workers, sorted."""
        workers = self.client.scheduler_info(n_workers=-1).get("workers")
        if not workers:
            if self._alive() is None:
                raise CommClosedError("the scheduler does not answer")
            try:
                self.client.wait_for_workers(1, timeout=WORKER_TIMEOUT)
            except TimeoutError as error:
                raise EngineError(
                    f"the Dask scheduler at {self.address} has had no workers for "
                    f"{WORKER_TIMEOUT} seconds; start some, and run the same command again: "
                    "finished stages in a checkpoint are kept"
                ) from error
            workers = self.client.scheduler_info(n_workers=-1)["workers"]
        return sorted(workers)

    def _retry(self, attempt: Callable[[], Value]) -> Value:
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
                        "start a scheduler and workers, and run the same command with its "
                        "address: finished stages in a checkpoint are kept"
                    ) from error
                if left == 0:
                    raise EngineError(
                        f"workers of {self.address} were lost {ATTEMPTS} times in one product "
                        f"({error}); see their logs. Memory is the usual reason: smaller shards "
                        "or fewer components need less"
                    ) from error
                # Until the scheduler has noticed the loss.
                time.sleep(PAUSE * (ATTEMPTS - left))
        raise AssertionError("the last attempt has returned or raised")

    def _alive(self) -> list[str] | None:
        """Return the workers that the scheduler knows now; None when it does not answer."""
        try:
            if self.client.status != "running":
                return None
            identity = self.client.sync(
                self.client.scheduler.identity, n_workers=-1, callback_timeout=ANSWER_TIMEOUT
            )
        except (OSError, TimeoutError, CancelledError, RuntimeError):
            return None
        return list(identity["workers"])


class _Copies(dict[str, Any]):
    """Futures of a value's copies, by worker."""


@dataclass(frozen=True)
class _Pieces:
    """The pieces of one worker; Dask would send a plain list piece by piece."""

    pieces: list[Any]


def _share(share: _Pieces, task: Task, *shared: Any) -> list[Any]:
    """Call a task for the pieces of this worker."""
    return list(task(share.pieces, *shared))


def _nbytes(value: Any) -> int:
    """Return the size of the arrays in a value."""
    if isinstance(value, tuple | list):
        return sum(map(_nbytes, value))
    if isinstance(value, sparse.csr_array):
        return int(value.data.nbytes + value.indices.nbytes + value.indptr.nbytes)
    if is_dataclass(value) and not isinstance(value, Data):
        # Not of `Data`: its shards are read by the workers.
        return sum(_nbytes(getattr(value, member.name)) for member in fields(value))
    return int(getattr(value, "nbytes", 0))
