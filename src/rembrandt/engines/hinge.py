"""The classifiers of a level of a label tree: what to fit, and how the threads of this process fit it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.linalg.blocks import spans
from rembrandt.linalg.hinge import squared_hinge
from rembrandt.linalg.sparse import as_csr
from rembrandt.linalg.threads import Workspace, for_each
from rembrandt.progress import Report, silent
from rembrandt.recipe import TreeSettings

Array = NDArray[Any]
Part = tuple[Array, Array, Array, Array]  # of some nodes: where their weights end, features, values, biases
Weights = tuple[sparse.csr_array, Array]  # nodes × features, and biases


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
    def order(self) -> Array:
        """Nodes with siblings next to each other, so that the rows of their pool stay in the cache."""
        return np.argsort(self.parent, kind="stable")

    def pieces(self) -> list[Array]:
        """Cut the nodes, in `order`, into pieces of work."""
        order = self.order
        return [order[nodes] for nodes in spans(self.size, int(np.clip(self.size // 64, 1, 64)))]

    def fit(self, X: sparse.csr_array, pieces: Sequence[Array], report: Report = silent) -> list[Part]:
        """Fit the nodes of each piece on the threads of this process."""
        rows, pools, s = self.rows, self.pools, self.settings
        size = sum(map(len, pieces))
        found: dict[int, Part] = {}
        space = Workspace(lambda: np.full(X.shape[1], -1, dtype=np.int32))
        lists = (rows.indptr, rows.indices), (pools.indptr, pools.indices), self.parent
        data = (X.indptr, X.indices, X.data), self.costs, *lists

        def fit(number: int, nodes: Array) -> None:
            with space.borrowed() as position:
                found[number] = squared_hinge(*data, nodes, s.passes, s.tolerance, s.threshold, position)
            report(f"{size:,} tree nodes", sum(len(pieces[done]) for done in list(found)), size)

        for_each(fit, enumerate(pieces))
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
