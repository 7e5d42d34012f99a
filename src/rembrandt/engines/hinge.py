"""The classifiers of a level of a label tree: what to fit, and how threads or the workers of a
cluster fit it.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path

import numpy as np
from scipy import sparse

from rembrandt.data.stored import StoredRows
from rembrandt.engines.shards import Executor
from rembrandt.linalg import Array
from rembrandt.linalg.blocks import spans
from rembrandt.linalg.hinge import Pool, compact_pool, squared_hinge
from rembrandt.linalg.hinge_panels import PANEL_LABELS, squared_hinge_panels
from rembrandt.linalg.sparse import as_csr, short_indices, sort_rows, unit_rows
from rembrandt.linalg.threads import Workspace, for_each
from rembrandt.progress import Report, silent

# Numbered pieces of siblings.
Group = list[tuple[int, Array]]
# What is fitted for some nodes: where the weights of each end, their features, values, and biases.
FittedNodes = tuple[Array, Array, Array, Array]
# Nodes × features, and biases.
Weights = tuple[sparse.csr_array, Array]

# Nodes fitted by one call, at most.
PIECE_NODES = 64
# The same where all threads share a pool: its nodes take long, and there may be few of them.
SHARED_PIECE_NODES = 2
# Number of pools from which each is the work of one thread; fewer pools are each shared by all.
POOLS_PER_THREAD = 16
# Entries of the largest pool, and of the pools that are read from a store at a time.
MAX_POOL_ENTRIES = 1 << 25


@dataclass(frozen=True)
class HingeSettings:
    """How the classifier of a node is fitted."""

    cost: float  # weight of the loss against the penalty
    passes: int  # over the examples of a node, at most
    passes_per_round: int  # before more examples may become active
    tolerance: float  # projected gradient at which coordinate descent stops
    prune_below: float  # weights that are smaller are dropped, for a cost of one


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

    Of a pool with more than ``max_pool_examples`` examples the first ones are used. They are a
    sample, as the order is random. A node has weights of the features of its own examples, or of
    all features of its pool.
    """

    rows: sparse.csr_array  # nodes × examples
    pools: sparse.csr_array  # parents × examples
    parent: Array  # of every node
    costs: Array  # of every example
    settings: HingeSettings
    max_pool_examples: int
    all_features: bool = False

    @property
    def size(self) -> int:
        return int(self.rows.shape[0])

    @property
    def prune_below(self) -> float:
        """Weights that are smaller are dropped; with a low cost all weights are small."""
        return float(self.settings.prune_below * min(1.0, self.settings.cost))

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
        n_pools = len(cuts) - 1
        piece_nodes = PIECE_NODES
        if n_pools < POOLS_PER_THREAD:
            piece_nodes = PANEL_LABELS if self.all_features else SHARED_PIECE_NODES
        pieces: list[Array] = []
        for first, last in pairwise(cuts.tolist()):
            siblings = order[first:last]
            pieces.extend(siblings[nodes] for nodes in spans(len(siblings), piece_nodes))
        return pieces

    def pool(self, parent: int) -> Array:
        """Return the examples that the children of a parent learn from."""
        # As integers of Python: the limit may be larger than those of the pointers can be.
        start = int(self.pools.indptr[parent])
        stop = min(int(self.pools.indptr[parent + 1]), start + self.max_pool_examples)
        return np.asarray(self.pools.indices[start:stop])

    def fit(
        self, source: Source, pieces: Sequence[Array], report: Report = silent
    ) -> list[FittedNodes]:
        """Fit the nodes of each piece on the threads of this process, a few pools at a time."""
        fitted: dict[int, FittedNodes] = {}
        n_nodes = sum(map(len, pieces))
        done: list[int] = []
        space = Workspace(lambda: np.full(source.n_features, -1, dtype=np.int32))

        def keep(number: int, nodes: FittedNodes) -> None:
            fitted[number] = nodes
            done.append(len(pieces[number]))
            report(f"{n_nodes:,} tree nodes", sum(done), n_nodes)

        for batch in self._batches(pieces):
            self._fit_batch(source, batch, space, keep)
        return [fitted[number] for number in range(len(pieces))]

    def _batches(self, pieces: Sequence[Array]) -> Iterator[list[Group]]:
        """Group the numbered pieces by parent, and parents into batches whose pools together have
        at most `max_pool_examples` examples.
        """

        def parent_of(numbered: tuple[int, Array]) -> int:
            _, nodes = numbered
            return int(self.parent[nodes[0]])

        batch: list[Group] = []
        room = self.max_pool_examples
        for parent, group in groupby(enumerate(pieces), parent_of):
            size = len(self.pool(parent))
            if batch and size > room:
                yield batch
                batch = []
                room = self.max_pool_examples
            batch.append(list(group))
            room -= size
        if batch:
            yield batch

    def _fit_batch(
        self,
        source: Source,
        batch: list[Group],
        space: Workspace,
        keep: Callable[[int, FittedNodes], None],
    ) -> None:
        """Fit the pieces of some parents: many parents on a thread each, or few one by one."""
        pools = []
        for group in batch:
            _, nodes = group[0]
            pools.append(self.pool(self.parent[nodes[0]]))
        X, rows_of_X = source.read(pools)
        arrays = (X.indptr.astype(np.int64, copy=False), short_indices(X), X.data)

        def compact(rows: Array) -> tuple[Pool, Array]:
            positions = rows
            if rows_of_X is not None:
                positions = np.searchsorted(rows_of_X, rows).astype(np.int32)
            with space.borrowed() as position:
                return compact_pool(arrays, positions, self.costs[rows], position)

        def fit_piece(number: int, nodes: Array, rows: Array, pool: Pool, features: Array) -> None:
            keep(number, self._fit_piece(nodes, rows, pool, features))

        def fit_group(group: Group, rows: Array) -> None:
            pool, features = compact(rows)
            for number, nodes in group:
                fit_piece(number, nodes, rows, pool, features)

        if len(batch) >= POOLS_PER_THREAD:
            # The longest work first, so that the threads end at about the same time.
            work = [len(rows) * len(group) for group, rows in zip(batch, pools, strict=True)]
            longest_first = np.argsort(work, kind="stable")[::-1].tolist()
            for_each(fit_group, [(batch[number], pools[number]) for number in longest_first])
            return
        for group, rows in zip(batch, pools, strict=True):
            pool, features = compact(rows)
            for_each(fit_piece, [(number, nodes, rows, pool, features) for number, nodes in group])

    def _fit_piece(self, nodes: Array, rows: Array, pool: Pool, features: Array) -> FittedNodes:
        """Fit siblings on the pool of ``rows``, whose columns are ``features``."""
        settings = self.settings
        examples = self.rows[nodes]
        if len(rows) >= self.max_pool_examples:
            # The pool is a sample of the first rows; drop the examples after it.
            examples = as_csr(examples[:, : rows[-1] + 1])
        positives = (
            examples.indptr,
            np.searchsorted(rows, examples.indices).astype(np.int32),
        )
        fit_labels = squared_hinge_panels if self.all_features else squared_hinge
        ends, columns, values, bias = fit_labels(
            pool,
            positives,
            settings.passes,
            settings.passes_per_round,
            settings.tolerance,
            self.prune_below,
        )
        return ends, features[columns], values, bias

    def joined(self, parts: list[FittedNodes], n_features: int) -> Weights:
        """Join the results of all pieces into weights by node; ``parts`` is emptied, so that both
        never exist whole.
        """
        order = self.order
        bias = np.empty(self.size, dtype=np.float32)
        bias[order] = np.concatenate([piece_bias for *_, piece_bias in parts])
        sizes = np.empty(self.size, dtype=np.int64)
        sizes[order] = np.concatenate([np.diff(ends, prepend=0) for ends, *_ in parts])
        starts = np.append(0, np.cumsum(sizes))
        features = np.empty(starts[-1], dtype=np.int32)
        values = np.empty(starts[-1], dtype=np.float32)
        last = self.size
        while parts:
            ends, piece_features, piece_values, _ = parts.pop()
            first = last - len(ends)
            nodes = order[first:last]
            last = first
            # From positions in the piece to positions in the whole.
            shifts = starts[nodes] - np.append(0, ends[:-1])
            at = np.arange(len(piece_features)) + np.repeat(shifts, sizes[nodes])
            features[at] = piece_features
            values[at] = piece_values
        indptr = starts
        if starts[-1] < 2**31:
            # SciPy would copy the features to match wider row starts.
            indptr = starts.astype(np.int32)
        weights = sparse.csr_array((values, features, indptr), shape=(self.size, n_features))
        sort_rows(weights)
        weights.indices = weights.indices.astype(np.int32, copy=False)
        weights.indptr = starts
        return weights, bias


@dataclass(frozen=True)
class LocalHinge:
    """The threads of this process."""

    source: Source

    def fit(self, nodes: Nodes, report: Report) -> Weights:
        """Fit the nodes of a level."""
        parts = nodes.fit(self.source, nodes.pieces(), report)
        return nodes.joined(parts, self.source.n_features)


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
        path = Path(rows.store.path).absolute()
        return cls(path, rows.columns, rows.is_normalized, order)

    def open(self) -> OnDisk:
        from rembrandt.data.store import Store

        rows = StoredRows(Store(self.path), self.columns, self.is_normalized)
        return OnDisk(rows, self.order)


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
        parts = self.executor.in_shares(_fit_pieces, nodes.pieces(), self.examples, nodes)
        report(stage, 1, 1)
        return nodes.joined(parts, self.n_features)


HingeSolver = LocalHinge | SharedHinge


def _fit_pieces(
    pieces: Sequence[Array], examples: StoredExamples, nodes: Nodes
) -> list[FittedNodes]:
    """Fit pieces of a level on a worker."""
    return nodes.fit(examples.open(), pieces)
