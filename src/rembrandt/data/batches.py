"""From batches of rows, as the readers of all formats produce them, to datasets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rembrandt.data.arrays import csr_rows, label_rows
from rembrandt.data.dataset import Dataset, Notes, Task
from rembrandt.data.labels import LabelIndex
from rembrandt.errors import DataError

Array = NDArray[Any]


@dataclass(frozen=True)
class Ids:
    """Labels or features of consecutive rows: how many each row has, and their ids, into ``names`` where given."""

    counts: Array
    ids: Array
    names: Sequence[str] | None = None


@dataclass(frozen=True)
class Batch:
    """Consecutive rows of a file, with texts or with features and their values."""

    labels: Ids
    texts: list[str] | None = None
    features: Ids | None = None
    values: Array | None = None
    weights: Array | None = None
    task: Task | None = None


class _Column:
    """The labels or the features of batches, over one list of names."""

    def __init__(self) -> None:
        self.index, self.is_named = LabelIndex(), False
        self.counts: list[Array] = []
        self.ids: list[Array] = []

    def add(self, found: Ids) -> None:
        self.counts.append(found.counts)
        self.is_named |= found.names is not None
        self.ids.append(found.ids if found.names is None else self.index.add(found.names)[found.ids])

    def finished(self) -> tuple[Array, Array, list[str] | None, int]:
        """Counts, ids, sorted names and the number of columns."""
        counts, ids = np.concatenate(self.counts), np.concatenate(self.ids)
        self.ids.clear()  # the pieces are as large as the whole
        if not self.is_named:
            return counts, ids, None, int(ids.max(initial=-1)) + 1
        names, position = self.index.in_order()
        return counts, position[ids], names, len(names)


class _Collected:
    """Batches that become one dataset."""

    def __init__(self) -> None:
        self.labels, self.features = _Column(), _Column()
        self.texts: list[str] = []
        self.values: list[Array] = []
        self.weights: list[Array] = []
        self.tasks: set[Task | None] = set()
        self.n_rows = 0

    def add(self, batch: Batch) -> None:
        self.n_rows += len(batch.labels.counts)
        self.labels.add(batch.labels)
        self.texts += batch.texts or ()
        if batch.features is not None and batch.values is not None:
            self.features.add(batch.features)
            self.values.append(batch.values)
        if batch.weights is not None:
            self.weights.append(batch.weights)
        self.tasks.add(batch.task)

    def dataset(self, label_names: list[str] | None, feature_names: list[str] | None, n_features: int) -> Dataset:
        counts, ids, names, width = self.labels.finished()
        names = label_names or names or [str(i) for i in range(width)]
        Y, repeated_labels = label_rows(counts, ids, len(names))
        X, repeated_features = None, 0
        if self.values:
            counts, ids, found, width = self.features.finished()
            X, repeated_features = csr_rows(counts, ids, np.concatenate(self.values), max(width, n_features))
            feature_names = found if feature_names is None else feature_names
        weights = np.concatenate(self.weights) if self.weights else None
        return Dataset.build(
            Y,
            X,
            None if self.values else self.texts,
            label_names=names,
            feature_names=feature_names,
            task="multilabel" if "multilabel" in self.tasks else next(iter(self.tasks)),
            weights=None if weights is None or (weights == 1).all() else weights,
            notes=Notes(duplicate_features=repeated_features, duplicate_labels=repeated_labels),
        )


def datasets(
    path: Path,
    batches: Iterable[Batch],
    rows: float,
    expected: str,
    label_names: list[str] | None = None,
    feature_names: list[str] | None = None,
    n_features: int = 0,
) -> Iterator[Dataset]:
    """Datasets of about ``rows`` rows each; names that are given here count for ids without names."""
    collected, is_empty = _Collected(), True
    for batch in batches:
        collected.add(batch)
        if collected.n_rows >= rows:
            yield collected.dataset(label_names, feature_names, n_features)
            collected, is_empty = _Collected(), False
    if collected.n_rows:
        yield collected.dataset(label_names, feature_names, n_features)
    elif is_empty:
        raise DataError(f"there are no examples in this file; expected {expected}", path)
