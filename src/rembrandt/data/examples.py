"""Training examples: features, labels, the names of the labels and the weights of the examples."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.data.rows import Rows, as_rows
from rembrandt.data.views import Views
from rembrandt.errors import DataError
from rembrandt.features.terms import hash_each
from rembrandt.linalg.hashing import Keys
from rembrandt.settings.view_names import FEATURES, TEXTS, vector_views

Array = NDArray[Any]


@dataclass(frozen=True)
class Examples:
    """Features (n × d) and labels (n × c) of examples."""

    X: Rows
    Y: sparse.csr_array
    classes: Array
    multiclass: bool
    weights: Array | None = None
    groups: Array | None = None  # numbers; rows of a group are held out together
    times: Array | None = None  # numbers; the latest rows are held out
    vectors: tuple[Rows, ...] = ()  # blocks of vectors beside the features
    texts: NDArray[np.object_] | None = None  # that the features were made from
    # Of each column, where columns are terms: hashes of the terms.
    term_keys: Keys | None = None
    # Of each row, hashes of its content: they decide every random order of the rows, so that an
    # order hardly changes with one row more. None where rows are on disk.
    order_keys: Keys | None = None
    # Of each label, "" where there is none; None where no label has one.
    label_names: list[str] | None = None
    label_descriptions: list[str] | None = None
    label_other_names: list[str] | None = None  # in lines

    @property
    def n(self) -> int:
        return int(self.Y.shape[0])

    @property
    def n_labels(self) -> int:
        return int(self.Y.shape[1])

    @property
    def rows(self) -> Views:
        """The rows, in memory, as prediction takes them."""
        return Views(self.X[:], tuple(block[:] for block in self.vectors), self.texts)

    @property
    def label_keys(self) -> Keys:
        """Hashes of the labels, which do not depend on what other labels there are."""
        return hash_each([str(label) for label in self.classes.tolist()])

    def view(self, name: str) -> "Examples":
        """Return the examples with the features of one view; parts that read texts take them
        from `texts`.
        """
        if name in (FEATURES, TEXTS):
            return self
        number = vector_views(len(self.vectors)).index(name)
        return replace(self, X=self.vectors[number], term_keys=None)

    def take(self, index: Array) -> "Examples":
        """Return the examples at these positions, in memory."""
        taken: dict[str, Any] = {
            "X": as_rows(self.X[index]),
            "Y": self.Y[index],
            "vectors": tuple(as_rows(block[index]) for block in self.vectors),
        }
        for name in ("weights", "groups", "times", "texts", "order_keys"):
            values = getattr(self, name)
            if values is not None:
                taken[name] = values[index]
        return replace(self, **taken)


def numbered(name: str, values: Any, n: int) -> NDArray[np.int64] | None:
    """Number the values of a column in their order; equal values have the same number."""
    if values is None:
        return None
    if hasattr(values, "dtype"):
        column = np.asarray(values)
    else:
        column = np.asarray(values, dtype=object)
    if column.shape != (n,):
        raise DataError(
            f"{name} has the shape {column.shape}; give one value for each of the {n:,} rows"
        )
    if column.dtype == object:
        try:
            column = column.astype(np.float64)
        except (TypeError, ValueError):
            column = np.array(["" if value is None else str(value) for value in column])
    n_missing = int(_is_missing(column).sum())
    if n_missing:
        raise DataError(
            f"{name} has {n_missing:,} missing values; fill them in, or remove these rows"
        )
    _, numbers = np.unique(column, return_inverse=True)
    return numbers.astype(np.int64)


def _is_missing(column: Array) -> NDArray[np.bool_]:
    """Whether each value stands for none: NaN, NaT or an empty text."""
    kind = column.dtype.kind
    if kind in "fmM":
        return np.isnan(column)
    if kind in "UT":
        return column == ""
    return np.zeros(len(column), dtype=bool)
