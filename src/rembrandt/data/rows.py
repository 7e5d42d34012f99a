"""The feature matrix as a fit sees it: rows in memory, or rows on disk that are read when they are
needed.
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
from rembrandt.linalg.blocks import spans
from rembrandt.linalg.sparse import Matrix, as_csr, is_sparse, normalize_rows, used_columns

SAMPLED, EXAMPLES = 128, 256  # labels by which pairs are estimated, and examples of one of them


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
        return int(self.X.nnz if is_sparse(self.X) else self.X.size)

    @property
    def n_empty(self) -> int:
        """Number of rows without entries; None for rows on disk, where that would take a pass over
        the data.
        """
        return int((np.diff(self.X.indptr) == 0).sum()) if is_sparse(self.X) else 0

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> Matrix:
        """Load the rows at ``index`` (a slice, positions or a mask) into memory."""
        everything = isinstance(index, slice) and index == slice(None)
        return self.X if everything else self.X[index]  # X[:] would copy a sparse matrix

    def blocks(self, n_rows: int) -> Iterator[tuple[slice, Matrix]]:
        """Iterate over consecutive blocks of at most ``n_rows`` rows, in memory."""
        return ((rows, self.X[rows]) for rows in spans(self.shape[0], n_rows))

    def normalized(self) -> MemoryRows:
        """Scale each row to unit Euclidean length."""
        return MemoryRows(normalize_rows(self.X))

    def select(self, columns: NDArray[np.int64]) -> MemoryRows:
        """These columns, -1 for a column of zeros; select columns before `normalized`, or select
        the used ones.
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


def label_feature_pairs(X: Rows, Y: sparse.csr_array) -> int:
    """Estimate how many pairs of a label and a feature occur together in some row: an upper bound
    on tree weights.

    Entries of Y are drawn. Over all entries, the features of the entry's label divided by its
    examples add up to the pairs. Of labels with more than `EXAMPLES` examples that many are used,
    which makes the estimate larger.
    """
    rng = np.random.default_rng(0)
    labels = Y.indices[rng.integers(max(1, Y.nnz), size=SAMPLED)] if Y.nnz else Y.indices
    some = sparse.csr_array(Y[:, labels].T)
    kept = np.arange(some.nnz) - np.repeat(some.indptr[:-1], np.diff(some.indptr)) < EXAMPLES
    counts = np.minimum(np.diff(some.indptr), EXAMPLES)
    rows, at = np.unique(some.indices[kept], return_inverse=True)
    ends = np.append(0, np.cumsum(counts))
    member = sparse.csr_array(
        (np.ones(len(at), np.float32), at, ends), shape=(len(labels), len(rows))
    )
    found = np.diff((member @ abs(as_csr(X[rows]))).indptr)
    return int(Y.nnz * np.mean(found / counts)) if Y.nnz else 0


def as_rows(X: Any) -> Rows:
    """Wrap a matrix; rows are returned as they are."""
    if is_rows(X):
        return X
    return MemoryRows(as_csr(X) if is_sparse(X) else np.asarray(X))


def array_digest(A: Any) -> str:
    """SHA-256 of a dense array or a sparse matrix, with its shape and type."""
    digest = hashlib.sha256(f"{A.shape} {A.dtype}".encode())
    if A.dtype == object:
        A = np.frombuffer(json.dumps(A.tolist()).encode(), dtype=np.uint8)
    for part in (A.indptr, A.indices, A.data) if is_sparse(A) else (A,):
        digest.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def is_rows(X: Any) -> bool:
    """Whether ``X`` is `Rows`, as opposed to a matrix."""
    return isinstance(X, Rows)
