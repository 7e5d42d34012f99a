"""Training examples: features, labels, the names of the labels and the weights of the examples."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.data.rows import Rows, as_rows
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

    @property
    def n(self) -> int:
        return int(self.Y.shape[0])

    @property
    def n_labels(self) -> int:
        return int(self.Y.shape[1])

    def take(self, index: Array) -> "Examples":
        """Return the examples at these positions, in memory."""
        weights, groups = (None if each is None else each[index] for each in (self.weights, self.groups))
        return replace(self, X=as_rows(self.X[index]), Y=self.Y[index], weights=weights, groups=groups)


def duplicate_groups(X: Any, groups: Array | None, seed: int = 0) -> NDArray[np.int64]:
    """Number the groups of rows by their first rows: those given, or else rows that are equal.

    Sparse rows are compared by a random projection, in which different rows are equal with probability 0. A product
    with a dense matrix may round equal rows differently, so dense rows are compared by their bytes.
    """
    if groups is not None:
        keys = groups
    elif is_sparse(X):
        keys = np.asarray(X @ np.random.default_rng(seed).standard_normal(X.shape[1])).ravel()
    else:
        rows = np.ascontiguousarray(X)
        keys = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).ravel()
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[group].astype(np.int64)
