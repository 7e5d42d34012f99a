"""The engine of data in row shards: every product is the sum of the shards' products, in an order that never changes.

Shards are cut into a few *runs* of neighbours. A run adds up its shards one after the other, in place; runs are added
in a binary tree. Who computes a run is the executor's business: this process, one shard in memory at a time, or the
workers of a cluster. The result has the same bits in all cases, because runs and tree depend on the number of shards
alone.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.linalg.blocks import spans
from rembrandt.linalg.eigen import gaussian
from rembrandt.linalg.sparse import append_constant, as_csr, csr_matmul, row_sums_of_squares, scale_rows
from rembrandt.linalg.transposed import Transposed

Array = NDArray[Any]

RUNS = 8  # partial sums: as many workers can share a product; in one process four of them are alive at a time
SMALL_CROSS = 1 << 25  # entries: up to here XᵀY is formed once (256 MB) and every product with it is a small one
BLOCK_BYTES = 1 << 28  # the largest rows × width intermediate that a shard's product makes at a time


class Shard(Protocol):
    """A block of rows, wherever it is."""

    @property
    def n(self) -> int: ...

    @property
    def key(self) -> str: ...

    def rows(self, d: int, c: int) -> Any:
        """Something with the rows' ``X``, ``Y`` and ``weights``."""
        ...

    def prefetch(self) -> None: ...

    def release(self) -> None: ...


@dataclass(frozen=True)
class Data:
    """Shards and how to look at them; what a worker needs to know once.

    ``columns`` are the features to look at (all without it), each row is scaled to length one with ``normalize``, and
    with ``constant`` a feature that is always one comes last. The means are subtracted where they are given.
    """

    shards: Sequence[Shard]
    n_features: int
    n_labels: int
    runs: tuple[range, ...]
    columns: Array | None = None
    normalize: bool = False
    constant: bool = False
    feature_means: Array | None = None
    label_means: Array | None = None
    keep: int = 0  # bytes of layouts by columns that a process may keep from one pass to the next

    @cached_property
    def selection(self) -> str:
        """What tells these columns from others."""
        return "" if self.columns is None else hashlib.sha256(self.columns.tobytes()).hexdigest()

    @property
    def d(self) -> int:
        return (self.n_features if self.columns is None else len(self.columns)) + self.constant


@dataclass
class Tally:
    """What products cost: passes over the data, and bytes from one process to another."""

    passes: int = 0
    seconds: float = 0.0
    broadcasts: int = 0
    sent: int = 0  # from here to workers
    between: int = 0  # from worker to worker
    gathered: int = 0  # from workers to here

    def sentence(self) -> str:
        """The counts, for people."""
        said = f"{self.passes:,} passes over the data in {self.seconds:.1f} s"
        if self.broadcasts == 0:
            return said + "."
        moved = ", ".join(
            f"{size / 1e6:,.1f} MB {where}"
            for size, where in (
                (self.sent, "to the workers"),
                (self.between, "between them"),
                (self.gathered, "back from them"),
            )
        )
        return f"{said}; {self.broadcasts:,} broadcasts, {moved}."


Work = Callable[..., Any]  # (engine, columns, *more): what can be done for every column of a block on its own


class Executor(Protocol):
    """Who computes runs, and adds them up."""

    tally: Tally

    @property
    def spreads(self) -> bool:
        """Whether columns go to different processes."""
        ...

    def total(self, product: str, data: Data, block: Array | None) -> Array:
        """The sum over all runs of ``product``, one of `PRODUCTS`."""
        ...

    def each(self, data: Data, block: Array) -> Iterator[Array]:
        """``X block`` for shard after shard."""
        ...

    def spread(self, work: Work, engine: ShardedEngine, block: Array, *more: Any) -> list[Any]:
        """``work`` on an engine like this one, for neighbouring columns of the block, in order."""
        ...


class LocalExecutor:
    """This process, shard after shard; the next one is read from the disk meanwhile."""

    spreads = False

    def __init__(self) -> None:
        self.tally = Tally()

    def total(self, product: str, data: Data, block: Array | None) -> Array:
        return tree_sum(lambda run: partial(product, data, run, block), 0, len(data.runs))

    def each(self, data: Data, block: Array) -> Iterator[Array]:
        return (projected(data, number, block) for number in range(len(data.shards)))

    def spread(self, work: Work, engine: ShardedEngine, block: Array, *more: Any) -> list[Any]:
        return [work(engine, block, *more)]


@dataclass(frozen=True)
class Sums:
    """What one pass finds of the columns: squared lengths, sums, and the sum of the weights."""

    feature_norms: Array
    label_norms: Array
    features: Array
    labels: Array
    weight: float


class ShardedEngine:
    """An engine over shards; see `Engine` for what it offers."""

    def __init__(
        self,
        shards: Sequence[Shard],
        n_features: int,
        n_labels: int,
        *,
        executor: Executor | None = None,
        columns: Array | None = None,
        normalize: bool = False,
        constant: bool = False,
        center_features: bool = False,
        center_labels: bool = False,
        runs: int = RUNS,
        keep: int = 0,
    ) -> None:
        self.executor = executor or LocalExecutor()
        cut = cut_in_runs(len(shards), runs)
        self.data = Data(list(shards), n_features, n_labels, cut, columns, normalize, constant, keep=keep)
        self.n = sum(shard.n for shard in shards)
        self.d, self.c = self.data.d, n_labels
        self.dtype = np.dtype(np.float32)
        self._cross: Array | None = None
        found = self._total("sums", None)
        x_norms, y_norms, x_sums, y_sums, weight = np.split(found, np.cumsum([self.d, self.c, self.d, self.c]))
        self.sums = Sums(x_norms, y_norms, x_sums, y_sums, float(weight[0]))
        scale = 1 / self.sums.weight if self.sums.weight > 0 else 0.0
        self.data = replace(
            self.data,
            feature_means=(scale * self.sums.features).astype(self.dtype) if center_features else None,
            label_means=(scale * self.sums.labels).astype(self.dtype) if center_labels else None,
        )

    @classmethod
    def elsewhere(cls, data: Data, sums: Sums) -> ShardedEngine:
        """An engine over the same data in another process, which computes there."""
        self = cls.__new__(cls)
        self.executor, self.data, self.sums = LocalExecutor(), data, sums
        self.n, self.d, self.c = sum(shard.n for shard in data.shards), data.d, data.n_labels
        self.dtype, self._cross = np.dtype(np.float32), None
        return self

    def spread(self, work: Work, block: Array, *more: Any) -> list[Any]:
        """``work(engine, columns, *more)`` for parts of the block, in order; elsewhere where columns are shared out."""
        return self.executor.spread(work, self, block, *more)

    @property
    def spreads(self) -> bool:
        """Whether columns go to different machines: what can be done for each on its own is better done there."""
        return self.executor.spreads

    @property
    def tally(self) -> Tally:
        return self.executor.tally

    def gram(self, Z: Array) -> Array:
        return self._total("gram", Z)

    def cross(self, Q: Array) -> Array:
        small = self._small_cross()
        return self._total("cross", Q) if small is None else (small @ Q.astype(np.float64)).astype(Q.dtype)

    def cross_t(self, Z: Array) -> Array:
        small = self._small_cross()
        return self._total("cross_t", Z) if small is None else (small.T @ Z.astype(np.float64)).astype(Z.dtype)

    def label_gram(self, Q: Array) -> Array:
        return self._total("label_gram", Q)

    def feature_norms(self) -> NDArray[np.float64]:
        return self.sums.feature_norms - self.sums.weight * self.feature_means().astype(np.float64) ** 2

    def label_norms(self) -> NDArray[np.float64]:
        return self.sums.label_norms - self.sums.weight * self.label_means().astype(np.float64) ** 2

    def feature_means(self) -> Array:
        means = self.data.feature_means
        return np.zeros(self.d, dtype=self.dtype) if means is None else means

    def label_means(self) -> Array:
        means = self.data.label_means
        return np.zeros(self.c, dtype=self.dtype) if means is None else means

    def gram_matrix(self) -> NDArray[np.float64]:
        mean = self.feature_means().astype(np.float64)
        return self._total("gram_matrix", None) - self.sums.weight * np.outer(mean, mean)

    def project(self, Z: Array) -> Iterator[tuple[slice, Array]]:
        start = 0
        for block in self.executor.each(self.data, Z):
            yield slice(start, start + len(block)), block
            start += len(block)

    def gaussian(self, size: int, width: int, seed: int) -> Array:
        return self.asarray(gaussian(size, width, seed))

    def asarray(self, x: Array) -> Array:
        return np.asarray(x, dtype=self.dtype)

    def to_numpy(self, block: Array) -> Array:
        return block

    def _small_cross(self) -> Array | None:
        """``XᵀY`` where it is small enough to keep: an embedding is then a few small dense products."""
        if self._cross is None and self.d * self.c <= SMALL_CROSS:
            C = self._total("cross_matrix", None)
            # (X − 1μᵀ)ᵀ D (Y − 1νᵀ) = XᵀDY − (Σ w) μ νᵀ when at least one side is centred by its weighted mean.
            if self.data.feature_means is not None or self.data.label_means is not None:
                C -= np.outer(self.sums.features, self.sums.labels) / self.sums.weight
            self._cross = C
        return self._cross

    def _total(self, product: str, block: Array | None) -> Array:
        start = time.perf_counter()
        found = self.executor.total(product, self.data, block)
        self.tally.passes += 1
        self.tally.seconds += time.perf_counter() - start
        return found


def cut_in_runs(n_shards: int, runs: int) -> tuple[range, ...]:
    """Neighbouring shards in at most ``runs`` runs of about equal length."""
    cuts = np.linspace(0, n_shards, min(runs, n_shards) + 1).round().astype(int).tolist()
    return tuple(range(a, b) for a, b in pairwise(cuts))


def tree_sum(part: Callable[[int], Array], first: int, last: int) -> Array:
    """``part(first) + … + part(last − 1)``, neighbours first, then pairs of them; few are alive at a time."""
    if last - first == 1:
        return part(first)
    middle = first + tree_cut(last - first)
    left = tree_sum(part, first, middle)
    left += tree_sum(part, middle, last)
    return left


def tree_cut(n: int) -> int:
    """How many of ``n`` leaves are in the left half of their tree: the largest power of two below ``n``."""
    return 1 << ((n - 1).bit_length() - 1)


def partial(product: str, data: Data, run: int, block: Array | None) -> Array:
    """What the shards of one run add to a product."""
    compute = PRODUCTS[product]
    out: Array | None = None
    for number in data.runs[run]:
        shard = data.shards[number]
        if number + 1 < len(data.shards):
            data.shards[number + 1].prefetch()
        try:
            out = compute(_Opened(data, shard), block, out)
        finally:
            shard.release()
    assert out is not None, "a run has at least one shard"
    return out


def projected(data: Data, number: int, Z: Array) -> Array:
    """``X Z`` for the rows of one shard."""
    shard = data.shards[number]
    try:
        return _Opened(data, shard).X.times(Z)
    finally:
        shard.release()


class _Opened:
    """A shard's rows as ``data`` wants them looked at."""

    def __init__(self, data: Data, shard: Shard) -> None:
        self.data = data
        rows = shard.rows(data.n_features, data.n_labels)
        self.weights = None if rows.weights is None else np.asarray(rows.weights, dtype=np.float32)
        scale = None
        if data.normalize:
            lengths = np.sqrt(row_sums_of_squares(rows.X))
            scale = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0).astype(np.float32)
        X = rows.X if data.columns is None else _selected(rows.X, data.columns)
        self.X = _Side(X, f"{shard.key}.X{data.selection}", data.keep, scale, data.constant, data.feature_means)
        self.Y = _Side(rows.Y, f"{shard.key}.Y", data.keep, None, False, data.label_means)

    def through(self, left: _Side, right: _Side, Q: Array, out: Array | None) -> Array:
        """``out + leftᵀ D (right Q)``: one visit to the shard for both factors."""
        if out is None:
            out = np.zeros((left.width, Q.shape[1]), dtype=np.float32)
        step = max(1, BLOCK_BYTES // max(1, 4 * right.A.shape[0]))
        for columns in spans(Q.shape[1], step):
            U = right.times(Q[:, columns])
            if self.weights is not None:
                U *= self.weights[:, None]
            left.add_t(out[:, columns], U)
        return out

    def sums(self, out: Array | None) -> Array:
        weights = np.ones(self.X.A.shape[0]) if self.weights is None else self.weights.astype(np.float64)
        x, y = (as_csr(side.explicit(), np.float64) for side in (self.X, self.Y))
        squares = [M.multiply(M).T @ weights for M in (x, y)]
        found = np.concatenate([*squares, x.T @ weights, y.T @ weights, [weights.sum()]])
        return found if out is None else out + found

    def dense_product(self, left: _Side, right: _Side, out: Array | None) -> Array:
        """``out + leftᵀ D right`` itself, dense and in float64, for few columns."""
        A, B = as_csr(left.explicit(), np.float64), as_csr(right.explicit(), np.float64)
        if self.weights is not None:
            B = scale_rows(B, self.weights)
        found = np.asarray((A.T @ B).todense())
        return found if out is None else out + found


@dataclass
class _Side:
    """X or Y of a shard: ``[diag(scale) A, 1] − 1 meanᵀ``, never formed."""

    A: sparse.csr_array
    key: str
    keep: int
    scale: Array | None = None
    constant: bool = False
    mean: Array | None = None
    _t: Transposed | None = field(default=None, init=False)

    @property
    def width(self) -> int:
        return int(self.A.shape[1]) + self.constant

    def times(self, Z: Array) -> Array:
        U = csr_matmul(self.A, Z[: self.A.shape[1]])
        if self.scale is not None:
            U *= self.scale[:, None]
        shift = Z[-1] if self.constant else 0.0
        if self.mean is not None:
            shift = shift - self.mean @ Z
        if self.constant or self.mean is not None:
            U += shift
        return U

    def add_t(self, out: Array, U: Array) -> None:
        self.t.add_to(out[: self.A.shape[1]], U if self.scale is None else U * self.scale[:, None])
        if self.constant or self.mean is not None:
            total = U.sum(axis=0, dtype=np.float64)
            if self.constant:
                out[-1] += total.astype(out.dtype)
            if self.mean is not None:
                out -= np.outer(self.mean, total).astype(out.dtype)

    @property
    def t(self) -> Transposed:
        if self._t is None:
            self._t = _layouts.get(self.key, self.A, self.keep)
        return self._t

    def explicit(self) -> sparse.csr_array:
        """The matrix itself, scaled and with its constant, its mean not subtracted."""
        A = self.A if self.scale is None else scale_rows(self.A, self.scale)
        return append_constant(A) if self.constant else A


class _Layouts:
    """Layouts by columns that this process keeps; others are made anew in each pass, at a fifth of its time."""

    def __init__(self) -> None:
        self.kept: dict[str, Transposed] = {}
        self.bytes = 0

    def get(self, key: str, A: sparse.csr_array, keep: int) -> Transposed:
        found = self.kept.get(key)
        if found is None or found.shape != A.shape[::-1]:
            found = Transposed.of(A)
            if self.bytes + found.nbytes <= keep:
                self.kept[key] = found
                self.bytes += found.nbytes
        return found


_layouts = _Layouts()


def _selected(X: sparse.csr_array, columns: Array) -> sparse.csr_array:
    """The columns given, which are all that any row has."""
    place = np.zeros(X.shape[1], dtype=np.int32)
    place[columns] = np.arange(len(columns), dtype=np.int32)
    return sparse.csr_array((X.data, place[X.indices], X.indptr), shape=(X.shape[0], len(columns)))


PRODUCTS: dict[str, Callable[[_Opened, Any, Array | None], Array]] = {
    "gram": lambda s, Z, out: s.through(s.X, s.X, Z, out),
    "cross": lambda s, Q, out: s.through(s.X, s.Y, Q, out),
    "cross_t": lambda s, Z, out: s.through(s.Y, s.X, Z, out),
    "label_gram": lambda s, Q, out: s.through(s.Y, s.Y, Q, out),
    "sums": lambda s, _, out: s.sums(out),
    "gram_matrix": lambda s, _, out: s.dense_product(s.X, s.X, out),
    "cross_matrix": lambda s, _, out: s.dense_product(s.X, s.Y, out),
}
