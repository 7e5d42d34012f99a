"""The classifiers of a level of a label tree: what to fit, and how the threads of this process fit it."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.linalg.blocks import spans
from rembrandt.linalg.hinge import Arrays, Pool, compact_pool, squared_hinge
from rembrandt.linalg.sparse import as_csr
from rembrandt.linalg.threads import Workspace, for_each
from rembrandt.progress import Report, silent
from rembrandt.recipe import TreeSettings

Array = NDArray[Any]
Part = tuple[Array, Array, Array, Array]  # of some nodes: where their weights end, features, values, biases
Weights = tuple[sparse.csr_array, Array]  # nodes × features, and biases


PIECE = 64  # nodes fitted by one call, at most
MANY = 16  # pools from which on each is the work of one thread


@dataclass(frozen=True)
class Nodes:
    """The nodes of a level: the examples of each, and the pool of examples that it learns from."""

    rows: sparse.csr_array  # nodes × examples
    pools: sparse.csr_array  # parents × examples
    parent: Array  # of every node
    costs: Array  # of every example
    settings: TreeSettings

    @property
    def size(self) -> int:
        return int(self.rows.shape[0])

    @property
    def threshold(self) -> float:
        """Weights that are smaller are dropped; with a low cost all weights are small."""
        return float(self.settings.threshold * min(1.0, self.settings.cost))

    @property
    def order(self) -> Array:
        """Nodes with siblings next to each other, so that the rows of their pool stay in the cache."""
        return np.argsort(self.parent, kind="stable")

    def pieces(self) -> list[Array]:
        """Cut the nodes, in `order`, into pieces of work: siblings, which learn from the same pool."""
        order = self.order
        cuts = np.flatnonzero(np.diff(self.parent[order], prepend=-1, append=-1))
        return [
            order[first:last][piece] for first, last in pairwise(cuts.tolist()) for piece in spans(last - first, PIECE)
        ]

    def fit(self, X: sparse.csr_array, pieces: Sequence[Array], report: Report = silent) -> list[Part]:
        """Fit the nodes of each piece on the threads of this process."""
        s, size, done = self.settings, sum(map(len, pieces)), list[int]()
        found: dict[int, Part] = {}
        space = Workspace(lambda: (np.full(X.shape[1], -1, dtype=np.int32), np.empty(X.shape[0], dtype=np.int32)))

        def fit(number: int, nodes: Array, pool: Pool, features: Array, positives: Arrays) -> None:
            ends, local, values, biases = squared_hinge(
                pool, positives, np.arange(len(nodes)), s.passes, s.tolerance, self.threshold
            )
            found[number] = (ends, features[local], values, biases)
            done.append(len(nodes))
            report(f"{size:,} tree nodes", sum(done), size)

        def siblings(group: list[tuple[int, Array]], on_threads: bool = False) -> None:
            parent = self.parent[group[0][1][0]]
            rows = self.pools.indices[self.pools.indptr[parent] : self.pools.indptr[parent + 1]]
            with space.borrowed() as (position, local):
                pool, features = compact_pool((X.indptr, X.indices, X.data), rows, self.costs[rows], position)
                local[rows] = np.arange(len(rows))
                own = [self.rows[nodes] for _, nodes in group]
                work = [
                    (*piece, pool, features, (A.indptr, local[A.indices])) for piece, A in zip(group, own, strict=True)
                ]
            if on_threads:
                for_each(fit, work)
            else:
                for piece in work:
                    fit(*piece)

        groups = [list(group) for _, group in groupby(enumerate(pieces), lambda piece: self.parent[piece[1][0]])]
        if len(groups) < MANY:
            for group in groups:
                siblings(group, on_threads=True)
        else:
            for_each(siblings, ((group,) for group in groups))
        return [found[number] for number in range(len(pieces))]

    def joined(self, parts: list[Part], n_features: int) -> Weights:
        """Join the results of all pieces into weights by node."""
        order = self.order
        bias = np.empty(self.size, dtype=np.float32)
        bias[order] = np.concatenate([own for *_, own in parts])
        counts = np.concatenate([np.diff(ends, prepend=0) for ends, *_ in parts])
        features, values = (np.concatenate([part[at] for part in parts]) for at in (1, 2))
        starts = np.append(0, np.cumsum(counts))
        weights = sparse.csr_array((values, features, starts), shape=(self.size, n_features))
        return as_csr(weights[np.argsort(order)]), bias


class HingeSolver(Protocol):
    """Fits the nodes of a level on the examples that it was made for."""

    def fit(self, nodes: Nodes, report: Report) -> Weights: ...


@dataclass(frozen=True)
class LocalHinge:
    """The threads of this process; ``X`` are the examples."""

    X: sparse.csr_array

    def fit(self, nodes: Nodes, report: Report) -> Weights:
        return nodes.joined(nodes.fit(self.X, nodes.pieces(), report), self.X.shape[1])
