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
from rembrandt.data.dataset import Dataset, Notes, Task
from rembrandt.data.labels import LabelIndex
from rembrandt.errors import DataError

Array = NDArray[Any]


@dataclass(frozen=True)
class Ids:
    """Labels or features of consecutive rows: how many each row has, and their ids, into ``names``
    where given.
    """

    counts: Array
    ids: Array
    names: Sequence[str] | None = None

    @classmethod
    def of_lists(cls, lists: list[list[str]]) -> Ids:
        """From the names of each row."""
        names = [name for each in lists for name in each]
        return cls(np.array([len(each) for each in lists], np.int64), np.arange(len(names)), names)

    def over(self, index: LabelIndex) -> Ids:
        """The same labels or features with ids into the names of ``index``, which grows."""
        return self if self.names is None else Ids(self.counts, index.add(self.names)[self.ids], ())


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
    """What a file says about the columns of ids that have no names."""

    label_names: list[str] | None = None
    feature_names: list[str] | None = None
    n_features: int = 0


def datasets(
    path: Path, batches: Iterable[Batch], rows: float, expected: str, columns: Columns | None = None
) -> Iterator[Dataset]:
    """Datasets of about ``rows`` rows each, every one with its own names and width unless
    ``columns`` has them.
    """
    collected, is_empty = _Collected(), True
    for batch in batches:
        collected.add(batch)
        if collected.n_rows >= rows:
            yield collected.dataset(columns or Columns())
            collected, is_empty = _Collected(), False
    if collected.n_rows:
        yield collected.dataset(columns or Columns())
    elif is_empty:
        raise DataError(f"there are no examples in this file; expected {expected}", path)


class _Collected:
    """Batches that become one dataset."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.labels, self.features = LabelIndex(), LabelIndex()
        self.n_rows = 0

    def add(self, batch: Batch) -> None:
        self.n_rows += len(batch.labels.counts)
        features = None if batch.features is None else batch.features.over(self.features)
        self.batches.append(
            replace(batch, labels=batch.labels.over(self.labels), features=features)
        )

    def dataset(self, columns: Columns) -> Dataset:
        texts = [text for batch in self.batches for text in batch.texts or ()]
        weights = [batch.weights for batch in self.batches if batch.weights is not None]
        ids = [name for batch in self.batches for name in batch.names or ()]
        tasks = {batch.task for batch in self.batches}
        labels = [batch.labels for batch in self.batches]
        features = [batch.features for batch in self.batches if batch.features]
        values = [batch.values for batch in self.batches if batch.features]
        self.batches.clear()  # the pieces are as large as the whole
        Y, names, repeated_labels = _assembled(labels, self.labels, columns.label_names, 0)
        Y.data[:] = 1.0
        X, feature_names, repeated = None, None, 0
        if features:
            known = columns.feature_names, columns.n_features
            X, feature_names, repeated = _assembled(features, self.features, *known, values)
        return Dataset.build(
            Y,
            X,
            texts if X is None else None,
            label_names=Numbers(Y.shape[1]) if names is None else names,  # type: ignore[arg-type]
            feature_names=feature_names,
            task="multilabel" if "multilabel" in tasks else tasks.pop(),
            weights=np.concatenate(weights) if any((each != 1).any() for each in weights) else None,
            notes=Notes(duplicate_features=repeated, duplicate_labels=repeated_labels),
            ids=ids or None,
        )


def _assembled(
    found: list[Ids],
    index: LabelIndex,
    names: list[str] | None,
    width: int,
    values: list[Any] | None = None,
) -> tuple[sparse.csr_array, list[str] | None, int]:
    """A matrix of at least ``width`` columns, the names of its columns, and how many ids were
    repeated within a row.
    """
    counts, ids = (
        np.concatenate([each.counts for each in found]),
        np.concatenate([each.ids for each in found]),
    )
    if found[0].names is not None:
        names, position = index.in_order()
        ids = position[ids]
    found.clear()
    width = max(width, len(names or ()), int(ids.max(initial=-1)) + 1)
    matrix, repeated = csr_rows(
        counts, ids, np.concatenate(values) if values else np.ones(len(ids), np.float32), width
    )
    return matrix, names, repeated
