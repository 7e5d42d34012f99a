"""One shard of a store: a block of rows of X and Y in a file of arrays that is mapped into
memory.
"""

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
        """The entry in a manifest, which is not trusted; an impossible one raises ValueError,
        TypeError or KeyError.
        """
        entry = cls(
            **facts | {"nonzeros": tuple(facts["nonzeros"]), "source": tuple(facts["source"])}
        )
        numbers = [entry.n, entry.d, entry.c, entry.bytes, *entry.nonzeros, *entry.source]
        possible = len(numbers) == 8 and all(
            isinstance(number, int) and 0 <= number < 1 << 62 for number in numbers
        )
        if not (
            possible and isinstance(entry.sha256, str) and Path(entry.file).name == entry.file[:255]
        ):
            raise ValueError("an entry of a shard is invalid")
        return entry


@dataclass(frozen=True)
class ShardData:
    """The contents of a shard. The names are those of labels and features that the shards before it
    do not have.
    """

    X: sp.csr_array
    Y: sp.csr_array
    weights: Array | None = None
    label_names: Sequence[str] = ()
    feature_names: Sequence[str] = ()


def write_shard(folder: Path, name: str, data: ShardData, source: tuple[int, int]) -> Entry:
    """Write a shard and return its entry; the shard belongs to the store once the manifest has the
    entry.
    """
    X, Y, weights = data.X, data.Y, data.weights
    arrays: Arrays = {
        f"{part}.{field}": np.asarray(getattr(M, field), dtype)
        for part, M in (("X", X), ("Y", Y))
        for field, dtype in _CSR.items()
    }
    arrays |= pack_strings("labels", data.label_names) | pack_strings(
        "features", data.feature_names
    )
    if weights is not None:
        arrays["weights"] = np.asarray(weights, np.float32)
    with write_errors(folder / name):
        size, sha256 = write_arrays(folder / name, arrays)
    nonzeros = int(X.nnz), int(Y.nnz)
    return Entry(
        name,
        X.shape[0],
        X.shape[1],
        Y.shape[1],
        nonzeros,
        weights is not None,
        size,
        sha256,
        source,
    )


class MappedShard:
    """A shard whose arrays are mapped into memory, checked when they are first used in a process.

    Besides the checksum every index is checked, because compiled code follows indices without
    bounds checks.
    """

    def __init__(self, path: Path, entry: Entry) -> None:
        self.path, self.entry = path, entry
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
        """X and Y with ``d`` and ``c`` columns, the present numbers of the store; a copy in
        memory.
        """
        names = [f"{part}.{field}" for part in "XY" for field in _CSR]
        with self._errors():
            arrays = self._checked().copy([*names, "weights"] if self.entry.has_weights else names)
        return ShardData(
            self._matrix("X", arrays, d), self._matrix("Y", arrays, c), arrays.get("weights")
        )

    def some_rows(self, rows: Any, d: int) -> sp.csr_array:
        """Rows of X, of which only the pages that have them are read."""
        with self._errors():
            file = self._checked()
            file.check()
        return self._matrix("X", file.arrays, d)[rows].copy()

    def _matrix(self, part: str, arrays: Arrays, columns: int) -> sp.csr_array:
        fields = (arrays[f"{part}.data"], arrays[f"{part}.indices"], arrays[f"{part}.indptr"])
        M = sp.csr_array(fields, shape=(self.entry.n, columns), copy=False)
        M.has_sorted_indices = M.has_canonical_format = (
            True  # as it was written; without this SciPy would check it
        )
        return M

    def _checked(self) -> ArrayFile:
        """The file, whose contents are checked the first time."""
        if self._file is None:
            file = self._mapped(verify=True)
            self._check(file.arrays)
            file.release()
            self._file = file
        return self._file

    def names(self, kind: str) -> list[str]:
        """Names of "labels" or "features" that the shards before this one do not have; only these
        are read.
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
        entry, path = self.entry, self.path
        with self._errors():
            size = path.stat().st_size
            if size != entry.bytes:
                raise DataError(f"it has {size:,} bytes instead of {entry.bytes:,}; {REMEDY}", path)
            if verify and file_sha256(path) != entry.sha256:
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

    def _check(self, arrays: Arrays) -> None:
        entry = self.entry
        types = {f"{part}.{field}": dtype for part in "XY" for field, dtype in _CSR.items()}
        types |= {"weights": np.dtype("<f4")} if entry.has_weights else {}
        if any(
            name not in arrays or arrays[name].dtype != types[name] or arrays[name].ndim != 1
            for name in types
        ):
            raise DataError(f"it does not have the arrays of a shard; {REMEDY}", self.path)
        for part, columns, nonzeros in (
            ("X", entry.d, entry.nonzeros[0]),
            ("Y", entry.c, entry.nonzeros[1]),
        ):
            starts, indices, values = (arrays[f"{part}.{field}"] for field in _CSR)
            sound = (
                starts.size == entry.n + 1
                and starts[0] == 0
                and starts[-1] == indices.size == values.size == nonzeros
                and bool((starts[1:] >= starts[:-1]).all())
                and indices.min(initial=0) >= 0
                and indices.max(initial=-1) < columns
                and bool(np.isfinite(values).all())
            )
            if not sound:
                raise DataError(f"its rows of {part} are not a sparse matrix; {REMEDY}", self.path)
        if entry.has_weights and arrays["weights"].size != entry.n:
            raise DataError(f"it does not have one weight for each row; {REMEDY}", self.path)


@lru_cache(maxsize=512)
def open_shard(path: Path, entry: Entry) -> MappedShard:
    """A shard that another process sent.

    Dask sends a shard with every task. The cache returns the one that this worker has open, so that
    the checksum and the indices of a shard are checked once per process instead of once per task.
    """
    return MappedShard(path, entry)
