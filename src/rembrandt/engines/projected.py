"""Rows of a store as a decoder sees them, computed from the shards on access.

A row is projected, part of its own labels is taken out, and it is mapped: ``φ((xW − s yV) / (1 −
s))``. Sums over rows go by runs of shards, as every product does; what is independent for each
label goes by blocks of labels, each of which sees all rows in order on one machine. Neither depends
on the number of machines.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
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
from rembrandt.linalg import Array
from rembrandt.linalg.blocks import spans
from rembrandt.linalg.sparse import csr_matmul, project, scale_rows
from rembrandt.linalg.transposed import Transposed
from rembrandt.progress import Report

ROWS = 8192  # of a shard that are mapped at a time
BLOCKS = 8  # of labels: at most as many machines share what is independent for each label
WIDEST = 4096  # labels of a block, at most
IN_MEMORY = (
    1 << 30
)  # bytes of whitened features that are kept; beyond that they are computed in each epoch


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
        return int(self.W.shape[1]) if self.fourier is None else self.fourier.size

    def left_out(self, H: Array, Y: sparse.csr_array) -> Array:
        """Take the rows' own labels out of their projection."""
        if self.V is None:
            return H
        left: Array = (H - self.share * csr_matmul(with_scaled_rows(Y, self.row_power), self.V)) / (
            1 - self.share
        )
        return left.astype(H.dtype, copy=False)

    def blocks(self, shard: OpenShard) -> Iterator[tuple[slice, Array]]:
        """Iterate over the mapped rows of a shard."""
        for rows in spans(shard.n, ROWS):
            H = self.left_out(shard.X.rows(rows).times(self.W), shard.Y.A[rows])
            yield rows, H if self.fourier is None else self.fourier(H)


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
        return cls(X, Projection(np.ascontiguousarray(W, dtype=cls.dtype)), executor)

    @cached_property
    def data(self) -> Data:
        return data_of(self.X)

    @property
    def shape(self) -> tuple[int, int]:
        return self.X.shape[0], int(self.projection.W.shape[1])

    def left_out(
        self, share: float, Y: sparse.csr_array, V: Array, row_power: float = 0.0
    ) -> ProjectedRows:
        """Take ``share`` of a row's own labels, ``Y``, out of its projection."""
        V = np.ascontiguousarray(V, dtype=self.dtype)
        return replace(
            self, Y=Y, projection=replace(self.projection, V=V, share=share, row_power=row_power)
        )

    def statistics(
        self, fourier: FourierMap | None, labels: bool, report: Report
    ) -> RidgeStatistics:
        """Compute the moments of the mapped rows and, with ``labels``, their products with the
        store's labels.
        """
        seen = replace(self.projection, fourier=fourier)
        D, c = seen.size, self.X.store.c if labels else 0
        report("ridge decoder", 0, 2)
        moments = self.executor.total(_moments, self.data, seen)
        report("ridge decoder", 1, 2)
        cross, counts = np.empty((c, D), dtype=self.dtype), np.empty(c)
        if labels:
            blocks = label_blocks(c)
            found = self.executor.in_shares(_cross, blocks, self.data, seen)
            while found:  # frees each copy
                block = blocks[len(found) - 1]
                cross[block], counts[block] = found.pop()
        report("ridge decoder", 2, 2)
        return RidgeStatistics.of_sums(
            float(moments[-1, -1]), moments[-1, :-1], moments[:-1, :-1], counts, cross, fourier
        )

    @cached_property
    def mean_square(self) -> float:
        """Mean squared length of a row."""
        return float(self.executor.total(_squares, self.data, self.projection)[0]) / max(
            1, self.shape[0]
        )

    def on_disk(self) -> RowsOnDisk:
        """Write all rows, unmapped, to a temporary file of this process."""
        return rows_on_disk(self.data, self.projection)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> NDArray[np.float32]:
        H = project(self.X[rows], self.projection.W)
        return H if self.Y is None else self.projection.left_out(H, self.Y[rows])


def data_of(X: StoredRows) -> Data:
    """Describe the shards of a store, with all features and a constant one."""
    return Data(X.store.shards, X.store.d, X.store.c, normalize=X.is_normalized, constant=True)


def rows_on_disk(data: Data, seen: Projection) -> RowsOnDisk:
    """Write the rows of all shards to a temporary file; the bits are the same in every process."""
    n = sum(shard.n for shard in data.shards)
    return RowsOnDisk(n, seen.size, (H for shard in opened(data) for _, H in seen.blocks(shard)))


def whitened(whitening: Whitening, H: RowsOnDisk) -> Any:
    """Return the whitened features of rows on disk: in memory, or computed on access when they are
    too large.
    """
    large = 4 * len(H) * (whitening.size + 1) > IN_MEMORY
    return WhitenedRows(whitening, H) if large else whitening.all_rows(H)


def label_blocks(c: int) -> list[slice]:
    """Cut labels into blocks that depend on their number alone."""
    return list(spans(c, max(1, min(WIDEST, -(-c // BLOCKS)))))


def whole(blocks: Sequence[slice]) -> slice:
    """Join consecutive blocks."""
    return slice(blocks[0].start, blocks[-1].stop)


def _moments(shard: OpenShard, seen: Projection, out: Array | None) -> Array:
    """``out + [Φ, 1]ᵀ D [Φ, 1]`` in float64."""
    if out is None:
        out = np.zeros((seen.size + 1, seen.size + 1))
    for rows, Phi in seen.blocks(shard):
        wide = np.ones((len(Phi), seen.size + 1))
        wide[:, :-1] = Phi
        if shard.weights is not None:
            wide *= np.sqrt(shard.weights[rows].astype(np.float64))[:, None]
        out += wide.T @ wide
    return out


def _squares(shard: OpenShard, seen: Projection, out: Array | None) -> Array:
    """``out +`` the sum of squares of a shard's rows."""
    found = sum(float(np.einsum("ij,ij->", H, H, dtype=np.float64)) for _, H in seen.blocks(shard))
    return np.array([found]) if out is None else out + found


def _cross(blocks: Sequence[slice], data: Data, seen: Projection) -> list[tuple[Array, Array]]:
    """``YᵀDΦ`` and the weighted counts of each block of labels, in one pass over all rows."""
    labels = whole(blocks)
    cross = np.zeros((labels.stop - labels.start, seen.size), dtype=np.float32)
    counts = np.zeros(len(cross))
    for shard in opened(data):
        Y = shard.Y.A[:, labels] if len(cross) < data.n_labels else shard.Y.A
        Y = Y if shard.weights is None else scale_rows(Y, shard.weights)
        counts += np.bincount(Y.indices, Y.data.astype(np.float64), len(cross))
        for rows, Phi in seen.blocks(shard):
            Transposed.of(Y[rows]).add_to(cross, Phi)
    own = [slice(block.start - labels.start, block.stop - labels.start) for block in blocks]
    return [(cross[block], counts[block]) for block in own]
