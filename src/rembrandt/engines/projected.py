"""Rows of a store as a decoder sees them, made from the shards when they are asked for: nothing as long as the data.

A row is projected, what it knows of its own labels is taken out, and it is mapped: ``φ((xW − s yV) / (1 − s))``. Sums
over rows go by runs of shards, as every product does; what is apart for each label goes by blocks of labels, each of
which sees all rows in order on one machine. Neither depends on how many machines there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import array_api_compat.numpy
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.data.stored import StoredRows
from rembrandt.engines.rows_on_disk import RowsOnDisk
from rembrandt.engines.shard_products import Data, OpenShard, opened
from rembrandt.engines.shards import RUNS, Executor, cut_in_runs
from rembrandt.features.fourier import FourierMap
from rembrandt.linalg.blocks import spans
from rembrandt.linalg.sparse import csr_matmul, project

Array = NDArray[Any]

ROWS = 8192  # of a shard that are mapped at a time
BLOCKS = 8  # of labels, each as wide as any other; as many machines can share what is apart for each label
WIDEST = 4096  # labels of a block, at most


@dataclass(frozen=True)
class Projection:
    """What turns rows of a shard into a decoder's; what a worker needs to know once."""

    W: Array  # (d + 1) × k, the constant's row last
    V: Array | None = None  # c × k, where some of a row's own labels is taken out
    share: float = 0.0
    fourier: FourierMap | None = None

    @property
    def size(self) -> int:
        """How many features come out."""
        return int(self.W.shape[1]) if self.fourier is None else self.fourier.size

    @property
    def nbytes(self) -> int:
        more = () if self.fourier is None else (self.fourier.frequencies, self.fourier.offsets)
        return sum(part.nbytes for part in (self.W, self.V, *more) if part is not None)

    def left_out(self, H: Array, Y: sparse.csr_array) -> Array:
        """Projected rows without what they know of their own labels."""
        if self.V is None:
            return H
        left: Array = (H - self.share * csr_matmul(Y, self.V)) / (1 - self.share)
        return left.astype(H.dtype, copy=False)

    def blocks(self, shard: OpenShard) -> Iterator[tuple[slice, Array]]:
        """The mapped rows of a shard, some at a time."""
        for rows in spans(shard.n, ROWS):
            H = self.left_out(shard.X.rows(rows).times(self.W), shard.Y.A[rows])
            yield rows, H if self.fourier is None else self.fourier(H)


def moments(shard: OpenShard, seen: Projection, out: Array | None) -> Array:
    """``out + [Φ, 1]ᵀ D [Φ, 1]`` in float64: the Gram matrix, the sum and the weight of a shard's mapped rows."""
    if out is None:
        out = np.zeros((seen.size + 1, seen.size + 1))
    for rows, Phi in seen.blocks(shard):
        wide = np.ones((len(Phi), seen.size + 1))
        wide[:, :-1] = Phi
        if shard.weights is not None:
            wide *= np.sqrt(shard.weights[rows].astype(np.float64))[:, None]
        out += wide.T @ wide
    return out


@dataclass(frozen=True)
class ProjectedRows:
    """The rows of a store as a decoder sees them; ``H[rows]`` makes some of them here."""

    X: StoredRows
    projection: Projection
    executor: Executor
    Y: sparse.csr_array | None = None  # where some of it is taken out
    device = "cpu"
    dtype = np.dtype(np.float32)

    @classmethod
    def of(cls, X: StoredRows, W: Array, executor: Executor) -> ProjectedRows:
        return cls(X, Projection(np.ascontiguousarray(W, dtype=cls.dtype)), executor)

    @cached_property
    def data(self) -> Data:
        store = self.X.store
        runs = cut_in_runs(len(store.shards), RUNS)
        return Data(store.shards, store.d, store.c, runs, normalize=self.X.is_normalized, constant=True)

    @property
    def shape(self) -> tuple[int, int]:
        return self.X.shape[0], int(self.projection.W.shape[1])

    @property
    def n_labels(self) -> int:
        return self.X.store.c

    def left_out(self, share: float, Y: sparse.csr_array, V: Array) -> ProjectedRows:
        """The same without ``share`` of what a row knows of its own labels, which are ``Y``."""
        V = np.ascontiguousarray(V, dtype=self.dtype)
        return replace(self, Y=Y, projection=replace(self.projection, V=V, share=share))

    def seen(self, fourier: FourierMap | None) -> Projection:
        """How rows become what a decoder with this map sees."""
        return self.projection if fourier is None else replace(self.projection, fourier=fourier)

    def moments(self, fourier: FourierMap | None = None) -> Array:
        """``[Φ, 1]ᵀ D [Φ, 1]`` of all rows, in float64."""
        return self.executor.total(moments, self.data, self.seen(fourier))

    @cached_property
    def mean_square(self) -> float:
        """The mean squared length of a row."""
        with self.executor.tally.one_pass():
            return float(self.executor.total(squares, self.data, self.projection)[0]) / max(1, self.shape[0])

    def on_disk(self) -> RowsOnDisk:
        """All of them, unmapped, in a file of this process."""
        return rows_on_disk(self.data, self.projection)

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        return array_api_compat.numpy

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> NDArray[np.float32]:
        H = project(self.X[rows], self.projection.W)
        return H if self.Y is None else self.projection.left_out(H, self.Y[rows])


def rows_on_disk(data: Data, seen: Projection) -> RowsOnDisk:
    """The rows of all shards, in a file of this process: the same bits in every one."""
    n = sum(shard.n for shard in data.shards)
    return RowsOnDisk.streamed(n, seen.size, (H for shard in opened(data) for _, H in seen.blocks(shard)))


def squares(shard: OpenShard, seen: Projection, out: Array | None) -> Array:
    """``out +`` the sum of the squares of a shard's rows."""
    found = sum(float(np.einsum("ij,ij->", H, H, dtype=np.float64)) for _, H in seen.blocks(shard))
    return np.array([found]) if out is None else out + found


def label_blocks(c: int) -> list[slice]:
    """Labels that are multiplied and solved for together, by their number alone: bits depend on nothing else."""
    return list(spans(c, max(1, min(WIDEST, -(-c // BLOCKS)))))


def whole(blocks: Sequence[slice]) -> slice:
    """Neighbouring blocks of labels as one."""
    return slice(blocks[0].start, blocks[-1].stop)
