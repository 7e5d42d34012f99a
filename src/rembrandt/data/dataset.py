"""Examples with their labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from rembrandt.data.arrays import check_names, feature_matrix, move_columns, named_labels
from rembrandt.data.columns import TableColumns
from rembrandt.data.hierarchy import Parents
from rembrandt.data.labels import LabelIndex, Title
from rembrandt.data.rows import as_rows
from rembrandt.data.splits import draw_rows
from rembrandt.errors import DataError

Task = Literal["multiclass", "multilabel"]


@dataclass(frozen=True)
class Notes:
    """Counts of what is valid in the data but may surprise."""

    rows_without_features: int = 0
    rows_without_labels: int = 0
    duplicate_features: int = 0
    duplicate_labels: int = 0
    unseen_labels: int = 0
    unseen_label_uses: int = 0
    unseen_features: int = 0

    def __add__(self, other: Notes) -> Notes:
        totals = {}
        for count in fields(self):
            totals[count.name] = getattr(self, count.name) + getattr(other, count.name)
        return Notes(**totals)

    def sentences(self) -> list[str]:
        """The counts that are not zero, each as a sentence."""
        sentences = []
        for count in fields(self):
            value = getattr(self, count.name)
            if value:
                sentences.append(_SENTENCES[count.name].format(value))
        return sentences


_SENTENCES = {
    "rows_without_features": "{:,} examples have no feature; they are kept.",
    "rows_without_labels": "{:,} examples have no label; they are kept.",
    "duplicate_features": "{:,} features were repeated within an example; their values were added.",
    "duplicate_labels": "{:,} labels were repeated within an example; each counts once.",
    "unseen_labels": (
        "{:,} labels are not among those wanted; they were left out of the label matrix."
    ),
    "unseen_label_uses": (
        "{:,} true labels were lost with them; the number of each example is kept."
    ),
    "unseen_features": "{:,} features are not among those wanted; they were left out.",
}


@dataclass(frozen=True)
class Dataset:
    """Examples with their labels, as `read` returns them.

    A dataset is not changed by any method; methods return new ones.

    Parameters
    ----------
    Y : csr_array of shape (n_examples, n_labels)
        Ones where an example has a label, of type float32.
    X : csr_array of shape (n_examples, n_features) or None
        Features, of type float32; None if the examples are texts. The rows of a store are read from
        disk when they are indexed.
    texts : list of str or None
        One text for each example; None if the examples have features.
    label_ids : list of str
        The identifier of the label of each column of ``Y``.
    feature_names : list of str or None
        The name of each column of ``X``; None if features only have numbers.
    task : {"multiclass", "multilabel"}
        "multiclass" if every example has at most one label.
    notes : Notes, optional
        Counts of what is valid in the data but may surprise, such as examples without labels.
    weights : ndarray of shape (n_examples,), default=None
        The weight of each example; None if all are 1.
    dropped_labels : ndarray of shape (n_examples,), default=None
        How many true labels each example lost in `align_labels`.
    label_names : mapping of str to str or to tuple (str, str), optional
        Names of labels that are shown to people, by identifier; or names and descriptions.
    label_parents : mapping of str to list of str, or str, optional
        The parents of labels by identifier, or the separator between the parts of a label.
    ids : list of str, default=None
        What identifies each example, where a column of a table was named for it.
    vectors : ndarray of shape (n_examples, n_dimensions), default=None
        Dense features next to the texts, such as sentence vectors.
    columns : TableColumns, default=None
        The columns of a table that texts and labels were read from.

    Attributes
    ----------
    n_examples : int
        Number of examples.
    n_labels : int
        Number of labels.

    Examples
    --------
    >>> import numpy as np
    >>> from rembrandt import Dataset
    >>> data = Dataset.from_arrays(np.eye(3), [["red"], ["red", "round"], []])
    >>> data.label_ids, data.Y.nnz, data.task
    (['red', 'round'], 3, 'multilabel')
    """

    Y: sp.csr_array
    X: sp.csr_array | None
    texts: list[str] | None
    label_ids: list[str]
    feature_names: list[str] | None
    task: Task
    notes: Notes = field(default_factory=Notes)
    weights: NDArray[np.float32] | None = None
    dropped_labels: NDArray[np.int64] | None = None
    label_names: Mapping[str, Title] = field(default_factory=dict)
    label_parents: Parents = field(default_factory=dict)
    ids: list[str] | None = None
    vectors: NDArray[np.float32] | None = None
    columns: TableColumns | None = None

    @classmethod
    def build(
        cls,
        Y: sp.csr_array,
        X: sp.csr_array | None = None,
        texts: list[str] | None = None,
        *,
        label_ids: list[str],
        feature_names: list[str] | None = None,
        task: Task | None = None,
        weights: NDArray[np.float32] | None = None,
        notes: Notes | None = None,
        ids: list[str] | None = None,
        columns: TableColumns | None = None,
    ) -> Dataset:
        """Make a dataset from checked parts, and count notes.

        Parameters
        ----------
        Y, X, texts, label_ids, feature_names, weights, ids, columns
            As for the class.
        task : {"multiclass", "multilabel"}, default=None
            None means multiclass if no example has several labels.
        notes : Notes, default=None
            Counts of duplicates.

        Returns
        -------
        Dataset
        """
        if task is None:
            most_labels = np.diff(Y.indptr).max(initial=0)
            task = "multiclass" if most_labels <= 1 else "multilabel"
        data = cls(
            Y=Y,
            X=X,
            texts=texts,
            label_ids=label_ids,
            feature_names=feature_names,
            task=task,
            notes=notes or Notes(),
            weights=weights,
            ids=ids,
            columns=columns,
        )
        return data._counted()

    def _counted(self) -> Dataset:
        """The same examples, with those without features or labels counted in ``notes``."""
        if self.X is not None:
            n_without_features = as_rows(self.X).n_empty
        else:
            n_without_features = sum(not text for text in self.texts or ())
        n_labels = np.diff(self.Y.indptr)
        notes = replace(
            self.notes,
            rows_without_features=n_without_features or 0,  # None for rows on disk
            rows_without_labels=int((n_labels == 0).sum()),
        )
        return replace(self, notes=notes)

    @classmethod
    def from_arrays(
        cls,
        X: Any = None,
        Y: Any = None,
        *,
        texts: Sequence[str] | None = None,
        label_ids: Sequence[str] | None = None,
        feature_names: Sequence[str] | None = None,
        task: Task | None = None,
    ) -> Dataset:
        """Make a dataset from arrays or lists in memory.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_examples, n_features), default=None
            Features; None if there are texts.
        Y : array-like or sparse matrix
            A 0/1 matrix of shape (n_examples, n_labels), or for each example its label or its list
            of labels.
        texts : sequence of str, default=None
            One text for each example, instead of ``X``.
        label_ids : sequence of str, default=None
            Labels of the columns of a matrix, or all labels in the wanted order. By default columns
            are numbered, and labels are sorted.
        feature_names : sequence of str, default=None
            Names of the columns of ``X``.
        task : {"multiclass", "multilabel"}, default=None
            None means multiclass if no example has several labels.

        Returns
        -------
        Dataset
            Identifiers of labels are always strings.
        """
        features = None
        if X is not None:
            features = feature_matrix(X)
        if (features is None) == (texts is None):
            raise DataError(
                "a dataset holds either features or texts; give X or texts, one of the two"
            )
        matrix, names, repeated = named_labels(Y, label_ids)
        n = features.shape[0] if features is not None else len(texts or ())
        if matrix.shape[0] != n:
            raise DataError(
                f"Y has {matrix.shape[0]:,} rows but there are {n:,} examples; "
                "give one row for each"
            )
        if feature_names is not None:
            feature_names = list(feature_names)
            if features is not None:
                check_names(feature_names, features.shape[1], "feature")
        return cls.build(
            matrix,
            features,
            None if texts is None else list(texts),
            label_ids=names,
            feature_names=feature_names,
            task=task,
            notes=Notes(duplicate_labels=repeated),
        )

    @property
    def n_examples(self) -> int:
        return int(self.Y.shape[0])

    @property
    def n_labels(self) -> int:
        return int(self.Y.shape[1])

    @property
    def inputs(self) -> Any:
        """What a classifier takes: texts, features, or texts with vectors."""
        inputs = self.texts if self.X is None else self.X
        if self.vectors is not None:
            return inputs, self.vectors
        return inputs

    def rows(self, index: ArrayLike) -> Dataset:
        """Select examples.

        Parameters
        ----------
        index : array-like of int or bool
            Positions, in the wanted order, or a mask.

        Returns
        -------
        Dataset
            The examples, with notes counted for them alone.
        """
        dtype = None if np.size(index) else np.int64  # an empty list would be of floats
        positions = np.asarray(index, dtype=dtype)
        if positions.dtype == bool:
            positions = np.flatnonzero(positions)
        taken: dict[str, Any] = {"notes": Notes()}
        for name in ("Y", "X", "weights", "dropped_labels", "vectors"):  # arrays
            values = getattr(self, name)
            if values is not None:
                taken[name] = values[positions]
        for name in ("texts", "ids"):  # lists
            values = getattr(self, name)
            if values is not None:
                taken[name] = [values[position] for position in positions.tolist()]
        return replace(self, **taken)._counted()

    def split(self, fraction: float, seed: int = 0) -> tuple[Dataset, Dataset]:
        """Split the examples at random.

        Parameters
        ----------
        fraction : float
            Share of the examples in the second part, between 0 and 1.
        seed : int, default=0
            Seed of the random numbers.

        Returns
        -------
        first, second : Dataset
            Both keep the order of the examples.
        """
        if not 0 < fraction < 1:
            raise DataError(
                f"fraction is {fraction}; give the share of the second part, between 0 and 1"
            )
        first, second = draw_rows(self.n_examples, fraction, seed)
        return self.rows(first), self.rows(second)

    def align_labels(self, names: Sequence[str]) -> Dataset:
        """Express the labels over another list of labels, such as that of a model.

        Parameters
        ----------
        names : sequence of str
            The labels of the columns of the new label matrix.

        Returns
        -------
        Dataset
            Labels that are not in ``names`` are left out and counted in ``notes``.
            ``dropped_labels`` is how many each example lost, so that recall can be measured against
            all of its true labels.
        """
        index = LabelIndex(names)
        columns = index.columns(self.label_ids)
        matrix = move_columns(self.Y, columns, len(index))
        n_labels = np.diff(self.Y.indptr).astype(np.int64)
        dropped = n_labels - np.diff(matrix.indptr)
        is_unseen = columns[self.Y.indices] < 0
        unseen = np.unique(self.Y.indices[is_unseen])
        notes = Notes(unseen_labels=unseen.size, unseen_label_uses=int(dropped.sum()))
        if self.dropped_labels is not None:
            dropped = self.dropped_labels + dropped
        return replace(
            self,
            Y=matrix,
            label_ids=index.names,
            notes=self.notes + notes,
            dropped_labels=dropped,
        )

    def align_features(self, names: Sequence[str]) -> Dataset:
        """Express the features over another list of named features, such as that of a model.

        Parameters
        ----------
        names : sequence of str
            The names of the columns of the new feature matrix.

        Returns
        -------
        Dataset
            Features that are not in ``names`` are left out and counted in ``notes``.
        """
        if self.X is None or self.feature_names is None:
            raise DataError(
                "these examples have no named features to align; give data with feature names"
            )
        wanted = list(names)
        if wanted == self.feature_names:
            return self
        columns = LabelIndex(self.feature_names).columns(wanted)
        rows: Any = as_rows(self.X).select(columns)
        n_kept = int((columns >= 0).sum())
        n_unseen = len(self.feature_names) - n_kept
        notes = self.notes + Notes(unseen_features=n_unseen)
        if rows.n_empty is not None:
            notes = replace(notes, rows_without_features=rows.n_empty)
        return replace(self, X=rows.X, feature_names=wanted, notes=notes)
