"""Logistic decoding of a store: features of a batch are made when it comes up, and labels go to different machines.

Independent labels share nothing but their features, the order of the rows and when to stop. So a machine that has some
of the labels takes a whole epoch with them: their weights go there and come back, the rows it projects itself, into a
file of its own. Softmax needs the scores of all labels for every row, and stays in one process.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.decoders.descent import LogisticSettings, NumpyDescent
from rembrandt.decoders.whitening import MappedRows, Whitening, all_features
from rembrandt.engines.place import CPU
from rembrandt.engines.projected import ProjectedRows, Projection, label_blocks, rows_on_disk, whole
from rembrandt.engines.rows_on_disk import RowsOnDisk
from rembrandt.engines.shard_products import Data, opened
from rembrandt.linalg.blocks import Block

Array = NDArray[Any]

IN_MEMORY = 1 << 30  # bytes of whitened features of a store that are made once; more are made anew in each epoch


def features_of(whitening: Whitening, H: Block) -> Any:
    """The whitened features of all rows: in memory, but for many rows of a store."""
    if isinstance(H, ProjectedRows):
        H = H.on_disk()
    if isinstance(H, RowsOnDisk) and 4 * len(H) * (whitening.size + 1) > IN_MEMORY:
        return MappedRows(whitening, H)
    return all_features(whitening, H, CPU)


@dataclass(frozen=True)
class _Fit:
    """What stays the same from epoch to epoch; what a worker needs to know once."""

    key: str
    whitening: Whitening
    w: Array
    rates: Array
    settings: LogisticSettings
    batch: int

    @property
    def nbytes(self) -> int:
        return int(self.whitening.mean.nbytes + self.whitening.T.nbytes + self.w.nbytes + self.rates.nbytes)


@dataclass(frozen=True)
class _Order:
    """The batches of an epoch, or rows to measure on."""

    rows: Array
    kept: list[Array | None]
    scale: float

    @property
    def nbytes(self) -> int:
        return int(self.rows.nbytes + sum(0 if kept is None else kept.nbytes for kept in self.kept))


class SharedDescent(NumpyDescent):
    """Independent labels on several machines, in blocks; the weights are here between epochs."""

    def __init__(
        self, H: ProjectedRows, whitening: Whitening, w: Array, rates: Array, settings: LogisticSettings, n_train: int
    ) -> None:
        batch, none = settings.batch_of(n_train, H.n_labels), sparse.csr_array((0, 0))
        super().__init__(whitening, None, none, w, rates, settings, batch, label_blocks(H.n_labels))
        self.H = H
        digest = hashlib.sha256("".join(shard.key for shard in H.data.shards).encode())
        for array in (H.projection.W, H.projection.V, whitening.T):
            digest.update(b"" if array is None else np.ascontiguousarray(array).data)
        self.fit = _Fit(digest.hexdigest(), whitening, w, rates, settings, batch)

    def epoch(self, order: NDArray[np.int64], kept: list[NDArray[np.int64] | None], scale: float) -> None:
        pieces = [(part, *_columns(part, self.Q, self.velocity)) for part in self.parts]
        found = self._shared(_epoch, pieces, _Order(order, kept, scale))
        del pieces
        self.mean = np.empty_like(self.Q)
        while found:  # what was copied is let go of
            Q, velocity, mean = found.pop()
            part = self.parts[len(found)]
            self.Q[:, part], self.velocity[:, part], self.mean[:, part] = Q, velocity, mean

    def losses(self, rows: NDArray[np.int64]) -> list[float]:
        pieces = [(part, *_columns(part, self.mean)) for part in self.parts]
        return self._shared(_losses, pieces, _Order(rows, [], 0.0))

    def result(self) -> tuple[Block, Block]:
        self.H.executor.in_shares(_forget, list(self.parts))
        return super().result()

    def _shared(self, task: Any, pieces: list[Any], order: _Order) -> list[Any]:
        with self.H.executor.tally.one_pass():
            return self.H.executor.in_shares(task, pieces, self.H.data, self.H.projection, self.fit, order)


def _epoch(
    pieces: Sequence[tuple[slice, Array, Array]], data: Data, seen: Projection, fit: _Fit, order: _Order
) -> list[tuple[Array, ...]]:
    """An epoch of the labels of ``pieces``: weights, velocities and the mean of the iterates of each."""
    descent = _of_labels([part for part, *_ in pieces], data, seen, fit)
    descent.Q = np.hstack([Q for _, Q, _ in pieces])
    descent.velocity = np.hstack([velocity for _, _, velocity in pieces])
    descent.epoch(order.rows, order.kept, order.scale)
    return [_columns(part, descent.Q, descent.velocity, descent.mean) for part in descent.parts]


def _losses(
    pieces: Sequence[tuple[slice, Array]], data: Data, seen: Projection, fit: _Fit, order: _Order
) -> list[float]:
    descent = _of_labels([part for part, _ in pieces], data, seen, fit)
    descent.mean = np.hstack([mean for _, mean in pieces])
    return descent.losses(order.rows)


def _columns(part: slice, *blocks: Array) -> tuple[Array, ...]:
    return tuple(np.ascontiguousarray(block[:, part]) for block in blocks)


def _of_labels(parts: Sequence[slice], data: Data, seen: Projection, fit: _Fit) -> NumpyDescent:
    """The descent of neighbouring blocks of labels, on all rows."""
    labels = whole(parts)
    own = [slice(part.start - labels.start, part.stop - labels.start) for part in parts]
    F, Y = _rows.features(data, seen, fit), _rows.truth(data, labels, fit)
    return NumpyDescent(fit.whitening, F, Y, fit.w, fit.rates[labels], fit.settings, fit.batch, own)


class _Rows:
    """What this process keeps of the fit it works on: the features of all rows, and its share of their labels."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self.key, self.F = "", None
        self.labels: tuple[str, slice] = "", slice(0)
        self.Y: Any = None

    def features(self, data: Data, seen: Projection, fit: _Fit) -> Any:
        if self.key != fit.key:
            self.forget()
            self.key, self.F = fit.key, features_of(fit.whitening, rows_on_disk(data, seen))
        return self.F

    def truth(self, data: Data, labels: slice, fit: _Fit) -> sparse.csr_array:
        if self.labels != (fit.key, labels):
            found = [shard.Y.A[:, labels].copy() for shard in opened(data)]
            self.Y, self.labels = sparse.csr_array(sparse.vstack(found, format="csr")), (fit.key, labels)
        return self.Y


_rows = _Rows()


def _forget(pieces: Sequence[slice]) -> list[None]:
    """The fit is done, and what this process kept for it goes."""
    _rows.forget()
    return [None for _ in pieces]
