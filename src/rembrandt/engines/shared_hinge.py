"""Tree nodes on the workers of a cluster: given their examples, nodes are independent.

A worker reads all examples of the store and keeps them while a tree is fitted. Lists of examples are sent to it, and
weights come back, with the same bits as in one process.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.data.store import Store
from rembrandt.data.stored import StoredRows
from rembrandt.engines.dask import on_worker
from rembrandt.engines.hinge import Nodes, Part, Weights
from rembrandt.engines.shards import Executor
from rembrandt.linalg.sparse import unit_rows
from rembrandt.progress import Report

Array = NDArray[Any]


@dataclass(frozen=True)
class Examples:
    """Rows of a store in the order of a fit; sent once to every worker."""

    path: Path
    is_normalized: bool
    order: Array
    key: str

    @classmethod
    def of(cls, rows: StoredRows, order: Array) -> Examples:
        path = Path(rows.store.path).absolute()
        digest = hashlib.sha256(f"{rows.digest()} {path}".encode() + np.ascontiguousarray(order).tobytes())
        return cls(path, rows.is_normalized, order, digest.hexdigest())

    def read(self) -> sparse.csr_array:
        rows = StoredRows(Store(self.path))
        return unit_rows((rows.normalized() if self.is_normalized else rows)[:])[self.order]


@dataclass(frozen=True)
class SharedHinge:
    """The workers of a cluster, each with all examples."""

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
    return nodes.fit(on_worker("examples", examples.key, examples.read), pieces)
