"""Tree nodes on the workers of a cluster: given their examples, nodes are independent.

A worker reads the examples of the pools of its nodes from the store. Lists of examples are sent to it, and weights come
back, with the same bits as in one process.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rembrandt.data.store import Store
from rembrandt.data.stored import StoredRows
from rembrandt.engines.hinge import Nodes, OnDisk, Part, Weights
from rembrandt.engines.shards import Executor
from rembrandt.linalg import Array
from rembrandt.progress import Report


@dataclass(frozen=True)
class Examples:
    """Rows of a store in the order of a fit; sent once to every worker."""

    path: Path
    columns: Array | None
    is_normalized: bool
    order: Array

    @classmethod
    def of(cls, rows: StoredRows, order: Array) -> "Examples":
        return cls(Path(rows.store.path).absolute(), rows.columns, rows.is_normalized, order)

    def open(self) -> OnDisk:
        return OnDisk(StoredRows(Store(self.path), self.columns, self.is_normalized), self.order)


@dataclass(frozen=True)
class SharedHinge:
    """The workers of a cluster."""

    executor: Executor
    examples: Examples
    n_features: int

    def fit(self, nodes: Nodes, report: Report) -> Weights:
        stage = f"{nodes.size:,} tree nodes"
        report(stage, 0, 1)
        found = self.executor.in_shares(_fitted, nodes.pieces(), self.examples, nodes)
        report(stage, 1, 1)
        return nodes.joined(found, self.n_features)


def _fitted(pieces: Sequence[Array], examples: Examples, nodes: Nodes) -> list[Part]:
    return nodes.fit(examples.open(), pieces)
