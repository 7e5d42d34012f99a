"""Examples with their labels, as every other part of the package takes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from rembrandt.data.arrays import check_names, feature_matrix, label_matrix
from rembrandt.data.sparse import move_columns
from rembrandt.data.splits import draw_rows
from rembrandt.data.stored import StoredRows
from rembrandt.errors import DataError

Task = Literal["multiclass", "multilabel"]


@dataclass(frozen=True)
class Notes:
    """What is legal in the data but worth knowing, counted."""

    rows_without_features: int = 0
    rows_without_labels: int = 0
    duplicate_features: int = 0
    duplicate_labels: int = 0
    unseen_labels: int = 0
    unseen_label_uses: int = 0
    unseen_features: int = 0

    def sentences(self) -> list[str]:
        """The counts that are not zero, each as a sentence."""
        said = {
            "rows_without_features": "{:,} examples have no feature; they are kept.",
            "rows_without_labels": "{:,} examples have no label; they are kept.",
            "duplicate_features": "{:,} features were repeated within an example; their values were added.",
            "duplicate_labels": "{:,} labels were repeated within an example; each counts once.",
            "unseen_labels": "{:,} labels are not among those wanted; they were left out of the label matrix.",
            "unseen_label_uses": "{:,} true labels were lost with them; each example's number is kept.",
            "unseen_features": "{:,} features are not among those wanted; they were left out.",
        }
        return [said[f.name].format(getattr(self, f.name)) for f in fields(self) if getattr(self, f.name)]


@dataclass(frozen=True)
class Dataset:
    """Examples with their labels; a value that is never changed.

    Attributes
    ----------
    Y : CSR float32, n × c, ones where an example has a label; never made dense.
    X : CSR float32, n × d, or None where the examples are texts; of a store, rows that are read when asked for.
    texts : one string per example, or None where they are features.
    label_names : the c labels' names.
    feature_names : the d features' names, or None where they have only numbers.
    task : "multiclass" when every example has one label at most, else "multilabel".
    notes : counts of what is legal but worth knowing.
    weights : one per example, or None when all are one.
    dropped_labels : how many true labels each example lost to ``align_labels``, or None.
    label_titles : what to print for a label whose name is an identifier; may be empty.

    >>> import numpy as np
    >>> data = Dataset.from_arrays(np.eye(3), [["red"], ["red", "round"], []])
    >>> data.label_names, data.Y.nnz, data.task
    (['red', 'round'], 3, 'multilabel')
    """

    Y: sp.csr_array
    X: sp.csr_array | None
    texts: list[str] | None
    label_names: list[str]
    feature_names: list[str] | None
    task: Task
    notes: Notes = field(default_factory=Notes)
    weights: NDArray[np.float32] | None = None
    dropped_labels: NDArray[np.int64] | None = None
    label_titles: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def build(
        cls,
        Y: sp.csr_array,
        X: sp.csr_array | None = None,
        texts: list[str] | None = None,
        *,
        label_names: list[str],
        feature_names: list[str] | None = None,
        task: Task | None = None,
        weights: NDArray[np.float32] | None = None,
        notes: Notes | None = None,
    ) -> Dataset:
        """A dataset from finished parts: counts what is to be noted, and tells the task where it is not given."""
        labels_each = np.diff(Y.indptr)
        if task is None:
            task = "multiclass" if labels_each.max(initial=0) <= 1 else "multilabel"
        empty = int((np.diff(X.indptr) == 0).sum()) if X is not None else sum(not text for text in texts or ())
        counted = replace(
            notes or Notes(), rows_without_features=empty, rows_without_labels=int((labels_each == 0).sum())
        )
        return cls(Y, X, texts, label_names, feature_names, task, counted, weights)

    @classmethod
    def from_arrays(
        cls,
        X: Any = None,
        Y: Any = None,
        *,
        texts: Sequence[str] | None = None,
        label_names: Sequence[str] | None = None,
        feature_names: Sequence[str] | None = None,
        task: Task | None = None,
    ) -> Dataset:
        """A dataset from what is in memory.

        ``X`` is a matrix, sparse or dense (or None, with ``texts``). ``Y`` is a 0/1 matrix, sparse or dense, a list
        of lists of labels, or one label per example.
        """
        features = None if X is None else feature_matrix(X)
        if (features is None) == (texts is None):
            raise DataError("a dataset holds either features or texts; give X or texts, one of the two")
        matrix, names, repeated = label_matrix(Y, label_names)
        n = features.shape[0] if features is not None else len(texts or ())
        if matrix.shape[0] != n:
            raise DataError(f"Y has {matrix.shape[0]:,} rows but there are {n:,} examples; give one row for each")
        if features is not None and feature_names is not None:
            check_names(feature_names, features.shape[1], "feature")
        return cls.build(
            matrix,
            features,
            None if texts is None else list(texts),
            label_names=names,
            feature_names=None if feature_names is None else list(feature_names),
            task=task,
            notes=Notes(duplicate_labels=repeated),
        )

    @property
    def n_examples(self) -> int:
        return int(self.Y.shape[0])

    @property
    def n_labels(self) -> int:
        return int(self.Y.shape[1])

    def rows(self, index: ArrayLike) -> Dataset:
        """The examples at ``index`` (positions or a mask), in that order. Notes are counted anew for them."""
        chosen = np.asarray(index)
        if chosen.dtype == bool:
            chosen = np.flatnonzero(chosen)
        part = Dataset.build(
            self.Y[chosen],
            None if self.X is None else self.X[chosen],
            None if self.texts is None else [self.texts[i] for i in chosen.tolist()],
            label_names=self.label_names,
            feature_names=self.feature_names,
            task=self.task,
            weights=None if self.weights is None else self.weights[chosen],
        )
        dropped = None if self.dropped_labels is None else self.dropped_labels[chosen]
        return replace(part, dropped_labels=dropped, label_titles=self.label_titles)

    def split(self, fraction: float, seed: int = 0) -> tuple[Dataset, Dataset]:
        """Two parts at random, the second with about ``fraction`` of the examples; each keeps the file's order."""
        if not 0 < fraction < 1:
            raise DataError(f"fraction is {fraction}; give the second part's share, between 0 and 1")
        rest, second = draw_rows(self.n_examples, fraction, seed)
        return self.rows(rest), self.rows(second)

    def align_labels(self, names: Sequence[str]) -> Dataset:
        """The same examples over another list of labels, such as a model's.

        Labels that are not in it leave the matrix: they are counted in ``notes``, and ``dropped_labels`` keeps how
        many each example lost, so that recall can still be measured against all of its true labels.
        """
        wanted = list(names)
        place = _places(self.label_names, wanted)
        matrix = move_columns(self.Y, place, len(wanted))
        lost = np.diff(self.Y.indptr).astype(np.int64) - np.diff(matrix.indptr)
        before = 0 if self.dropped_labels is None else self.dropped_labels
        unseen = np.unique(self.Y.indices[place[self.Y.indices] < 0]).size
        notes = replace(
            self.notes,
            unseen_labels=self.notes.unseen_labels + unseen,
            unseen_label_uses=self.notes.unseen_label_uses + int(lost.sum()),
        )
        return replace(self, Y=matrix, label_names=wanted, notes=notes, dropped_labels=before + lost)

    def align_features(self, names: Sequence[str]) -> Dataset:
        """The same examples over another list of named features, such as a model's; others are counted and left out."""
        if self.X is None or self.feature_names is None:
            raise DataError("these examples have no named features to align; give data with feature names")
        wanted = list(names)
        if wanted == self.feature_names:
            return self
        place = _places(self.feature_names, wanted)
        notes = replace(self.notes, unseen_features=self.notes.unseen_features + int((place < 0).sum()))
        if isinstance(self.X, StoredRows):  # which rows this leaves empty is not known until they are read
            stored: Any = self.X.moved(place, len(wanted))
            return replace(self, X=stored, feature_names=wanted, notes=notes)
        matrix = move_columns(self.X, place, len(wanted))
        notes = replace(notes, rows_without_features=int((np.diff(matrix.indptr) == 0).sum()))
        return replace(self, X=matrix, feature_names=wanted, notes=notes)


def _places(names: Sequence[str], wanted: Sequence[str]) -> NDArray[np.int64]:
    """For each name its position among those wanted, or -1."""
    position = {name: i for i, name in enumerate(wanted)}
    return np.array([position.get(name, -1) for name in names], np.int64)
