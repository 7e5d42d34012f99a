"""The sparse part on a cluster: nodes of a tree are independent given their examples, so they go to different workers.

A worker needs all examples of the store, which it reads itself and keeps while the tree is fitted. What goes there are
the lists of examples that nodes learn from; what comes back are their weights, the same as in one process to the bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.data.store import Store
from rembrandt.data.stored import StoredRows
from rembrandt.decoders.tree import Nodes, Part, unit_rows
from rembrandt.engines.place import Place
from rembrandt.engines.shards import Executor
from rembrandt.engines.stored_place import DaskPlace
from rembrandt.progress import Report

Array = NDArray[Any]


@dataclass(frozen=True)
class _Examples:
    """Which rows of a store, in which order; what a worker needs to know once."""

    path: Path
    is_normalized: bool
    order: Array

    @property
    def nbytes(self) -> int:
        return int(self.order.nbytes)

    def read(self) -> sparse.csr_array:
        rows = StoredRows(Store(self.path))
        return unit_rows((rows.normalized() if self.is_normalized else rows)[:])[self.order]


@dataclass(frozen=True)
class Workers:
    """The workers of a cluster, each with all examples."""

    executor: Executor
    examples: _Examples

    def fit(self, level: Nodes, pieces: Sequence[Array], report: Report) -> list[Part]:
        stage = f"{sum(map(len, pieces)):,} sparse classifiers"
        report(stage, 0, 1)
        with self.executor.tally.one_pass():
            found = self.executor.in_shares(_fitted, pieces, self.examples, level)
        report(stage, 1, 1)
        return found


def workers_for(rows: StoredRows, order: Array, place: Place) -> Workers | None:
    """Those of ``place``, or None where that is this process."""
    if not isinstance(place, DaskPlace):
        return None
    examples = _Examples(Path(rows.store.path).absolute(), rows.is_normalized, order)
    return Workers(place.executor(rows, "sparse part"), examples)


def _fitted(pieces: Sequence[Array], examples: _Examples, level: Nodes) -> list[Part]:
    return level.fit(_kept.rows(examples), pieces)


class _Kept:
    """The examples of the tree that this process works on."""

    def __init__(self) -> None:
        self.examples: _Examples | None = None
        self.X: Any = None

    def rows(self, wanted: _Examples) -> sparse.csr_array:
        had = self.examples
        same = had is not None and (had.path, had.is_normalized) == (wanted.path, wanted.is_normalized)
        if not (same and had is not None and np.array_equal(had.order, wanted.order)):
            self.examples, self.X = None, None
            self.examples, self.X = wanted, wanted.read()
        return self.X


_kept = _Kept()
