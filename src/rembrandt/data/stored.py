"""The feature matrix of a store, whose rows are read from disk when they are needed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from rembrandt.data.arrays import select_columns
from rembrandt.linalg.blocks import spans
from rembrandt.linalg.sparse import as_csr, normalize_rows

if TYPE_CHECKING:
    from rembrandt.data.store import Store
    from rembrandt.features.text import TextFeatures


class StoredRows:
    """The rows of a store (see `Rows`): ``X[rows]`` is a CSR matrix in memory.

    ``columns`` are the columns of the store that these rows have, -1 for a column of zeros; None
    means all. With ``is_normalized`` rows are scaled to unit length over the columns that are
    selected.
    """

    ndim = 2
    dtype = np.dtype(np.float32)

    def __init__(
        self,
        store: Store,
        columns: NDArray[np.int64] | None = None,
        is_normalized: bool = False,
    ) -> None:
        self.store = store
        self.columns = columns
        self.is_normalized = is_normalized
        n_columns = store.d
        if columns is not None:
            n_columns = len(columns)
        self.shape = (store.n, n_columns)
        entries = store.manifest.shards
        self.nnz = sum(entry.nonzeros[0] for entry in entries)
        # The first row of each shard, and the number of all rows.
        n_rows = [entry.n for entry in entries]
        self._starts = np.cumsum([0, *n_rows])

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def X(self) -> StoredRows:
        return self

    @property
    def text(self) -> TextFeatures | None:
        """The transformer that turned texts into these features."""
        return self.store.text

    @property
    def is_sparse(self) -> bool:
        """Whether only the entries that are not zero are stored."""
        return True

    @property
    def n_empty(self) -> None:
        """Not known before all rows are read."""

    def normalized(self) -> StoredRows:
        return StoredRows(self.store, self.columns, True)

    def select(self, columns: NDArray[np.int64]) -> StoredRows:
        if self.columns is not None:
            in_store = self.columns[columns]
            columns = np.where(columns < 0, -1, in_store)
        return StoredRows(self.store, columns, self.is_normalized)

    def blocks(self, n_rows: int) -> Iterator[tuple[slice, sp.csr_array]]:
        for rows in spans(self.shape[0], n_rows):
            yield rows, self[rows]

    def used_columns(self) -> NDArray[np.int64]:
        is_used = self.store.is_used
        if self.columns is not None:
            is_used = (self.columns >= 0) & is_used[self.columns]
        return np.flatnonzero(is_used)

    def keeps_entries(self) -> bool:
        """Whether these are distinct columns of the store that include every one with an entry."""
        if self.columns is None:
            return True
        if (self.columns < 0).any():
            return False
        n_used = int(self.store.is_used.sum())
        return len(self.used_columns()) == n_used

    def resident(self) -> tuple[int, int]:
        """One shard in use, and one that is read ahead."""
        entries = self.store.manifest.shards
        n_rows = max(entry.n for entry in entries)
        n_entries = max(sum(entry.nonzeros) for entry in entries)
        return n_rows, 2 * n_entries

    def digest(self) -> str:
        description = f"{self.shape} {self.is_normalized}"
        digest = hashlib.sha256(description.encode())
        if self.columns is not None:
            digest.update(self.columns.tobytes())
        for entry in self.store.manifest.shards:
            digest.update(entry.sha256.encode())
        return digest.hexdigest()

    def __getitem__(self, index: Any) -> sp.csr_array:
        if isinstance(index, slice):
            start, stop, step = index.indices(self.shape[0])
            if step == 1:
                return self._consecutive(start, stop)
            rows = np.arange(start, stop, step)
        else:
            rows = np.asarray(index)
        if rows.dtype == bool:
            rows = np.flatnonzero(rows)
        return self._scattered(rows)

    def _consecutive(self, start: int, stop: int) -> sp.csr_array:
        """The rows from ``start`` to ``stop``."""
        shard_rows: list[tuple[int, Any]] = []
        for number in range(len(self.store.shards)):
            begin = int(self._starts[number])
            end = int(self._starts[number + 1])
            if max(start, begin) < min(stop, end):
                positions = slice(max(0, start - begin), stop - begin)
                shard_rows.append((number, positions))
        return self._stacked(shard_rows)

    def _scattered(self, rows: NDArray[np.int64]) -> sp.csr_array:
        """Rows in any order, which are read in the order of the shards."""
        order = np.argsort(rows, kind="stable")
        ascending = rows[order]
        cuts = np.searchsorted(ascending, self._starts)
        shard_rows: list[tuple[int, Any]] = []
        for number in range(len(self.store.shards)):
            rows_here = ascending[cuts[number] : cuts[number + 1]]
            if len(rows_here):
                positions = rows_here - self._starts[number]
                shard_rows.append((number, positions))
        X = self._stacked(shard_rows)
        return X[np.argsort(order)]

    def _stacked(self, shard_rows: list[tuple[int, Any]]) -> sp.csr_array:
        """Rows of several shards, given by the numbers of the shards and positions in each."""
        blocks: list[Any] = [sp.csr_array((0, self.store.d), dtype=self.dtype)]
        for number, positions in shard_rows:
            shard = self.store.shards[number]
            blocks.append(shard.some_rows(positions, self.store.d))
            shard.release()
        X: Any = blocks[-1]  # of one shard, or of none
        if len(blocks) > 2:
            X = sp.vstack(blocks, format="csr")
        if self.columns is not None:
            X = select_columns(X, self.columns)
        X = as_csr(X)
        if self.is_normalized:
            X = normalize_rows(X)
        return X
