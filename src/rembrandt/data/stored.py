"""The feature matrix of a store: rows that are read from the disk when they are asked for."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from rembrandt.data.sparse import move_columns
from rembrandt.linalg.blocks import spans

if TYPE_CHECKING:
    from rembrandt.data.store import Store


class StoredRows:
    """X of a store. ``X[rows]`` (a slice, positions or a mask) is a CSR matrix in memory; X itself never is.

    ``X[:, columns]`` and ``X.normalized()`` are such matrices again, of some columns and with rows of length one.
    """

    ndim = 2
    dtype = np.dtype(np.float32)

    def __init__(
        self,
        store: Store,
        place: NDArray[np.int64] | None = None,
        n_columns: int | None = None,
        columns: NDArray[np.int64] | None = None,
        is_normalized: bool = False,
    ) -> None:
        self.store = store
        self._place = place
        self.columns = columns  # of the store, where these are not all
        self.is_normalized = is_normalized
        width = store.d if columns is None else len(columns)
        self.shape = (store.n, width if n_columns is None else n_columns)
        self.nnz = sum(entry.nonzeros[0] for entry in store.manifest.shards)
        self._starts = np.cumsum([0, *(entry.n for entry in store.manifest.shards)])

    def __len__(self) -> int:
        return self.shape[0]

    def moved(self, place: NDArray[np.int64], n_columns: int) -> StoredRows:
        """The same rows with column ``j`` moved to ``place[j]``, or dropped where that is negative."""
        if self._place is not None or self.columns is not None:
            raise ValueError("columns of a store are moved or chosen once")
        return StoredRows(self.store, place, n_columns, None, self.is_normalized)

    @property
    def is_moved(self) -> bool:
        """Whether the columns are others than the store's."""
        return self._place is not None

    def normalized(self) -> StoredRows:
        """The same rows, of length one."""
        return StoredRows(self.store, self._place, self.shape[1], self.columns, True)

    def select(self, columns: NDArray[np.int64]) -> StoredRows:
        """Keep these columns only."""
        return self[:, columns]

    def blocks(self, n_rows: int) -> Iterator[tuple[slice, sp.csr_array]]:
        """Iterate over consecutive blocks of at most ``n_rows`` rows, in memory."""
        return ((rows, self[rows]) for rows in spans(self.shape[0], n_rows))

    def used_columns(self) -> NDArray[np.int64]:
        """The columns that some row has an entry in; one pass over the shards."""
        used = np.zeros(self.store.d, dtype=bool)
        for shard in self.store.shards:
            used[shard.rows(*self._columns).X.indices] = True
            shard.release()
        return np.flatnonzero(used)

    @property
    def largest_shard(self) -> tuple[int, int]:
        """Most rows, and most non-zeros of X and Y together, in a shard."""
        entries = self.store.manifest.shards
        return max(entry.n for entry in entries), max(sum(entry.nonzeros) for entry in entries)

    def resident(self) -> tuple[int, int]:
        """Rows and stored entries in memory at a time: one shard in use, and one that is read ahead."""
        rows, entries = self.largest_shard
        return rows, 2 * entries

    def digest(self) -> str:
        """SHA-256 of the contents, from the checksums of the shards."""
        digest = hashlib.sha256(f"{self.shape} {self.is_normalized}".encode())
        for entry in self.store.manifest.shards:
            digest.update(entry.sha256.encode())
        return digest.hexdigest()

    def label_feature_pairs(self, Y: sp.csr_array | None = None) -> int:
        """Number of (label, feature) pairs that occur in the same row; one pass over the row starts."""
        total = 0
        for shard in self.store.shards:
            rows = shard.rows(*self._columns)
            total += int(np.diff(rows.Y.indptr).astype(np.int64) @ np.diff(rows.X.indptr).astype(np.int64))
            shard.release()
        return total

    def __getitem__(self, rows: Any) -> Any:
        if isinstance(rows, tuple):
            every, columns = rows
            if every != slice(None) or self._place is not None or self.columns is not None:
                raise ValueError("columns of a store are chosen once, for all rows")
            return StoredRows(self.store, None, None, np.asarray(columns, dtype=np.int64), self.is_normalized)
        if isinstance(rows, slice):
            start, stop, step = rows.indices(self.shape[0])
            if step == 1:
                return self._stacked(self._between(start, max(start, stop)))
            rows = np.arange(start, stop, step)
        return self._chosen(np.asarray(rows))

    def _between(self, start: int, stop: int) -> list[sp.csr_array]:
        first = int(np.searchsorted(self._starts, start, side="right")) - 1
        parts = []
        for number in range(first, len(self.store.shards)):
            begin = int(self._starts[number])
            if begin >= stop:
                break
            shard = self.store.shards[number]
            parts.append(shard.rows(*self._columns).X[max(0, start - begin) : stop - begin].copy())
            shard.release()
        return parts

    def _chosen(self, rows: NDArray[Any]) -> sp.csr_array:
        if rows.dtype == bool:
            rows = np.flatnonzero(rows)
        order = np.argsort(rows, kind="stable")
        cuts = np.searchsorted(rows[order], self._starts)
        parts = []
        for number in np.flatnonzero(np.diff(cuts)).tolist():
            shard = self.store.shards[number]
            wanted = rows[order[cuts[number] : cuts[number + 1]]] - self._starts[number]
            parts.append(shard.rows(*self._columns).X[wanted])
            shard.release()
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        chosen: Any = self._stacked(parts)[back]
        return chosen

    @property
    def _columns(self) -> tuple[int, int]:
        return self.store.d, self.store.c

    def _stacked(self, parts: list[sp.csr_array]) -> sp.csr_array:
        empty: Any = sp.csr_array((0, self.store.d), dtype=self.dtype)
        stacked: Any = parts[0] if len(parts) == 1 else sp.csr_array(sp.vstack([empty, *parts], format="csr"))
        if self.columns is not None:
            stacked = stacked[:, self.columns]
        if self._place is not None:
            stacked = move_columns(stacked, self._place, self.shape[1])
        if stacked.indices.dtype != np.int32:
            stacked.indices = stacked.indices.astype(np.int32)
        return _normalized(stacked) if self.is_normalized else stacked


def _normalized(X: Any) -> sp.csr_array:
    """Rows of length one; rows of zeros stay zero."""
    lengths = np.sqrt(np.bincount(np.repeat(np.arange(X.shape[0]), np.diff(X.indptr)), X.data**2, X.shape[0]))
    factors = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    data = X.data * np.repeat(factors, np.diff(X.indptr)).astype(X.dtype)
    return sp.csr_array((data, X.indices, X.indptr), shape=X.shape)
