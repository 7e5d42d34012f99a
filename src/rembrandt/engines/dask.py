"""Shards on the workers of a Dask cluster, as futures of ``dask.distributed``.

Two cuts. *Rows*: every worker has its runs of shards; a block goes to all of them, and what comes back is added up in
the same tree as in one process, so the bits are the same for any number of workers. *Columns*: every worker goes
through all shards for its share of a block's columns; nothing is broadcast, and as columns of a regression are
independent, a whole solve happens on the worker and only ``c × k / W`` numbers travel each way.

Work of a worker that dies is done again by the others. Workers must see the store under the same path.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from rembrandt.engines.shard_products import Data, Product, partial, projected
from rembrandt.engines.shards import ShardedEngine, Sums, Task, Work, cut_in_runs, tree_cut, tree_sum
from rembrandt.engines.tally import Tally
from rembrandt.errors import EngineError, SettingsError
from rembrandt.linalg.blocks import spans

try:
    from distributed import Client, LocalCluster
    from distributed.comm.core import CommClosedError
    from distributed.scheduler import KilledWorker, NoValidWorkerError
except ImportError as cause:
    raise SettingsError("a Dask cluster needs more packages: pip install 'rembrandt[dask]'") from cause

Array = NDArray[Any]
Cut = Literal["auto", "rows", "columns"]
Found = TypeVar("Found")

CUTS: tuple[Cut, ...] = ("auto", "rows", "columns")
ATTEMPTS = 4  # at a product, before a cluster that keeps losing its workers is given up
TIMEOUT = 30  # seconds for a scheduler to answer
ANSWER = 10  # seconds for one that is busy
LOOK = 3  # seconds of sending after which to look whether whom it is sent to is there
PAUSE = 0.5  # seconds before the next attempt, and as much more before each one after it
PATIENCE = 60  # seconds to wait for a worker when there is none
ROOM = 0.5  # of a worker's memory that shards and their layouts may take for columns to be the better cut
_LOST = (KilledWorker, NoValidWorkerError, CancelledError, CommClosedError, TimeoutError)


@contextmanager
def cluster(scheduler: str | None = None, workers: int | None = None, timeout: float | None = None) -> Iterator[Client]:
    """The cluster of this scheduler, or a small one in processes of this machine, which ends with the block."""
    if scheduler is not None:
        try:
            client = Client(scheduler, timeout=timeout or TIMEOUT, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            raise EngineError(
                f"no Dask scheduler answers at {scheduler} ({error}); start one with: dask scheduler"
            ) from error
        with client, _quiet():
            yield client
        return
    cores = len(os.sched_getaffinity(0))
    workers = workers or min(2, cores)
    threads = str(max(1, cores // workers))
    with (
        LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            dashboard_address=":0",
            env={"REMBRANDT_NUM_THREADS": threads},
        ) as local,
        Client(local, set_as_default=False) as client,
        _quiet(),
    ):
        yield client


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the tracebacks that a client logs when it loses its scheduler: ours is a sentence."""
    log = logging.getLogger("distributed.client")
    before = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(before)


class DaskExecutor:
    """Runs, or columns, on the workers of a cluster."""

    def __init__(self, client: Client, cut: Cut = "auto", size: int = 0) -> None:
        """``size``: bytes that all shards and their layouts take, by which "auto" decides."""
        if cut not in CUTS:
            raise SettingsError(f"cut={cut!r} is none of {', '.join(CUTS)}")
        self.client = client
        self.tally = Tally()
        self.address = client.scheduler.address
        self._workers()  # waits for the first of them
        limits = [one["memory_limit"] or 0 for one in client.scheduler_info(n_workers=-1)["workers"].values()]
        fits = len(limits) > 1 and size <= ROOM * min(limits)
        self.cut: Cut = ("columns" if fits else "rows") if cut == "auto" else cut
        self._sent: dict[type, tuple[Any, _Sent]] = {}  # what was broadcast last, and its copies

    @property
    def spreads(self) -> bool:
        return self.cut == "columns"

    def total(self, product: str | Product, data: Data, block: Any) -> Array:
        if self.spreads and isinstance(block, np.ndarray) and block.shape[1] > 1:
            parts = self._survive(lambda: self._columns(_whole_product, block, product, self._broadcast(data)))
            return np.hstack(parts)
        return self._survive(lambda: self._rows(product, data, block))

    def each(self, data: Data, block: Array) -> Iterator[Array]:
        for number in range(len(data.shards)):
            yield self._survive(functools.partial(self._project, data, number, block))

    def spread(self, work: Work, engine: ShardedEngine, block: Array, *more: Any) -> list[Any]:
        if not self.spreads:
            return [work(engine, block, *more)]
        return self._survive(
            lambda: self._columns(
                _elsewhere, block, self._broadcast(work), self._broadcast(engine.data), engine.sums, *more
            )
        )

    def in_shares(self, task: Task, pieces: Sequence[Any], *shared: Any) -> list[Any]:
        return self._survive(lambda: self._shares(task, pieces, shared))

    def _shares(self, task: Task, pieces: Sequence[Any], shared: tuple[Any, ...]) -> list[Any]:
        workers = self._workers()
        sent = [self._broadcast(value) for value in shared]
        futures = []
        for worker, run in zip(workers, cut_in_runs(len(pieces), len(workers)), strict=False):
            part = self._scatter(_Pieces([pieces[i] for i in run]), [worker])
            futures.append(self._submit(worker, _share, part, task, *sent))
        found = self.client.gather(futures)
        self.tally.gathered += _nbytes(found)
        return [one for share in found for one in share]

    def _rows(self, product: str | Product, data: Data, block: Any) -> Array:
        workers, n = self._workers(), len(data.runs)
        shared = self._broadcast(data)
        sent = None if block is None else self._scatter(block, workers)
        owner = [workers[run * len(workers) // n] for run in range(n)]
        runs = [self._submit(owner[run], partial, product, shared, run, sent) for run in range(n)]
        found: Array = self._tree(runs, owner, 0, n).result()
        self.tally.between += _crossings(owner, 0, n) * found.nbytes
        self.tally.gathered += found.nbytes
        return found

    def _tree(self, runs: list[Any], owner: list[str], first: int, last: int) -> Any:
        """The sum of runs as a future, in the order of `tree_sum`, each addition where its left part is."""
        if last - first == 1:
            return runs[first]
        middle = first + tree_cut(last - first)
        left, right = self._tree(runs, owner, first, middle), self._tree(runs, owner, middle, last)
        return self._submit(owner[first], _add, left, right)

    def _columns(self, task: Callable[..., Any], block: Array, *rest: Any) -> list[Any]:
        workers = self._workers()
        step = -(-block.shape[1] // len(workers))
        futures = []
        for worker, columns in zip(workers, spans(block.shape[1], step), strict=False):
            part = self._scatter(np.ascontiguousarray(block[:, columns]), [worker])
            futures.append(self._submit(worker, task, part, *rest))
        found = self.client.gather(futures)
        self.tally.gathered += _nbytes(found)
        return list(found)

    def _project(self, data: Data, number: int, block: Array) -> Array:
        workers = self._workers()
        owner = workers[number * len(workers) // len(data.shards)]
        found: Array = self._submit(owner, projected, self._broadcast(data), number, self._broadcast(block)).result()
        self.tally.gathered += found.nbytes
        return found

    def _submit(self, worker: str, task: Callable[..., Any], *arguments: Any) -> Any:
        """A future of ``task``; of what was sent to several workers it gets this one's copy."""
        own = [argument[worker] if isinstance(argument, _Sent) else argument for argument in arguments]
        # A preference, not an order: what a dead worker was to do goes to another.
        return self.client.submit(task, *own, workers=[worker], allow_other_workers=True, pure=False)

    def _broadcast(self, value: Any) -> _Sent:
        """Something that every worker needs, sent once for as long as it is the same thing."""
        kind, workers = type(value), self._workers()
        if kind not in self._sent or self._sent[kind][0] is not value or not self._sent[kind][1].keys() >= set(workers):
            self._sent[kind] = (value, self._scatter(value, workers))
        return self._sent[kind][1]

    def _scatter(self, value: Any, workers: list[str]) -> _Sent:
        """A copy of ``value`` on each of the workers, side by side."""
        size = _nbytes(value)
        if size:
            self.tally.broadcasts += 1
            self.tally.sent += size * len(workers)
        loop: Any = self.client.loop
        waiting = asyncio.run_coroutine_threadsafe(self._copies(value, workers), loop.asyncio_loop)
        while True:
            try:
                return _Sent(zip(workers, waiting.result(LOOK), strict=True))
            except OSError as error:
                # Long, or for ever: nobody says that a worker died on the way.
                alive = None if waiting.done() else self._alive()
                if alive is None or not set(workers) <= set(alive):
                    waiting.cancel()
                    raise CommClosedError("a worker was lost while something was sent to it") from error

    async def _copies(self, value: Any, workers: list[str]) -> list[Any]:
        # One by one: a scheduler that is told to broadcast to a worker that is gone tries for ever.
        return await asyncio.gather(*(self.client._scatter(value, workers=[one], hash=False) for one in workers))

    def _workers(self) -> list[str]:
        """The workers, in an order that does not change while they live."""
        found = self.client.scheduler_info(n_workers=-1).get("workers")
        if not found:
            if not self._scheduler_lives():
                raise CommClosedError("the scheduler does not answer")
            self.client.wait_for_workers(1, timeout=PATIENCE)
            found = self.client.scheduler_info(n_workers=-1)["workers"]
        return sorted(found)

    def _survive(self, attempt: Callable[[], Found]) -> Found:
        """The result of ``attempt``, made again where the data it had sent was lost with a worker."""
        for left in reversed(range(ATTEMPTS)):
            try:
                return attempt()
            except _LOST as error:
                self._sent.clear()
                if not self._scheduler_lives():
                    raise EngineError(
                        f"the Dask scheduler at {self.address} is gone ({type(error).__name__}); start one and its "
                        "workers again, and give the same command with its address: what a checkpoint kept is not done "
                        "again"
                    ) from error
                if left == 0:
                    raise EngineError(
                        f"workers of {self.address} were lost {ATTEMPTS} times in one product ({error}); look at their "
                        "logs, memory is the usual reason: smaller shards or fewer components need less"
                    ) from error
                time.sleep(PAUSE * (ATTEMPTS - left))  # until everybody knows who is gone
        raise AssertionError("the last attempt has returned or raised")

    def _scheduler_lives(self) -> bool:
        return self._alive() is not None

    def _alive(self) -> list[str] | None:
        """The workers that the scheduler knows now; None where it does not answer."""
        try:
            if self.client.status != "running":
                return None
            known = self.client.sync(self.client.scheduler.identity, n_workers=-1, callback_timeout=ANSWER)
        except (OSError, TimeoutError, CancelledError, RuntimeError):
            return None
        return list(known["workers"])


def _crossings(owner: list[str], first: int, last: int) -> int:
    """How many partial sums the tree takes from one worker to another."""
    if last - first == 1:
        return 0
    middle = first + tree_cut(last - first)
    return _crossings(owner, first, middle) + _crossings(owner, middle, last) + (owner[first] != owner[middle])


def _add(left: Array, right: Array) -> Array:
    return left + right


def _whole_product(block: Array, product: str, data: Data) -> Array:
    """A product of all shards, for a few columns."""
    return tree_sum(lambda run: partial(product, data, run, block), 0, len(data.runs))


def _elsewhere(block: Array, work: Work, data: Data, sums: Sums, *more: Any) -> Any:
    return work(ShardedEngine.elsewhere(data, sums), block, *more)


class _Sent(dict[str, Any]):
    """The copies of something on workers, as futures."""


@dataclass(frozen=True)
class _Pieces:
    """What one worker is to work on; a list would be sent piece by piece."""

    pieces: list[Any]

    @property
    def nbytes(self) -> int:
        return _nbytes(self.pieces)


def _share(part: _Pieces, task: Task, *shared: Any) -> list[Any]:
    return list(task(part.pieces, *shared))


def _nbytes(value: Any) -> int:
    """The size of the arrays in it."""
    if isinstance(value, tuple | list):
        return sum(map(_nbytes, value))
    return int(getattr(value, "nbytes", 0))
