"""The steps of a logistic fit with independent labels on the workers of a cluster.

Independent labels share only their features, the order of the rows and when to stop. A worker takes
whole epochs for some blocks of labels: their weights are sent to it and come back, and it projects
the rows into a file of its own. Softmax needs the scores of all labels for every row, and stays in
one process.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from rembrandt.engines.dask import on_worker
from rembrandt.engines.descent import LogisticProblem, NumpyDescent
from rembrandt.engines.projected import (
    ProjectedRows,
    Projection,
    label_blocks,
    relative,
    rows_on_disk,
    whitened,
    whole,
)
from rembrandt.engines.shard_products import Data, opened
from rembrandt.linalg import Array, Indices
from rembrandt.linalg.blocks import Block


@dataclass(frozen=True)
class _Fit:
    """What does not change between epochs; sent once to every worker."""

    key: str
    problem: LogisticProblem  # without rows and labels, which a worker reads itself


@dataclass(frozen=True)
class _Order:
    """The batches of an epoch, or the rows of an evaluation."""

    rows: Array
    kept: list[Array | None]
    scale: float


class SharedDescent(NumpyDescent):
    """Blocks of labels on workers; between epochs the weights are in this process."""

    def __init__(self, problem: LogisticProblem) -> None:
        H: ProjectedRows = problem.H
        blocks = label_blocks(H.X.store.c)
        super().__init__(problem, None, blocks)
        self.H = H
        self.executor = H.executor
        without_rows = replace(
            problem,
            H=None,
            Y=sparse.csr_array((0, 0)),
            # The batch depends on the number of all labels, and a worker sees some of them.
            settings=replace(problem.settings, batch=self.batch),
        )
        self.fit = _Fit(_key(H, problem), without_rows)

    def epoch(self, order: Indices, kept: list[Indices | None], scale: float) -> None:
        results = self._on_workers(
            _epoch,
            self._pieces(self.Q, self.velocity),
            _Order(order, kept, scale),
        )
        self.mean = np.empty_like(self.Q)
        while results:
            # Taken off the list, so that each copy is freed.
            Q, velocity, mean = results.pop()
            labels = self.label_blocks[len(results)]
            self.Q[:, labels] = Q
            self.velocity[:, labels] = velocity
            self.mean[:, labels] = mean

    def losses(self, rows: Indices) -> list[float]:
        order = _Order(rows, kept=[], scale=0.0)
        return self._on_workers(_losses, self._pieces(self.mean), order)

    def result(self) -> tuple[Block, Block]:
        self.executor.forget("features", "labels")
        return super().result()

    def _pieces(self, *blocks: Array) -> list[Any]:
        """Return each block of labels with a copy of its columns."""
        return [(labels, *_columns(labels, *blocks)) for labels in self.label_blocks]

    def _on_workers(self, task: Any, pieces: list[Any], order: _Order) -> list[Any]:
        H = self.H
        return self.executor.in_shares(task, pieces, H.data, H.projection, self.fit, order)


def _key(H: ProjectedRows, problem: LogisticProblem) -> str:
    """Return a name for the features of a fit, under which workers keep them."""
    shard_keys = "".join(shard.key for shard in H.data.shards)
    digest = hashlib.sha256(shard_keys.encode())
    arrays = (H.projection.W, H.projection.V, problem.whitening.T)
    for array in arrays:
        if array is not None:
            contiguous = np.ascontiguousarray(array)
            digest.update(contiguous.data)
    return digest.hexdigest()


def _epoch(
    pieces: Sequence[tuple[slice, Array, Array]],
    data: Data,
    seen: Projection,
    fit: _Fit,
    order: _Order,
) -> list[tuple[Array, ...]]:
    """Take an epoch for the labels of ``pieces``; return their weights, velocities and mean
    iterates.
    """
    label_slices = [labels for labels, _, _ in pieces]
    weights = [Q for _, Q, _ in pieces]
    velocities = [velocity for _, _, velocity in pieces]
    descent = _descent(label_slices, data, seen, fit)
    descent.Q = np.hstack(weights)
    descent.velocity = np.hstack(velocities)
    descent.epoch(order.rows, order.kept, order.scale)
    results = []
    for labels in descent.label_blocks:
        columns = _columns(labels, descent.Q, descent.velocity, descent.mean)
        results.append(columns)
    return results


def _losses(
    pieces: Sequence[tuple[slice, Array]],
    data: Data,
    seen: Projection,
    fit: _Fit,
    order: _Order,
) -> list[float]:
    """Return the weighted total loss on the rows of ``order`` for each of ``pieces``."""
    label_slices = [labels for labels, _ in pieces]
    means = [mean for _, mean in pieces]
    descent = _descent(label_slices, data, seen, fit)
    descent.mean = np.hstack(means)
    return descent.losses(order.rows)


def _columns(labels: slice, *blocks: Array) -> tuple[Array, ...]:
    """Copy the columns of these labels."""
    return tuple(np.ascontiguousarray(block[:, labels]) for block in blocks)


def _descent(
    blocks: Sequence[slice],
    data: Data,
    seen: Projection,
    fit: _Fit,
) -> NumpyDescent:
    """Return the descent of consecutive blocks of labels on this worker."""
    problem = fit.problem
    labels = whole(blocks)

    def read_features() -> Any:
        return whitened(problem.whitening, rows_on_disk(data, seen))

    def read_labels() -> sparse.csr_array:
        return _labels(data, labels)

    F = on_worker("features", fit.key, read_features)
    Y = on_worker("labels", f"{fit.key} {labels}", read_labels)
    block_problem = replace(problem, Y=Y, rates=problem.rates[labels])
    return NumpyDescent(block_problem, F, relative(blocks))


def _labels(data: Data, labels: slice) -> sparse.csr_array:
    """Read the columns of these labels from all shards."""
    blocks = []
    for shard in opened(data):
        columns = shard.Y.A[:, labels]
        blocks.append(columns.copy())
    Y = sparse.vstack(blocks, format="csr")
    return sparse.csr_array(Y)
