"""Training examples: features, labels, the names of the labels and the weights of the examples."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from rembrandt.data.rows import Rows, as_rows
from rembrandt.errors import DataError
from rembrandt.linalg.sparse import is_sparse

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

    @property
    def n(self) -> int:
        return int(self.Y.shape[0])

    @property
    def n_labels(self) -> int:
        return int(self.Y.shape[1])

    def take(self, index: Array) -> "Examples":
        """Return the examples at these positions, in memory."""
        taken: dict[str, Any] = {"X": as_rows(self.X[index]), "Y": self.Y[index]}
        for name in ("weights", "groups", "times"):
            values = getattr(self, name)
            if values is not None:
                taken[name] = values[index]
        return replace(self, **taken)


def numbered(name: str, values: Any, n: int) -> NDArray[np.int64] | None:
    """Number the values of a column in their order; equal values have the same number."""
    if values is None:
        return None
    dtype = None if hasattr(values, "dtype") else object
    column = np.asarray(values, dtype=dtype)
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


def duplicate_groups(X: Any, groups: Array | None, seed: int = 0) -> NDArray[np.int64]:
    """Number groups of rows that are equal, or in the same of the groups given.

    The groups are numbered in the order of their first rows. Sparse rows are compared by a random
    projection, in which different rows are equal with probability 0. A product with a dense matrix
    may round equal rows differently, so dense rows are compared by their bytes.
    """
    if is_sparse(X):
        rng = np.random.default_rng(seed)
        projection = rng.standard_normal(X.shape[1])
        keys = np.asarray(X @ projection).ravel()
    else:
        rows = np.ascontiguousarray(X)
        row_bytes = np.dtype((np.void, rows.itemsize * rows.shape[1]))
        keys = rows.view(row_bytes).ravel()
    if groups is not None:
        keys = _connected(keys, groups)
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(first))
    return rank[group].astype(np.int64)


def _connected(keys: Array, groups: Array) -> NDArray[np.int32]:
    """The component of each row in the graph where equal keys and equal groups connect rows."""
    _, equal = np.unique(keys, return_inverse=True)
    n_keys = int(equal.max(initial=0)) + 1
    n_groups = int(groups.max(initial=0)) + 1
    size = n_keys + n_groups
    # A node for each key and for each group; each row is an edge between them.
    ones = np.ones(len(keys), np.int8)
    edges = sparse.csr_array((ones, (equal, n_keys + groups)), shape=(size, size))
    _, components = connected_components(edges, directed=False)
    return components[equal]
