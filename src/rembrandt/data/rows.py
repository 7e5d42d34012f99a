"""The feature matrix as a fit sees it.

Its rows are in memory, or on disk and read when they are needed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.data.arrays import select_columns
from rembrandt.data.stored import StoredRows
from rembrandt.errors import DataError
from rembrandt.linalg.blocks import spans
from rembrandt.linalg.sparse import (
    Matrix,
    as_csr,
    is_sparse,
    normalize_rows,
    used_columns,
    without_empty_columns,
)

N_SAMPLED_ENTRIES = 128  # entries of Y from which the number of pairs is estimated
MAX_LABEL_EXAMPLES = 256  # examples of a label that the estimate reads, which bounds its work

# The work and the memory of a fit grow with the columns, also with those that no row has.
MAX_EMPTY_COLUMNS = 1 << 24  # allowed for any data
MAX_COLUMNS_PER_ENTRY = 32  # data with more columns needs entries in proportion


@dataclass(frozen=True)
class MemoryRows:
    """Rows in memory: a NumPy array or a CSR matrix. `StoredRows` has the same methods."""

    X: Matrix

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.X.shape[0]), int(self.X.shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.X.dtype

    @property
    def nnz(self) -> int:
        """Number of stored entries."""
        if is_sparse(self.X):
            return int(self.X.nnz)
        return int(self.X.size)

    @property
    def is_sparse(self) -> bool:
        """Whether only the entries that are not zero are stored."""
        return bool(is_sparse(self.X))

    @property
    def n_empty(self) -> int:
        """Number of rows without entries.

        It is None for rows on disk, where that would take a pass over the data.
        """
        if not is_sparse(self.X):
            return 0
        n_entries = np.diff(self.X.indptr)
        return int((n_entries == 0).sum())

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> Matrix:
        """Load the rows at ``index`` (a slice, positions or a mask) into memory."""
        if isinstance(index, slice) and index == slice(None):
            return self.X  # X[:] would copy a sparse matrix
        return self.X[index]

    def blocks(self, n_rows: int) -> Iterator[tuple[slice, Matrix]]:
        """Iterate over consecutive blocks of at most ``n_rows`` rows, in memory."""
        for rows in spans(self.shape[0], n_rows):
            yield rows, self.X[rows]

    def normalized(self) -> MemoryRows:
        """Scale each row to unit Euclidean length."""
        return MemoryRows(normalize_rows(self.X))

    def select(self, columns: NDArray[np.int64]) -> MemoryRows:
        """These columns, where -1 stands for a column of zeros.

        Select columns before `normalized`, or select all that are used.
        """
        return MemoryRows(select_columns(self.X, columns))

    def used_columns(self) -> NDArray[np.int64]:
        """Columns with at least one stored entry."""
        return used_columns(self.X)

    def resident(self) -> tuple[int, int]:
        """Rows and stored entries that a pass over the data holds in memory at a time."""
        return self.shape[0], self.nnz

    def digest(self) -> str:
        """SHA-256 of the contents."""
        return array_digest(self.X)


Rows = MemoryRows | StoredRows


def check_width(X: Rows) -> None:
    """Refuse training rows with far more columns than entries, such as one very large id."""
    n_columns = X.shape[1]
    if n_columns > max(MAX_EMPTY_COLUMNS, MAX_COLUMNS_PER_ENTRY * X.nnz):
        raise DataError(
            f"X has {n_columns:,} columns, and the number of its entries is {X.nnz:,}: nearly all "
            "columns are empty. Number the features without gaps, for example with "
            "X[:, np.unique(X.indices)], or hash them to fewer"
        )


def label_feature_pairs(X: Rows, Y: sparse.csr_array) -> int:
    """Estimate how many pairs of a label and a feature occur together in some row.

    This is an upper bound on the weights of a tree. Entries of Y are drawn. Over all entries, the
    features of the entry's label divided by its examples add up to the pairs. Of labels with more
    than `MAX_LABEL_EXAMPLES` examples that many are used, which makes the estimate larger.
    """
    if Y.nnz == 0:
        return 0
    rng = np.random.default_rng(0)
    labels = Y.indices[rng.integers(Y.nnz, size=N_SAMPLED_ENTRIES)]
    examples = sparse.csr_array(Y[:, labels].T)
    n_examples = np.diff(examples.indptr)

    rank_in_label = np.arange(examples.nnz) - np.repeat(examples.indptr[:-1], n_examples)
    is_used = rank_in_label < MAX_LABEL_EXAMPLES
    n_used = np.minimum(n_examples, MAX_LABEL_EXAMPLES)
    rows, positions = np.unique(examples.indices[is_used], return_inverse=True)

    ones = np.ones(len(positions), np.float32)
    starts = np.append(0, np.cumsum(n_used))
    shape = (len(labels), len(rows))
    membership = sparse.csr_array((ones, positions, starts), shape=shape)
    label_features = membership @ abs(without_empty_columns(as_csr(X[rows])))
    n_features = np.diff(label_features.indptr)
    return int(Y.nnz * np.mean(n_features / n_used))


def as_rows(X: Any) -> Rows:
    """Wrap a matrix; rows are returned as they are."""
    if is_rows(X):
        return X
    if is_sparse(X):
        return MemoryRows(as_csr(X))
    return MemoryRows(np.asarray(X))


def array_digest(A: Any) -> str:
    """SHA-256 of a dense array or a sparse matrix, with its shape and type."""
    digest = hashlib.sha256(f"{A.shape} {A.dtype}".encode())
    if A.dtype == object:
        A = np.frombuffer(json.dumps(A.tolist()).encode(), dtype=np.uint8)
    arrays = [A]
    if is_sparse(A):
        arrays = [A.indptr, A.indices, A.data]
    for array in arrays:
        flat = np.ascontiguousarray(array).reshape(-1)
        digest.update(flat.view(np.uint8).data)
    return digest.hexdigest()


def is_rows(X: Any) -> bool:
    """Whether ``X`` is `Rows`, as opposed to a matrix."""
    return isinstance(X, Rows)
