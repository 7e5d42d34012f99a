"""From batches of rows, as the readers of all formats produce them, to datasets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.data.arrays import Numbers, csr_rows
from rembrandt.data.columns import TableColumns
from rembrandt.data.dataset import Dataset, Notes, Task
from rembrandt.data.labels import LabelIndex
from rembrandt.errors import DataError

Array = NDArray[Any]


@dataclass(frozen=True)
class Ids:
    """Labels or features of consecutive rows."""

    counts: Array  # how many each row has
    ids: Array
    names: Sequence[str] | None = None  # names by id; None if ids are columns

    @classmethod
    def of_lists(cls, lists: list[list[str]]) -> Ids:
        """From the names of each row."""
        counts = np.array([len(row) for row in lists], np.int64)
        names = [name for row in lists for name in row]
        return cls(counts, np.arange(len(names)), names)

    def over(self, index: LabelIndex) -> Ids:
        """The same labels or features with ids into the names of ``index``, which grows."""
        if self.names is None:
            return self
        columns = index.add(self.names)
        return Ids(self.counts, columns[self.ids], ())


@dataclass(frozen=True)
class Batch:
    """Consecutive rows of a file, with texts or with features and their values."""

    labels: Ids
    texts: list[str] | None = None
    features: Ids | None = None
    values: Array | None = None
    weights: Array | None = None
    task: Task | None = None
    names: list[str] | None = None  # what identifies each row


@dataclass(frozen=True)
class Columns:
    """What a file says about the columns of ids that have no names, and about its own."""

    label_ids: list[str] | None = None
    feature_names: list[str] | None = None
    n_features: int = 0
    table: TableColumns | None = None  # where texts and labels come from


def datasets(
    path: Path,
    batches: Iterable[Batch],
    rows: float,
    expected: str,
    columns: Columns | None = None,
) -> Iterator[Dataset]:
    """Join batches to datasets of about ``rows`` rows each.

    Every dataset has its own names and width, unless ``columns`` has them. ``expected`` says what
    a file without examples should have.
    """
    columns = columns or Columns()
    collected = _Collected()
    is_empty = True
    for batch in batches:
        collected.add(batch)
        if collected.n_rows >= rows:
            yield collected.dataset(columns)
            collected = _Collected()
            is_empty = False
    if collected.n_rows:
        yield collected.dataset(columns)
    elif is_empty:
        raise DataError(f"there are no examples in this file; expected {expected}", path)


class _Collected:
    """Batches that become one dataset."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.labels = LabelIndex()
        self.features = LabelIndex()
        self.n_rows = 0

    def add(self, batch: Batch) -> None:
        self.n_rows += len(batch.labels.counts)
        labels = batch.labels.over(self.labels)
        features = batch.features
        if features is not None:
            features = features.over(self.features)
        self.batches.append(replace(batch, labels=labels, features=features))

    def dataset(self, columns: Columns) -> Dataset:
        texts: list[str] = []
        ids: list[str] = []
        weights: list[Array] = []
        features: list[Ids] = []
        values: list[Any] = []
        for batch in self.batches:
            texts.extend(batch.texts or ())
            ids.extend(batch.names or ())
            if batch.weights is not None:
                weights.append(batch.weights)
            if batch.features is not None:
                features.append(batch.features)
                values.append(batch.values)
        labels = [batch.labels for batch in self.batches]
        tasks = {batch.task for batch in self.batches}
        self.batches.clear()  # the pieces are as large as the whole

        Y, label_ids, repeated_labels = _assembled(labels, self.labels, columns.label_ids, 0)
        Y.data[:] = 1.0
        names: Any = label_ids
        if names is None:
            names = Numbers(Y.shape[1])
        X = None
        feature_names = None
        repeated_features = 0
        if features:
            X, feature_names, repeated_features = _assembled(
                features, self.features, columns.feature_names, columns.n_features, values
            )
        return Dataset.build(
            Y,
            X,
            texts if X is None else None,
            label_ids=names,
            feature_names=feature_names,
            task=_joint_task(tasks),
            weights=_joined_weights(weights),
            notes=Notes(duplicate_features=repeated_features, duplicate_labels=repeated_labels),
            ids=ids or None,
            columns=columns.table,
        )


def _joint_task(tasks: set[Task | None]) -> Task | None:
    """The task of examples that come from batches of these tasks."""
    if "multilabel" in tasks:
        return "multilabel"
    return tasks.pop()


def _joined_weights(weights: list[Array]) -> Array | None:
    """The weights of all rows, or None if all are 1."""
    if any((batch_weights != 1).any() for batch_weights in weights):
        return np.concatenate(weights)
    return None


def _assembled(
    pieces: list[Ids],
    index: LabelIndex,
    names: list[str] | None,
    width: int,
    values: list[Any] | None = None,
) -> tuple[sparse.csr_array, list[str] | None, int]:
    """Join the ids of batches to a matrix of at least ``width`` columns.

    Returns the matrix, the names of its columns, and how many ids were repeated within a row. The
    list of pieces is emptied, because they are as large as the matrix.
    """
    counts = np.concatenate([piece.counts for piece in pieces])
    ids = np.concatenate([piece.ids for piece in pieces])
    if pieces[0].names is not None:
        names, position = index.in_order()
        ids = position[ids]
    pieces.clear()
    largest_id = int(ids.max(initial=-1))
    width = max(width, len(names or ()), largest_id + 1)
    entries = np.concatenate(values) if values else np.ones(len(ids), np.float32)
    matrix, repeated = csr_rows(counts, ids, entries, width)
    return matrix, names, repeated
