"""One shard of a store: a block of rows of X and Y as plain arrays in one file, mapped into memory while it is used."""

from __future__ import annotations

import hashlib
import mmap
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from rembrandt.errors import DataError
from rembrandt.files import whole_file

Array = NDArray[Any]

ALIGNMENT = 64  # bytes: where an array may begin
_ARRAYS = {
    "X.indptr": "<i8",
    "X.indices": "<i4",
    "X.data": "<f4",
    "Y.indptr": "<i8",
    "Y.indices": "<i4",
    "Y.data": "<f4",
    "weights": "<f4",
}
_OPTIONAL = ("weights",)


@dataclass(frozen=True)
class Entry:
    """What the manifest says of a shard; its arrays lie end to end in the order of ``lengths``."""

    file: str
    n: int
    d: int  # columns of X when it was written; a store that grew since has more
    c: int
    lengths: dict[str, int]
    bytes: int
    sha256: str
    source: list[Any]  # the input and the number of the part of it that the shard holds

    @property
    def nonzeros(self) -> tuple[int, int]:
        """Of X and of Y."""
        return self.lengths["X.data"], self.lengths["Y.data"]

    def facts(self) -> dict[str, Any]:
        return dict(vars(self))

    @classmethod
    def of(cls, facts: Any, where: Path) -> Entry:
        """The entry in a manifest, which is hostile until its types and sums have been looked at."""
        try:
            entry = cls(**facts)
            numbers = [entry.n, entry.d, entry.c, entry.bytes, *entry.lengths.values()]
            whole = all(isinstance(number, int) and 0 <= number < 1 << 62 for number in numbers)
            known = set(_ARRAYS) - set(_OPTIONAL) <= set(entry.lengths) <= set(_ARRAYS)
            plain = isinstance(entry.file, str) and Path(entry.file).name == entry.file
            sound = whole and known and plain and entry.bytes == _layout(entry.lengths)[1]
        except (TypeError, AttributeError, KeyError):
            sound = False
        if not sound:
            raise DataError("its entry of a shard is not one; the store is damaged, convert the data again", where)
        return entry


@dataclass(frozen=True)
class Rows:
    """The rows of a shard."""

    X: sp.csr_array
    Y: sp.csr_array
    weights: Array | None


def write_shard(
    folder: Path, name: str, X: sp.csr_array, Y: sp.csr_array, weights: Array | None, source: list[Any]
) -> Entry:
    """Write a shard's file under a temporary name, force it to the disk and rename it: it is whole or absent."""
    arrays = {f"{part}.{field}": getattr(M, field) for part, M in (("X", X), ("Y", Y)) for field in _CSR}
    if weights is not None:
        arrays["weights"] = weights
    lengths = {key: int(value.size) for key, value in arrays.items()}
    offsets, size = _layout(lengths)
    path, digest = folder / name, hashlib.sha256()
    with whole_file(path) as file:
        for key, value in arrays.items():
            for piece in (bytes(offsets[key] - file.tell()), np.ascontiguousarray(value, _ARRAYS[key]).data):
                digest.update(piece)
                file.write(piece)
    return Entry(name, X.shape[0], X.shape[1], Y.shape[1], lengths, size, digest.hexdigest(), source)


_CSR = ("indptr", "indices", "data")


class MappedShard:
    """A shard's arrays on the pages of its file. ``release`` gives the pages back; they are read again when used.

    The check sum and every index are looked at when the shard is first used in this process: compiled code follows
    the indices without asking.
    """

    def __init__(self, path: Path, entry: Entry, verify: bool = True) -> None:
        self.path, self.entry = path, entry
        self._verify = verify
        self._map: mmap.mmap | None = None

    def __reduce__(self) -> Any:
        return opened, (self.path.absolute(), self.entry, self._verify)  # others may work in another folder

    @property
    def key(self) -> str:
        """What tells this shard from every other."""
        return f"{self.path}#{self.entry.sha256}"

    @property
    def n(self) -> int:
        return self.entry.n

    def rows(self, d: int, c: int) -> Rows:
        """X and Y with ``d`` and ``c`` columns: a store that grew since the shard was written has more of them."""
        if self._map is None:
            self._map = self._open()
        arrays = self._arrays(self._map)
        X, Y = (
            sp.csr_array(
                (arrays[f"{part}.data"], arrays[f"{part}.indices"], arrays[f"{part}.indptr"]),
                shape=(self.entry.n, columns),
                copy=False,
            )
            for part, columns in (("X", d), ("Y", c))
        )
        for M in (X, Y):  # written sorted and without repetitions, so there is no need to look again
            M.has_sorted_indices = M.has_canonical_format = True
        return Rows(X, Y, arrays.get("weights"))

    def prefetch(self) -> None:
        """Ask the system to read the file ahead, beside the work on another shard."""
        if self._map is not None:
            self._map.madvise(mmap.MADV_WILLNEED)

    def release(self) -> None:
        """Give the pages back to the system: they stay in the file's cache while there is room."""
        if self._map is not None:
            self._map.madvise(mmap.MADV_DONTNEED)

    def _open(self) -> mmap.mmap:
        entry, path = self.entry, self.path
        try:
            with path.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                if size != entry.bytes:
                    raise DataError(f"it has {size:,} bytes instead of {entry.bytes:,}; {_REMEDY}", path)
                # Private pages, never written to: compiled code takes arrays that may be for the same type as others.
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        except FileNotFoundError as error:
            raise DataError(f"the store says there is such a shard, but it is missing; {_REMEDY}", path) from error
        except (OSError, ValueError) as error:
            raise DataError(f"the shard cannot be read ({error}); {_REMEDY}", path) from error
        if self._verify and hashlib.sha256(mapped).hexdigest() != entry.sha256:
            raise DataError(f"its contents do not match their checksum; {_REMEDY}", path)
        self._check(self._arrays(mapped))
        mapped.madvise(mmap.MADV_DONTNEED)
        return mapped

    def _arrays(self, mapped: mmap.mmap) -> dict[str, Array]:
        offsets, _ = _layout(self.entry.lengths)
        return {
            key: np.frombuffer(mapped, _ARRAYS[key], length, offsets[key]) for key, length in self.entry.lengths.items()
        }

    def _check(self, arrays: dict[str, Array]) -> None:
        entry = self.entry
        for part, columns in (("X", entry.d), ("Y", entry.c)):
            starts, indices, values = (arrays[f"{part}.{field}"] for field in _CSR)
            sound = (
                starts.size == entry.n + 1
                and starts[0] == 0
                and starts[-1] == indices.size == values.size
                and bool((starts[1:] >= starts[:-1]).all())
                and indices.min(initial=0) >= 0
                and indices.max(initial=-1) < columns
                and bool(np.isfinite(values).all())
            )
            if not sound:
                raise DataError(f"its rows of {part} are not a sparse matrix; {_REMEDY}", self.path)
        if arrays.get("weights", np.empty(entry.n)).size != entry.n:
            raise DataError(f"it has not one weight for each row; {_REMEDY}", self.path)


_opened: dict[str, MappedShard] = {}


def opened(path: Path, entry: Entry, verify: bool) -> MappedShard:
    """A shard that came from another process: the one that is open here already, for it has been checked."""
    shard = MappedShard(path, entry, verify)
    return _opened.setdefault(shard.key, shard)


_REMEDY = "restore the file, or convert the data again"


def _layout(lengths: Mapping[str, int]) -> tuple[dict[str, int], int]:
    """Where each array begins, and where the last one ends."""
    offsets, at = {}, 0
    for key, length in lengths.items():
        offsets[key] = at = -(-at // ALIGNMENT) * ALIGNMENT
        at += length * np.dtype(_ARRAYS[key]).itemsize
    return offsets, at
