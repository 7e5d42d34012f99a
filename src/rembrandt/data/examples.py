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
        own = {name: getattr(self, name) for name in ("weights", "groups", "times")}
        taken: Any = {name: None if each is None else each[index] for name, each in own.items()}
        return replace(self, X=as_rows(self.X[index]), Y=self.Y[index], **taken)


def numbered(name: str, values: Any, n: int) -> NDArray[np.int64] | None:
    """Number the values of a column in their order; equal values have the same number."""
    if values is None:
        return None
    column = np.asarray(values, dtype=None if hasattr(values, "dtype") else object)
    if column.shape != (n,):
        raise DataError(
            f"{name} has the shape {column.shape}; give one value for each of the {n:,} rows"
        )
    if column.dtype == object:
        try:
            column = column.astype(np.float64)
        except (TypeError, ValueError):
            column = np.array(["" if value is None else str(value) for value in column])
    kind = column.dtype.kind
    missing = (
        np.isnan(column)
        if kind in "fmM"
        else column == ""
        if kind in "UT"
        else np.zeros(n, dtype=bool)
    )
    if missing.any():
        raise DataError(
            f"{name} has {int(missing.sum()):,} missing values; fill them in, or remove these rows"
        )
    return np.unique(column, return_inverse=True)[1].astype(np.int64)


def duplicate_groups(X: Any, groups: Array | None, seed: int = 0) -> NDArray[np.int64]:
    """Number the groups of rows by their first rows: rows that are equal, or in the same of the
    groups given.

    Sparse rows are compared by a random projection, in which different rows are equal with
    probability 0. A product with a dense matrix may round equal rows differently, so dense rows are
    compared by their bytes.
    """
    if is_sparse(X):
        keys = np.asarray(X @ np.random.default_rng(seed).standard_normal(X.shape[1])).ravel()
    else:
        rows = np.ascontiguousarray(X)
        keys = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).ravel()
    if groups is not None:  # rows that equal rows and groups connect
        equal = np.unique(keys, return_inverse=True)[1]
        sides = int(equal.max(initial=0)) + 1
        size = sides + int(groups.max(initial=0)) + 1
        edges = sparse.csr_array(
            (np.ones(len(keys), np.int8), (equal, sides + groups)), shape=(size, size)
        )
        keys = connected_components(edges, directed=False)[1][equal]
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[group].astype(np.int64)
