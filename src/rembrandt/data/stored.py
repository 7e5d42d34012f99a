"""The feature matrix of a store: rows that are read from the disk when they are asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from rembrandt.data.sparse import move_columns

if TYPE_CHECKING:
    from rembrandt.data.store import Store


class StoredRows:
    """X of a store. ``X[rows]`` (a slice, positions or a mask) is a CSR matrix in memory; X itself never is."""

    ndim = 2
    dtype = np.dtype(np.float32)

    def __init__(self, store: Store, place: NDArray[np.int64] | None = None, n_columns: int | None = None) -> None:
        self.store = store
        self._place = place
        self.shape = (store.n, store.d if n_columns is None else n_columns)
        self.nnz = sum(entry.nonzeros[0] for entry in store.manifest.shards)
        self._starts = np.cumsum([0, *(entry.n for entry in store.manifest.shards)])

    def __len__(self) -> int:
        return self.shape[0]

    def moved(self, place: NDArray[np.int64], n_columns: int) -> StoredRows:
        """The same rows with column ``j`` moved to ``place[j]``, or dropped where that is negative."""
        if self._place is not None:
            place = np.where(self._place < 0, -1, place[self._place])
        return StoredRows(self.store, place, n_columns)

    @property
    def is_whole(self) -> bool:
        """Whether the columns are those of the store."""
        return self._place is None

    def __getitem__(self, rows: Any) -> sp.csr_array:
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
        if self._place is not None:
            stacked = move_columns(stacked, self._place, self.shape[1])
        if stacked.indices.dtype != np.int32:
            stacked.indices = stacked.indices.astype(np.int32)
        return stacked
