"""Where stores are worked on: this process, shard after shard, or a Dask cluster.

``dask`` is a cluster of processes on this machine, ``dask:tcp://host:8786`` the one of that scheduler;
``?cut=rows`` or ``?cut=columns`` after it settles what is shared out.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import array_api_compat.numpy
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.data.stored import StoredRows
from rembrandt.engines.place import CpuPlace
from rembrandt.engines.protocol import Engine
from rembrandt.engines.shards import Executor, ShardedEngine, Tally
from rembrandt.errors import SettingsError
from rembrandt.linalg.blocks import Block, spans
from rembrandt.linalg.sparse import Matrix, project

_DASK = re.compile(r"dask(?::(?P<scheduler>[^?]+))?(?:\?(?:cut=(?P<cut>[a-z]+)|workers=(?P<workers>[0-9]+)|&)*)?")
ROWS = 65_536  # rows of a block on disk that are in memory at a time


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


class StoredPlace(CpuPlace):
    """This process, over the shards of a store."""

    tally: Tally | None = None  # of the last engine

    def engine(self, X: Matrix, Y: sparse.csr_array, weights: NDArray[Any] | None, center: bool) -> Engine:
        _check_own(X, Y, weights)
        engine = ShardedEngine(
            X.store.shards,
            X.store.d,
            X.store.c,
            executor=self._executor(X),
            columns=X.columns,
            normalize=X.is_normalized,
            constant=not center,
            center_features=center,
            center_labels=center,
        )
        object.__setattr__(self, "tally", engine.tally)
        return engine

    def project(self, X: Matrix, W: Block) -> Block:
        if not isinstance(X, StoredRows):
            return super().project(X, W)
        return RowsOnDisk.written(X.shape[0], W.shape[1], lambda rows: project(X[rows], W))

    def _executor(self, X: StoredRows) -> Executor | None:
        return None


@dataclass(frozen=True)
class DaskPlace(StoredPlace):
    """A Dask cluster, over the shards of a store; it is there from the first engine to the end of ``exactly``."""

    scheduler: str | None = None
    cut: str = "auto"
    workers: int | None = None
    device: str = "cpu"
    _open: list[ExitStack] = field(default_factory=list, compare=False)

    @contextmanager
    def exactly(self) -> Iterator[None]:
        try:
            yield
        finally:
            while self._open:
                self._open.pop().close()

    def _executor(self, X: StoredRows) -> Executor | None:
        from rembrandt.engines.dask import DaskExecutor, cluster

        stack = ExitStack()
        self._open.append(stack)
        client = stack.enter_context(cluster(self.scheduler, self.workers))
        size = sum(shard.entry.bytes for shard in X.store.shards)
        cut: Any = self.cut
        return DaskExecutor(client, cut, 2 * size)  # with the layouts by columns


def _check_own(X: Matrix, Y: sparse.csr_array, weights: NDArray[Any] | None) -> None:
    """Refuse labels or weights that are not the store's: the shards hold them, and nothing else is looked at."""
    own = X.store.weights()
    same = weights is None if own is None else weights is not None and np.array_equal(weights, own)
    if not same or Y.shape[1] != X.store.c or Y.nnz != sum(shard.entry.nonzeros[1] for shard in X.store.shards):
        raise SettingsError("a store is fitted with its own labels and weights; convert the data again to change them")
    if X.is_moved:
        raise SettingsError("a store is fitted over its own features; convert the data again to change them")


class RowsOnDisk:
    """A block as long as the data, in a file of its own that goes with it; ``H[rows]`` reads some of it."""

    device = "cpu"
    dtype = np.dtype(np.float32)

    def __init__(self, n: int, width: int) -> None:
        self.shape = (n, width)
        self._file = tempfile.TemporaryFile(prefix="rembrandt-rows-")  # noqa: SIM115 - open for as long as the block is

    @classmethod
    def written(cls, n: int, width: int, block: Callable[[slice], Block]) -> RowsOnDisk:
        """The rows that ``block`` gives for each span of them."""
        self = cls(n, width)
        for rows in spans(n, ROWS):
            np.ascontiguousarray(block(rows), dtype=self.dtype).tofile(self._file)
        self._file.flush()
        return self

    def mapped(self, change: Callable[[slice, Block], Block]) -> RowsOnDisk:
        """Another block, of each span of rows changed."""
        return self.written(*self.shape, lambda rows: change(rows, self[rows]))

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        return array_api_compat.numpy

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> NDArray[np.float32]:
        n, width = self.shape
        if isinstance(rows, slice) and rows.step in (None, 1):
            start, stop, _ = rows.indices(n)
            self._file.seek(4 * width * start)
            return np.fromfile(self._file, self.dtype, max(0, stop - start) * width).reshape(-1, width)
        chosen = np.arange(n)[rows]
        mapped = np.memmap(self._file, self.dtype, "r", shape=self.shape)
        return np.array(mapped[chosen])
