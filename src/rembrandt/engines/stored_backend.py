"""Places for stores: this process, one shard after the other, or a Dask cluster."""

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from rembrandt import memory
from rembrandt.data.rows import Rows
from rembrandt.data.stored import StoredRows
from rembrandt.engines.backend import CPU, Backend
from rembrandt.engines.descent import Descent, LogisticProblem, NumpyDescent
from rembrandt.engines.hinge import HingeSolver, LocalHinge, OnDisk, SharedHinge, StoredExamples
from rembrandt.engines.projected import IN_MEMORY, ProjectedRows, data_of, label_blocks, whitened
from rembrandt.engines.protocol import Engine
from rembrandt.engines.shards import Executor, ShardedEngine, Tally
from rembrandt.engines.statistics import RidgeStatistics
from rembrandt.errors import SettingsError
from rembrandt.features.fourier import FourierMap
from rembrandt.linalg import Array, Indices
from rembrandt.linalg.blocks import Block
from rembrandt.progress import Report, silent

_DASK = re.compile(r"dask(?::(?P<scheduler>[^?]+))?(?:\?workers=(?P<workers>[0-9]+))?")


def stored_backend(device: str) -> "StoredBackend":
    """Return the backend of a device for a store."""
    if device in ("cpu", "auto"):
        return StoredBackend()
    match = _DASK.fullmatch(device)
    if match is None:
        raise SettingsError(
            f"device={device!r} takes no store; use 'cpu', 'dask' or 'dask:tcp://host:port', or "
            "give a file",
            "device",
        )
    workers = None
    if match["workers"] is not None:
        workers = int(match["workers"])
    return DaskBackend(scheduler=match["scheduler"], workers=workers)


@dataclass(frozen=True)
class StoredBackend(Backend):
    """This process, over the shards of a store. Labels and weights are those of the store."""

    weight_copies: ClassVar[int] = 5  # copies of a logistic decoder's weights in memory at a time

    def in_memory(self) -> Backend:
        return CPU

    def _engine(
        self, rows: Rows, Y: sparse.csr_array, weights: Array | None, row_power: float
    ) -> Engine:
        X = _checked(rows, Y, weights)
        data = replace(data_of(X), columns=X.columns, row_power=row_power)
        return ShardedEngine(data, self.executor("embedding"))

    def project(self, rows: Rows, W: Block) -> Block:
        assert isinstance(rows, StoredRows)
        return ProjectedRows.of(rows, W, self.executor("decoder"))

    def leverages(self, rows: Rows, weights: Array | None, root: Block) -> None:
        return None

    def leave_out(
        self, H: Block, share: Any, Y: sparse.csr_array, V: Block, row_power: float = 0.0
    ) -> Block:
        return H.left_out(share, Y, V, row_power)

    def statistics(
        self,
        H: Block,
        Y: sparse.csr_array | None,
        fourier: FourierMap | None,
        weights: Array | None,
        report: Report = silent,
    ) -> RidgeStatistics:
        statistics: RidgeStatistics = H.statistics(fourier, Y is not None, report)
        return statistics

    def descent(self, problem: LogisticProblem) -> Descent:
        F = whitened(problem.whitening, problem.H.on_disk())
        if problem.settings.multiclass:
            return NumpyDescent(problem, F)
        # Independent labels go in the blocks that workers would have, so that the bits are the
        # same.
        return NumpyDescent(problem, F, label_blocks(problem.Y.shape[1]))

    def hinge(self, rows: Rows, order: Indices) -> HingeSolver:
        assert isinstance(rows, StoredRows)
        return LocalHinge(OnDisk(rows, order))

    def check_memory(self, shape: memory.Shape, independent: bool) -> int:
        return memory.check(replace(shape, features=IN_MEMORY, copies=self.weight_copies))

    def executor(self, stage: str) -> Executor:
        """Return the executor of a stage of the fit, which counts its work."""
        executor = self._executor()
        executor.tally = self.tallies.setdefault(stage, Tally())
        return executor

    def _executor(self) -> Executor:
        return Executor()


@dataclass(frozen=True)
class DaskBackend(StoredBackend):
    """A Dask cluster, over the shards of a store; connected on first use, until the outermost
    `session` ends.
    """

    scheduler: str | None = None
    workers: int | None = None
    weight_copies: ClassVar[int] = 9
    _open: list[tuple[ExitStack, Executor]] = field(default_factory=list, compare=False)
    _sessions: list[None] = field(default_factory=list, compare=False)

    @contextmanager
    def session(self) -> Iterator[None]:
        self._sessions.append(None)
        try:
            yield
        finally:
            self._sessions.pop()
            while self._open and not self._sessions:
                connection, _ = self._open.pop()
                connection.close()

    def descent(self, problem: LogisticProblem) -> Descent:
        if problem.settings.multiclass:
            # Every step needs the scores of all labels.
            return super().descent(problem)
        from rembrandt.engines.shared_descent import SharedDescent

        return SharedDescent(problem)

    def hinge(self, rows: Rows, order: Indices) -> HingeSolver:
        assert isinstance(rows, StoredRows)
        return SharedHinge(self.executor("trees"), StoredExamples.of(rows, order), rows.shape[1])

    def _executor(self) -> Executor:
        from rembrandt.engines.dask import DaskExecutor, cluster

        if not self._open:
            with ExitStack() as stack:
                client = stack.enter_context(cluster(self.scheduler, self.workers))
                self._open.append((stack.pop_all(), DaskExecutor(client)))
        _, executor = self._open[0]
        return executor


def _same_weights(weights: Array | None, stored: Array | None) -> bool:
    """Return whether weights are those of the store; it may have none."""
    if weights is None or stored is None:
        return weights is stored
    return bool(np.array_equal(weights, stored))


def _checked(rows: Rows, Y: sparse.csr_array, weights: Array | None) -> StoredRows:
    """Refuse labels, weights or features that are not the store's: the shards hold them."""
    assert isinstance(rows, StoredRows)
    n_entries = sum(shard.entry.nonzeros[1] for shard in rows.store.shards)
    same_labels = Y.shape[1] == rows.store.c and Y.nnz == n_entries
    if not same_labels or not _same_weights(weights, rows.store.weights()):
        raise SettingsError(
            "a store is fitted with its own labels and weights; convert the data again to change "
            "them"
        )
    if not rows.keeps_entries():
        raise SettingsError(
            "a store is fitted with its own features; convert the data again to change them"
        )
    return rows
