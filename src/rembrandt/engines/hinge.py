"""The classifiers of a level of a label tree: what to fit, and how threads or the workers of a
cluster fit it.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from rembrandt.data.stored import StoredRows
from rembrandt.engines.shards import Executor
from rembrandt.linalg import Array
from rembrandt.linalg.blocks import spans
from rembrandt.linalg.hinge import Pool, compact_pool, squared_hinge
from rembrandt.linalg.sparse import as_csr, unit_rows
from rembrandt.linalg.threads import Workspace, for_each
from rembrandt.progress import Report, silent
from rembrandt.recipe import TreeSettings

Group = list[tuple[int, Array]]  # numbered pieces of siblings
Part = tuple[
    Array, Array, Array, Array
]  # of some nodes: where their weights end, features, values, biases
Weights = tuple[sparse.csr_array, Array]  # nodes × features, and biases


PIECE = 64  # nodes fitted by one call, at most
MANY = 16  # pools from which on each is the work of one thread
ENTRIES = (
    1 << 25
)  # entries of the largest pool, and of the pools that are read from a store at a time


@dataclass(frozen=True)
class InMemory:
    """Examples in memory: rows of unit length, in random order."""

    X: sparse.csr_array

    @property
    def n_features(self) -> int:
        return int(self.X.shape[1])

    def read(self, pools: Sequence[Array]) -> tuple[sparse.csr_array, Array | None]:
        """Return a matrix with the rows of these pools, and which rows it has, in increasing order;
        None for all.
        """
        return self.X, None


@dataclass(frozen=True)
class OnDisk:
    """Examples in a store; ``order`` are the rows of the store in the order of the fit."""

    rows: StoredRows
    order: Array

    @property
    def n_features(self) -> int:
        return self.rows.shape[1]

    def read(self, pools: Sequence[Array]) -> tuple[sparse.csr_array, Array | None]:
        wanted = np.zeros(len(self.order), dtype=np.bool_)
        for pool in pools:
            wanted[pool] = True
        rows = np.flatnonzero(wanted)
        return unit_rows(self.rows[self.order[rows]]), rows


Source = InMemory | OnDisk


@dataclass(frozen=True)
class Nodes:
    """The nodes of a level: the examples of each, and the pool of examples that it learns from.

    Of a pool with more than ``most`` examples the first ones are used. They are a sample, as the
    order is random. A label has weights of the features of its own examples, a cluster of those of
    its pool.
    """

    rows: sparse.csr_array  # nodes × examples
    pools: sparse.csr_array  # parents × examples
    parent: Array  # of every node
    costs: Array  # of every example
    settings: TreeSettings
    most: int
    are_clusters: bool = False

    @property
    def size(self) -> int:
        return int(self.rows.shape[0])

    @property
    def threshold(self) -> float:
        """Weights that are smaller are dropped; with a low cost all weights are small."""
        return float(self.settings.threshold * min(1.0, self.settings.cost))

    @property
    def order(self) -> Array:
        """Nodes with siblings next to each other, so that the rows of their pool stay in the
        cache.
        """
        return np.argsort(self.parent, kind="stable")

    def pieces(self) -> list[Array]:
        """Cut the nodes, in `order`, into pieces of work: siblings, which learn from the same
        pool.
        """
        order = self.order
        cuts = np.flatnonzero(np.diff(self.parent[order], prepend=-1, append=-1))
        return [
            order[first:last][piece]
            for first, last in pairwise(cuts.tolist())
            for piece in spans(last - first, PIECE)
        ]

    def pool(self, parent: int) -> Array:
        """The examples that the children of a parent learn from."""
        start, stop = self.pools.indptr[parent : parent + 2]
        return np.asarray(self.pools.indices[start : min(stop, start + self.most)])

    def fit(self, source: Source, pieces: Sequence[Array], report: Report = silent) -> list[Part]:
        """Fit the nodes of each piece on the threads of this process, a few pools at a time."""
        found: dict[int, Part] = {}
        size, done = sum(map(len, pieces)), list[int]()
        space = Workspace(lambda: np.full(source.n_features, -1, dtype=np.int32))

        def keep(number: int, part: Part) -> None:
            found[number] = part
            done.append(len(pieces[number]))
            report(f"{size:,} tree nodes", sum(done), size)

        for batch in self._batches(pieces):
            self._fit_batch(source, batch, space, keep)
        return [found[number] for number in range(len(pieces))]

    def _batches(self, pieces: Sequence[Array]) -> Iterator[list[Group]]:
        """Group the numbered pieces by parent, and parents into batches whose pools together have
        `most` examples.
        """
        batch, room = list[Group](), self.most
        for parent, group in groupby(
            enumerate(pieces), lambda piece: int(self.parent[piece[1][0]])
        ):
            size = len(self.pool(parent))
            if batch and size > room:
                yield batch
                batch, room = [], self.most
            batch.append(list(group))
            room -= size
        if batch:
            yield batch

    def _fit_batch(
        self, source: Source, batch: list[Group], space: Workspace, keep: Callable[..., None]
    ) -> None:
        pools = [self.pool(self.parent[group[0][1][0]]) for group in batch]
        X, known = source.read(pools)

        def fit(number: int, nodes: Array, rows: Array, pool: Pool, features: Array) -> None:
            s, mine = self.settings, self.rows[nodes]
            mine = (
                mine if len(rows) < self.most else as_csr(mine[:, : rows[-1] + 1])
            )  # those that are in the sample
            positives = mine.indptr, np.searchsorted(rows, mine.indices).astype(np.int32)
            limits = s.passes, s.tolerance, self.threshold
            ends, local, values, bias = squared_hinge(pool, positives, *limits, self.are_clusters)
            keep(number, (ends, features[local], values, bias))

        def work(group: Group, rows: Array) -> list[tuple[Any, ...]]:
            at = rows if known is None else np.searchsorted(known, rows).astype(np.int32)
            with space.borrowed() as position:
                pool = compact_pool((X.indptr, X.indices, X.data), at, self.costs[rows], position)
            return [(*piece, rows, *pool) for piece in group]

        def siblings(group: Group, rows: Array) -> None:
            for piece in work(group, rows):
                fit(*piece)

        if len(batch) >= MANY:
            for_each(siblings, zip(batch, pools, strict=True))
        else:
            for group, rows in zip(batch, pools, strict=True):
                for_each(fit, work(group, rows))

    def joined(self, parts: list[Part], n_features: int) -> Weights:
        """Join the results of all pieces into weights by node; ``parts`` is emptied, so that both
        never exist whole.
        """
        order = self.order
        bias, sizes = np.empty(self.size, dtype=np.float32), np.empty(self.size, dtype=np.int64)
        bias[order] = np.concatenate([own for *_, own in parts])
        sizes[order] = np.concatenate([np.diff(ends, prepend=0) for ends, *_ in parts])
        starts = np.append(0, np.cumsum(sizes))
        features, values = (
            np.empty(starts[-1], dtype=np.int32),
            np.empty(starts[-1], dtype=np.float32),
        )
        last = self.size
        while parts:
            ends, own, weights, _ = parts.pop()
            nodes = order[last - len(ends) : last]
            last -= len(ends)
            at = np.arange(len(own)) + np.repeat(
                starts[nodes] - np.append(0, ends[:-1]), sizes[nodes]
            )
            features[at], values[at] = own, weights
        short = (
            starts.astype(np.int32) if starts[-1] < 2**31 else starts
        )  # otherwise SciPy copies the features
        found = sparse.csr_array((values, features, short), shape=(self.size, n_features))
        found.sort_indices()
        found.indices, found.indptr = found.indices.astype(np.int32, copy=False), starts
        return found, bias


@dataclass(frozen=True)
class LocalHinge:
    """The threads of this process."""

    source: Source

    def fit(self, nodes: Nodes, report: Report) -> Weights:
        """Fit the nodes of a level."""
        return nodes.joined(nodes.fit(self.source, nodes.pieces(), report), self.source.n_features)


@dataclass(frozen=True)
class StoredExamples:
    """Rows of a store in the order of a fit, as they are sent once to every worker, which opens the
    store itself.
    """

    path: Path
    columns: Array | None
    is_normalized: bool
    order: Array

    @classmethod
    def of(cls, rows: StoredRows, order: Array) -> "StoredExamples":
        return cls(Path(rows.store.path).absolute(), rows.columns, rows.is_normalized, order)

    def open(self) -> OnDisk:
        from rembrandt.data.store import Store

        return OnDisk(StoredRows(Store(self.path), self.columns, self.is_normalized), self.order)


@dataclass(frozen=True)
class SharedHinge:
    """The workers of a cluster: given their examples, nodes are independent.

    A worker reads the examples of the pools of its nodes from the store. Lists of examples are sent
    to it, and weights come back, with the same bits as in one process.
    """

    executor: Executor
    examples: StoredExamples
    n_features: int

    def fit(self, nodes: Nodes, report: Report) -> Weights:
        stage = f"{nodes.size:,} tree nodes"
        report(stage, 0, 1)
        found = self.executor.in_shares(_fitted, nodes.pieces(), self.examples, nodes)
        report(stage, 1, 1)
        return nodes.joined(found, self.n_features)


HingeSolver = LocalHinge | SharedHinge


def _fitted(pieces: Sequence[Array], examples: StoredExamples, nodes: Nodes) -> list[Part]:
    return nodes.fit(examples.open(), pieces)
