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
        self, store: Store, columns: NDArray[np.int64] | None = None, is_normalized: bool = False
    ) -> None:
        self.store, self.columns, self.is_normalized = store, columns, is_normalized
        self.shape = (store.n, store.d if columns is None else len(columns))
        self.nnz = sum(entry.nonzeros[0] for entry in store.manifest.shards)
        self._starts = np.cumsum([0, *(entry.n for entry in store.manifest.shards)])

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
    def n_empty(self) -> None:
        """Not known before all rows are read."""

    def normalized(self) -> StoredRows:
        return StoredRows(self.store, self.columns, True)

    def select(self, columns: NDArray[np.int64]) -> StoredRows:
        if self.columns is not None:
            columns = np.where(columns < 0, -1, self.columns[columns])
        return StoredRows(self.store, columns, self.is_normalized)

    def blocks(self, n_rows: int) -> Iterator[tuple[slice, sp.csr_array]]:
        return ((rows, self[rows]) for rows in spans(self.shape[0], n_rows))

    def used_columns(self) -> NDArray[np.int64]:
        used = self.store.is_used
        return np.flatnonzero(
            used if self.columns is None else (self.columns >= 0) & used[self.columns]
        )

    def keeps_entries(self) -> bool:
        """Whether these are distinct columns of the store that include every one with an entry."""
        if self.columns is None:
            return True
        return (
            bool((self.columns >= 0).all()) and len(self.used_columns()) == self.store.is_used.sum()
        )

    def resident(self) -> tuple[int, int]:
        """One shard in use, and one that is read ahead."""
        entries = self.store.manifest.shards
        return max(entry.n for entry in entries), 2 * max(sum(entry.nonzeros) for entry in entries)

    def digest(self) -> str:
        digest = hashlib.sha256(f"{self.shape} {self.is_normalized}".encode())
        digest.update(b"" if self.columns is None else self.columns.tobytes())
        for entry in self.store.manifest.shards:
            digest.update(entry.sha256.encode())
        return digest.hexdigest()

    def __getitem__(self, index: Any) -> sp.csr_array:
        numbers = range(len(self.store.shards))
        if isinstance(index, slice) and index.step in (None, 1):
            start, stop, _ = index.indices(self.shape[0])
            local = [
                slice(max(0, start - begin), max(0, stop - begin))
                for begin in self._starts.tolist()
            ]
            return self._stacked(
                [(number, local[number]) for number in numbers if start < self._starts[number + 1]]
            )
        rows = (
            np.arange(*index.indices(self.shape[0]))
            if isinstance(index, slice)
            else np.asarray(index)
        )
        if rows.dtype == bool:
            rows = np.flatnonzero(rows)
        order = np.argsort(rows, kind="stable")
        cuts = np.searchsorted(rows[order], self._starts)
        wanted = [
            rows[order[cuts[number] : cuts[number + 1]]] - self._starts[number]
            for number in numbers
        ]
        return self._stacked([(number, wanted[number]) for number in numbers])[np.argsort(order)]

    def _stacked(self, wanted: list[tuple[int, Any]]) -> sp.csr_array:
        """Rows of several shards, given by their positions in each."""
        parts: list[Any] = [sp.csr_array((0, self.store.d), dtype=self.dtype)]
        for number, rows in wanted:
            if (rows.stop > rows.start) if isinstance(rows, slice) else len(rows):
                shard = self.store.shards[number]
                parts.append(shard.some_rows(rows, self.store.d))
                shard.release()
        X: Any = parts[-1] if len(parts) <= 2 else sp.vstack(parts, format="csr")
        X = as_csr(X if self.columns is None else select_columns(X, self.columns))
        return normalize_rows(X) if self.is_normalized else X
