"""One shard of a store: rows of X and Y in a file of arrays that is mapped into memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from rembrandt.errors import DataError, StorageError
from rembrandt.storage.arrays import (
    ArrayFile,
    Arrays,
    file_sha256,
    pack_strings,
    unpack_strings,
    write_arrays,
)
from rembrandt.storage.atomic import write_errors

Array = NDArray[Any]

REMEDY = "restore the file, or convert the data again"
_OPEN_SHARDS = 512  # that a process keeps open for the tasks of Dask
_COUNT_LIMIT = 1 << 62  # numbers of a manifest have to fit into 64 bits
_MAX_FILE_NAME = 255  # bytes that file systems allow

# Arrays of a sparse matrix and their types in a file.
_CSR: dict[str, np.dtype[Any]] = {
    "indptr": np.dtype("<i8"),
    "indices": np.dtype("<i4"),
    "data": np.dtype("<f4"),
}


@dataclass(frozen=True)
class Entry:
    """A shard as the manifest of its store describes it."""

    file: str
    n: int
    d: int  # columns of X when it was written; a store that grew since has more
    c: int
    nonzeros: tuple[int, int]  # of X and of Y
    has_weights: bool
    bytes: int
    sha256: str
    source: tuple[int, int]  # number of the input file, and of the part of it that the shard holds

    @classmethod
    def of(cls, facts: dict[str, Any]) -> Entry:
        """The entry in a manifest, which is not trusted.

        An impossible entry raises ValueError, TypeError or KeyError.
        """
        pairs = {"nonzeros": tuple(facts["nonzeros"]), "source": tuple(facts["source"])}
        entry = cls(**facts | pairs)
        numbers = [entry.n, entry.d, entry.c, entry.bytes, *entry.nonzeros, *entry.source]
        are_counts = len(numbers) == 8 and all(map(_is_count, numbers))
        is_plain_name = Path(entry.file).name == entry.file[:_MAX_FILE_NAME]
        if not (are_counts and isinstance(entry.sha256, str) and is_plain_name):
            raise ValueError("an entry of a shard is invalid")
        return entry


def _is_count(number: Any) -> bool:
    return isinstance(number, int) and 0 <= number < _COUNT_LIMIT


@dataclass(frozen=True)
class ShardData:
    """The contents of a shard.

    The names are those of labels and features that the shards before it do not have.
    """

    X: sp.csr_array
    Y: sp.csr_array
    weights: Array | None = None
    label_ids: Sequence[str] = ()
    feature_names: Sequence[str] = ()


def write_shard(folder: Path, name: str, data: ShardData, source: tuple[int, int]) -> Entry:
    """Write a shard and return its entry.

    The shard belongs to the store once the manifest has the entry.
    """
    arrays: Arrays = {}
    for field, dtype in _CSR.items():
        arrays[f"X.{field}"] = np.asarray(getattr(data.X, field), dtype)
    for field, dtype in _CSR.items():
        arrays[f"Y.{field}"] = np.asarray(getattr(data.Y, field), dtype)
    arrays |= pack_strings("labels", data.label_ids)
    arrays |= pack_strings("features", data.feature_names)
    if data.weights is not None:
        arrays["weights"] = np.asarray(data.weights, np.float32)
    path = folder / name
    with write_errors(path):
        size, sha256 = write_arrays(path, arrays)
    return Entry(
        file=name,
        n=data.X.shape[0],
        d=data.X.shape[1],
        c=data.Y.shape[1],
        nonzeros=(int(data.X.nnz), int(data.Y.nnz)),
        has_weights=data.weights is not None,
        bytes=size,
        sha256=sha256,
        source=source,
    )


class MappedShard:
    """A shard whose arrays are mapped into memory, checked when they are first used in a process.

    Besides the checksum every index is checked, because compiled code follows indices without
    bounds checks.
    """

    def __init__(self, path: Path, entry: Entry) -> None:
        self.path = path
        self.entry = entry
        self._file: ArrayFile | None = None

    def __reduce__(self) -> Any:
        return open_shard, (self.path.absolute(), self.entry)  # a worker may run in another folder

    @property
    def key(self) -> str:
        """Identifies the shard and its contents."""
        return f"{self.path}#{self.entry.sha256}"

    @property
    def n(self) -> int:
        return self.entry.n

    def rows(self, d: int, c: int) -> ShardData:
        """A copy of X and Y in memory, with ``d`` and ``c`` columns.

        These are the present numbers of the store, which may have grown since.
        """
        names = list(self._array_types())
        with self._errors():
            arrays = self._checked().copy(names)
        # Once more, as the file may have changed after it was checked.
        self._check(arrays)
        return ShardData(
            X=self._matrix("X", arrays, d),
            Y=self._matrix("Y", arrays, c),
            weights=arrays.get("weights"),
        )

    def some_rows(self, rows: Any, d: int) -> sp.csr_array:
        """Rows of X, of which only the pages that have them are read."""
        with self._errors():
            file = self._checked()
            file.check()
        # The file may change at any time, so copies are checked. SciPy drops entries that are
        # outside of the matrix from a slice of its rows.
        starts = file.arrays["X.indptr"].copy()
        self._check_starts("X", starts, self.entry.nonzeros[0])
        X = self._matrix("X", file.arrays | {"X.indptr": starts}, d)[rows].copy()
        n_entries = np.diff(starts)[rows].sum()
        if X.nnz != n_entries:
            raise self._unsound("X")
        self._check_entries("X", X.indices, X.data, d)
        return X

    def _matrix(self, name: str, arrays: Arrays, n_columns: int) -> sp.csr_array:
        """The matrix X or Y over these arrays, without a copy."""
        fields = (arrays[f"{name}.data"], arrays[f"{name}.indices"], arrays[f"{name}.indptr"])
        matrix = sp.csr_array(fields, shape=(self.entry.n, n_columns), copy=False)
        # It is written in this form; SciPy would check that otherwise.
        matrix.has_sorted_indices = True
        matrix.has_canonical_format = True
        return matrix

    def _checked(self) -> ArrayFile:
        """The file, whose contents are checked the first time, and when it was touched."""
        if self._file is None or self._file.may_have_changed():
            file = self._mapped(verify=True)
            self._check(file.arrays)
            file.release()
            self._file = file
        return self._file

    def names(self, kind: str) -> list[str]:
        """Names of "labels" or "features" that the shards before this one do not have.

        Nothing else of the file is read.
        """
        try:
            return unpack_strings(kind, self._mapped().arrays)
        except StorageError as error:
            raise DataError(
                f"it does not have names of {kind} ({error}); {REMEDY}", self.path
            ) from error

    def prefetch(self) -> None:
        """Start to read the file while another shard is in use."""
        if self._file is not None:
            self._file.prefetch()

    def release(self) -> None:
        """Give the memory of the shard back; it is read again when used."""
        if self._file is not None:
            self._file.release()

    def _mapped(self, verify: bool = False) -> ArrayFile:
        """The file, mapped into memory; ``verify`` checks its contents against the checksum."""
        path = self.path
        expected_size = self.entry.bytes
        with self._errors():
            size = path.stat().st_size
            if size != expected_size:
                raise DataError(
                    f"it has {size:,} bytes instead of {expected_size:,}; {REMEDY}", path
                )
            if verify and file_sha256(path) != self.entry.sha256:
                raise DataError(f"its contents do not match their checksum; {REMEDY}", path)
            return ArrayFile(path)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        path = self.path
        try:
            yield
        except FileNotFoundError as error:
            raise DataError(f"this shard of the store is missing; {REMEDY}", path) from error
        except OSError as error:
            raise DataError(f"the shard cannot be read ({error}); {REMEDY}", path) from error
        except StorageError as error:
            raise DataError(f"{error}; {REMEDY}") from error

    def _array_types(self) -> dict[str, np.dtype[Any]]:
        """The names and types of the arrays of rows."""
        types = {f"X.{field}": dtype for field, dtype in _CSR.items()}
        types |= {f"Y.{field}": dtype for field, dtype in _CSR.items()}
        if self.entry.has_weights:
            types["weights"] = np.dtype("<f4")
        return types

    def _check(self, arrays: Arrays) -> None:
        """Refuse arrays that are not the rows that the entry describes."""
        entry = self.entry
        for name, dtype in self._array_types().items():
            array = arrays.get(name)
            if array is None or array.dtype != dtype or array.ndim != 1:
                raise DataError(f"it does not have the arrays of a shard; {REMEDY}", self.path)
        self._check_matrix("X", arrays, entry.d, entry.nonzeros[0])
        self._check_matrix("Y", arrays, entry.c, entry.nonzeros[1])
        if entry.has_weights and arrays["weights"].size != entry.n:
            raise DataError(f"it does not have one weight for each row; {REMEDY}", self.path)

    def _check_matrix(self, name: str, arrays: Arrays, n_columns: int, nonzeros: int) -> None:
        """Refuse arrays that are not a sparse matrix of this size with finite values."""
        indices = arrays[f"{name}.indices"]
        values = arrays[f"{name}.data"]
        if not indices.size == values.size == nonzeros:
            raise self._unsound(name)
        self._check_starts(name, arrays[f"{name}.indptr"], nonzeros)
        self._check_entries(name, indices, values, n_columns)

    def _check_starts(self, name: str, starts: Array, nonzeros: int) -> None:
        """Refuse starts of rows that do not cut the entries into the rows of this shard."""
        is_sound = (
            starts.size == self.entry.n + 1
            and starts[0] == 0
            and starts[-1] == nonzeros
            and bool((starts[1:] >= starts[:-1]).all())
        )
        if not is_sound:
            raise self._unsound(name)

    def _check_entries(self, name: str, indices: Array, values: Array, n_columns: int) -> None:
        """Refuse columns that do not exist, and values that are not finite."""
        is_sound = (
            indices.min(initial=0) >= 0
            and indices.max(initial=-1) < n_columns
            and bool(np.isfinite(values).all())
        )
        if not is_sound:
            raise self._unsound(name)

    def _unsound(self, name: str) -> DataError:
        return DataError(f"its rows of {name} are not a sparse matrix; {REMEDY}", self.path)


@lru_cache(maxsize=_OPEN_SHARDS)
def open_shard(path: Path, entry: Entry) -> MappedShard:
    """A shard that another process sent.

    Dask sends a shard with every task. The cache returns the one that this worker has open, so that
    the checksum and the indices of a shard are checked once per process instead of once per task.
    """
    return MappedShard(path, entry)
