"""Rows of a store as a decoder sees them, computed from the shards on access.

A row is projected, part of its own labels is taken out, and it is mapped: ``φ((xW − s yV) / (1 −
s))``. Sums over rows go by runs of shards, as every product does; what is independent for each
label goes by blocks of labels, each of which sees all rows in order on one machine. Neither depends
on the number of machines.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.data.stored import StoredRows
from rembrandt.engines.rows_on_disk import HostRows, RowsOnDisk
from rembrandt.engines.scaling import with_scaled_rows
from rembrandt.engines.shard_products import Data, OpenShard, opened
from rembrandt.engines.shards import Executor
from rembrandt.engines.statistics import RidgeStatistics
from rembrandt.engines.whitening import WhitenedRows, Whitening
from rembrandt.features.fourier import FourierMap
from rembrandt.forks import cached_property
from rembrandt.linalg import Array
from rembrandt.linalg.blocks import spans
from rembrandt.linalg.sparse import csr_matmul, project, scale_rows
from rembrandt.linalg.transposed import Transposed
from rembrandt.progress import Report

# Rows of a shard that are mapped at a time: bounds the mapped features in memory.
MAPPED_BLOCK_ROWS = 8192
# Blocks of labels: at most as many machines share what is independent for each label.
LABEL_BLOCKS = 8
# Labels of a block, at most: bounds what is sent to a worker at a time.
MAX_BLOCK_LABELS = 4096
# Bytes of whitened features that are kept; beyond that they are computed in each epoch.
IN_MEMORY = 1 << 30


@dataclass(frozen=True)
class Projection:
    """How rows of a shard become rows of a decoder; sent once to every worker."""

    W: Array  # (d + 1) × k, the row of the constant last
    V: Array | None = None  # c × k, when part of a row's own labels is taken out
    share: float = 0.0
    row_power: float = 0.0  # of the number of a row's labels, by which they are divided
    fourier: FourierMap | None = None

    @property
    def size(self) -> int:
        """Number of features after the map."""
        if self.fourier is None:
            return int(self.W.shape[1])
        return self.fourier.size

    def left_out(self, H: Array, Y: sparse.csr_array) -> Array:
        """Take the rows' own labels out of their projection."""
        if self.V is None:
            return H
        scaled_labels = with_scaled_rows(Y, self.row_power)
        embedded_labels = csr_matmul(scaled_labels, self.V)
        others = H - self.share * embedded_labels
        without: Array = others / (1 - self.share)
        return without.astype(H.dtype, copy=False)

    def blocks(self, shard: OpenShard) -> Iterator[tuple[slice, Array]]:
        """Iterate over the mapped rows of a shard."""
        for rows in spans(shard.n, MAPPED_BLOCK_ROWS):
            projected = shard.X.rows(rows).times(self.W)
            block = self.left_out(projected, shard.Y.A[rows])
            if self.fourier is not None:
                block = self.fourier(block)
            yield rows, block


@dataclass(frozen=True)
class ProjectedRows(HostRows):
    """The rows of a store as a decoder sees them; ``H[rows]`` computes some of them in this
    process.
    """

    X: StoredRows
    projection: Projection
    executor: Executor
    Y: sparse.csr_array | None = None  # when part of it is taken out

    @classmethod
    def of(cls, X: StoredRows, W: Array, executor: Executor) -> ProjectedRows:
        W = np.ascontiguousarray(W, dtype=cls.dtype)
        return cls(X, Projection(W), executor)

    @cached_property
    def data(self) -> Data:
        return data_of(self.X)

    @property
    def shape(self) -> tuple[int, int]:
        k = int(self.projection.W.shape[1])
        return len(self.X), k

    def left_out(
        self,
        share: float,
        Y: sparse.csr_array,
        V: Array,
        row_power: float = 0.0,
    ) -> ProjectedRows:
        """Take ``share`` of a row's own labels, ``Y``, out of its projection."""
        projection = replace(
            self.projection,
            V=np.ascontiguousarray(V, dtype=self.dtype),
            share=share,
            row_power=row_power,
        )
        return replace(self, Y=Y, projection=projection)

    def statistics(
        self, fourier: FourierMap | None, labels: bool, report: Report
    ) -> RidgeStatistics:
        """Compute the moments of the mapped rows and, with ``labels``, their products with the
        store's labels.
        """
        projection = replace(self.projection, fourier=fourier)
        report("ridge decoder", 0, 2)
        moments = self.executor.total(_moments, self.data, projection)
        report("ridge decoder", 1, 2)
        n_labels = 0
        if labels:
            n_labels = self.X.store.c
        cross, counts = self._label_products(projection, n_labels)
        report("ridge decoder", 2, 2)
        # The constant of `_moments` is last: its products are the sums.
        return RidgeStatistics.of_sums(
            total=float(moments[-1, -1]),
            sums=moments[-1, :-1],
            gram=moments[:-1, :-1],
            label_sums=counts,
            cross=cross,
            fourier=fourier,
        )

    def _label_products(self, projection: Projection, n_labels: int) -> tuple[Array, Array]:
        """Return ``YᵀDΦ`` and the weighted count of each label."""
        cross = np.empty((n_labels, projection.size), dtype=self.dtype)
        counts = np.empty(n_labels)
        if n_labels == 0:
            return cross, counts
        blocks = label_blocks(n_labels)
        results = self.executor.in_shares(_cross, blocks, self.data, projection)
        while results:
            # Taken off the list, so that each copy is freed.
            block_cross, block_counts = results.pop()
            block = blocks[len(results)]
            cross[block] = block_cross
            counts[block] = block_counts
        return cross, counts

    @cached_property
    def mean_square(self) -> float:
        """Mean squared length of a row."""
        squares = self.executor.total(_squares, self.data, self.projection)
        n_rows = max(1, len(self))
        return float(squares[0]) / n_rows

    def on_disk(self) -> RowsOnDisk:
        """Write all rows, unmapped, to a temporary file of this process."""
        return rows_on_disk(self.data, self.projection)

    def __len__(self) -> int:
        return len(self.X)

    def __getitem__(self, rows: Any) -> NDArray[np.float32]:
        H = project(self.X[rows], self.projection.W)
        if self.Y is None:
            return H
        return self.projection.left_out(H, self.Y[rows])


def data_of(X: StoredRows) -> Data:
    """Describe the shards of a store, with all features and a constant one."""
    return Data(
        shards=X.store.shards,
        n_features=X.store.d,
        n_labels=X.store.c,
        normalize=X.is_normalized,
        constant=True,
    )


def rows_on_disk(data: Data, seen: Projection) -> RowsOnDisk:
    """Write the rows of all shards to a temporary file; the bits are the same in every process."""
    n = sum(shard.n for shard in data.shards)

    def blocks() -> Iterator[Array]:
        for shard in opened(data):
            for _, block in seen.blocks(shard):
                yield block

    return RowsOnDisk(n, seen.size, blocks())


def whitened(whitening: Whitening, H: RowsOnDisk) -> Any:
    """Return the whitened features of rows on disk: in memory, or computed on access when they are
    too large.
    """
    n_columns = whitening.size + 1
    n_bytes = 4 * len(H) * n_columns
    if n_bytes > IN_MEMORY:
        return WhitenedRows(whitening, H)
    return whitening.all_rows(H)


def label_blocks(c: int) -> list[slice]:
    """Cut labels into blocks that depend on their number alone."""
    equal_share = -(-c // LABEL_BLOCKS)
    width = max(1, min(MAX_BLOCK_LABELS, equal_share))
    return list(spans(c, width))


def whole(blocks: Sequence[slice]) -> slice:
    """Join consecutive blocks."""
    return slice(blocks[0].start, blocks[-1].stop)


def relative(blocks: Sequence[slice]) -> list[slice]:
    """Return consecutive blocks as slices of what `whole` selects."""
    first = blocks[0].start
    return [slice(block.start - first, block.stop - first) for block in blocks]


def _moments(shard: OpenShard, seen: Projection, out: Array | None) -> Array:
    """``out + [Φ, 1]ᵀ D [Φ, 1]`` in float64."""
    width = seen.size + 1
    if out is None:
        out = np.zeros((width, width))
    for rows, Phi in seen.blocks(shard):
        with_constant = np.ones((len(Phi), width))
        with_constant[:, :-1] = Phi
        if shard.weights is not None:
            roots = np.sqrt(shard.weights[rows].astype(np.float64))
            with_constant *= roots[:, None]
        out += with_constant.T @ with_constant
    return out


def _squares(shard: OpenShard, seen: Projection, out: Array | None) -> Array:
    """``out +`` the sum of squares of a shard's rows."""
    squares = []
    for _, H in seen.blocks(shard):
        of_block = np.einsum("ij,ij->", H, H, dtype=np.float64)
        squares.append(float(of_block))
    total = sum(squares)
    if out is None:
        return np.array([total])
    return out + total


def _cross(blocks: Sequence[slice], data: Data, seen: Projection) -> list[tuple[Array, Array]]:
    """``YᵀDΦ`` and the weighted counts of each block of labels, in one pass over all rows."""
    labels = whole(blocks)
    n_labels = labels.stop - labels.start
    cross = np.zeros((n_labels, seen.size), dtype=np.float32)
    counts = np.zeros(n_labels)
    for shard in opened(data):
        Y = shard.Y.A
        if n_labels < data.n_labels:
            Y = Y[:, labels]
        if shard.weights is not None:
            Y = scale_rows(Y, shard.weights)
        weights = Y.data.astype(np.float64)
        counts += np.bincount(Y.indices, weights, n_labels)
        for rows, Phi in seen.blocks(shard):
            Transposed.of(Y[rows]).add_to(cross, Phi)
    return [(cross[block], counts[block]) for block in relative(blocks)]
