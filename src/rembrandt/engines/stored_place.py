"""Where stores are worked on: this process, shard after shard, or a Dask cluster.

``dask`` is a cluster of processes on this machine, ``dask:tcp://host:8786`` the one of that scheduler;
``?cut=rows`` or ``?cut=columns`` after it settles what is shared out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.data.stored import StoredRows
from rembrandt.engines.place import CpuPlace
from rembrandt.engines.projected import ProjectedRows
from rembrandt.engines.protocol import Engine
from rembrandt.engines.shards import Executor, LocalExecutor, ShardedEngine
from rembrandt.engines.tally import Tally
from rembrandt.errors import SettingsError
from rembrandt.linalg.blocks import Block
from rembrandt.linalg.sparse import Matrix

_DASK = re.compile(r"dask(?::(?P<scheduler>[^?]+))?(?:\?(?:cut=(?P<cut>[a-z]+)|workers=(?P<workers>[0-9]+)|&)*)?")


def is_dask(device: str) -> bool:
    """Whether this device is a Dask cluster."""
    return isinstance(device, str) and device.partition(":")[0].partition("?")[0] == "dask"


def stored_place(device: str) -> StoredPlace:
    """The place for a store that a user names."""
    if device in ("cpu", "auto"):
        return StoredPlace()
    match = _DASK.fullmatch(device) if isinstance(device, str) else None
    if match is None:
        raise SettingsError(
            f"device={device!r} takes no store; use 'cpu', 'dask' or 'dask:tcp://host:port', or give a file"
        )
    workers = match["workers"]
    return DaskPlace(
        scheduler=match["scheduler"], cut=match["cut"] or "auto", workers=None if workers is None else int(workers)
    )


@dataclass(frozen=True)
class StoredPlace(CpuPlace):
    """This process, over the shards of a store."""

    tallies: dict[str, Tally] = field(default_factory=dict, compare=False)  # what each stage of a fit took

    @property
    def tally(self) -> Tally | None:
        """Of the embedding."""
        return self.tallies.get("embedding")

    def engine(self, X: Matrix, Y: sparse.csr_array, weights: NDArray[Any] | None, center: bool) -> Engine:
        _check_own(X, Y, weights)
        return ShardedEngine(
            X.store.shards,
            X.store.d,
            X.store.c,
            executor=self.executor(X, "embedding"),
            columns=X.columns,
            normalize=X.is_normalized,
            constant=not center,
            center_features=center,
            center_labels=center,
        )

    def project(self, X: Matrix, W: Block) -> Block:
        if not isinstance(X, StoredRows):
            return super().project(X, W)
        return ProjectedRows.of(X, W, self.executor(X, "decoder"))

    def executor(self, X: StoredRows, stage: str) -> Executor:
        """Who does a stage of the fit, and counts what it takes."""
        executor = self._executor(X)
        executor.tally = self.tallies.setdefault(stage, Tally())
        return executor

    def _executor(self, X: StoredRows) -> Executor:
        return LocalExecutor()


@dataclass(frozen=True)
class DaskPlace(StoredPlace):
    """A Dask cluster, over the shards of a store; it is there from when it is first needed to the end of ``held``."""

    scheduler: str | None = None
    cut: str = "auto"
    workers: int | None = None
    _open: list[tuple[ExitStack, Executor]] = field(default_factory=list, compare=False)
    _holds: list[None] = field(default_factory=list, compare=False)

    @contextmanager
    def held(self) -> Iterator[None]:
        self._holds.append(None)
        try:
            yield
        finally:
            self._holds.pop()
            while self._open and not self._holds:
                self._open.pop()[0].close()

    def exactly(self) -> AbstractContextManager[None]:
        return self.held()

    def _executor(self, X: StoredRows) -> Executor:
        from rembrandt.engines.dask import DaskExecutor, cluster

        if not self._open:
            with ExitStack() as stack:
                client = stack.enter_context(cluster(self.scheduler, self.workers))
                size = sum(shard.entry.bytes for shard in X.store.shards)
                cut: Any = self.cut
                executor = DaskExecutor(client, cut, 2 * size)  # with the layouts by columns
                self._open.append((stack.pop_all(), executor))
        return self._open[0][1]


def _check_own(X: Matrix, Y: sparse.csr_array, weights: NDArray[Any] | None) -> None:
    """Refuse labels or weights that are not the store's: the shards hold them, and nothing else is looked at."""
    own = X.store.weights()
    same = weights is None if own is None else weights is not None and np.array_equal(weights, own)
    if not same or Y.shape[1] != X.store.c or Y.nnz != sum(shard.entry.nonzeros[1] for shard in X.store.shards):
        raise SettingsError("a store is fitted with its own labels and weights; convert the data again to change them")
    if not X.keeps_entries():
        raise SettingsError("a store is fitted over its own features; convert the data again to change them")
