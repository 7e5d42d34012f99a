"""Named arrays in one file in the safetensors format.

Arrays are written in one pass, and read into memory or mapped into it.

A file is eight bytes of header length, a JSON header with the type, shape and offsets of each
array, and then the arrays without gaps. The widest types come first and the header is padded, so
every array starts at a multiple of its item size and can be used in place. The safetensors library
reads these files; it is not used here because it copies all arrays in memory when writing and when
reading. Models, stores and checkpoints use this format.

Files are not trusted. The header is checked when a file is opened. `checked`, `unpack_csr` and
`unpack_strings` check the contents, because compiled code follows indices without bounds checks;
whatever is built from a file uses them.
"""

import hashlib
import json
import math
import mmap
import operator
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rembrandt import memory
from rembrandt.errors import StorageError
from rembrandt.storage.files import open_regular

Arrays = dict[str, NDArray[Any]]
Shape = Sequence[int | None]

# The types of the format that are used here, by their names in the header.
_TYPES: dict[str, np.dtype[Any]] = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "I64": np.dtype("<i8"),
    "I32": np.dtype("<i4"),
    "I8": np.dtype("i1"),
    "U16": np.dtype("<u2"),
    "U8": np.dtype("u1"),
    "BOOL": np.dtype("?"),
}
_TYPE_NAMES = {dtype: name for name, dtype in _TYPES.items()}

# Bytes of the length of the header, with which a file begins.
_LENGTH_BYTES = 8

# The arrays start at a multiple of this: the bytes in a cache line.
_ALIGNMENT = 64

# Bytes hashed, written or read at a time.
_CHUNK_BYTES = 1 << 24

# Numbers checked at a time.
_CHECKED_NUMBERS = 1 << 24

# Bytes; the limit of the safetensors library.
_MAX_HEADER_BYTES = 100_000_000
# Of JSON that is read from files; text with as many commas counts, too.
MAX_JSON_VALUES = 4_000_000


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> tuple[int, str]:
    """Write the arrays, force them to disk, and return the size and the SHA-256 of the file.

    A failure leaves no file. The same arrays give the same bytes, whatever their order.
    """
    header = _header(arrays)
    text = json.dumps(header).encode()
    padding = -(_LENGTH_BYTES + len(text)) % _ALIGNMENT
    text += b" " * padding
    length = len(text).to_bytes(_LENGTH_BYTES, "little")
    size = len(length) + len(text)

    digest = hashlib.sha256()
    try:
        with path.open("wb") as file:
            _write(file, digest, length + text)
            for name in header:
                data = _as_bytes(arrays[name])
                _write(file, digest, data)
                size += len(data)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return size, digest.hexdigest()


def _header(arrays: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    """Return the header, in the order in which the arrays are written: the widest types first."""
    header: dict[str, Any] = {}
    start = 0
    for name in sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name)):
        array = arrays[name]
        dtype = array.dtype.newbyteorder("<")
        if dtype not in _TYPE_NAMES:
            raise StorageError(
                f"array {name!r} has type {array.dtype}, which cannot be saved; "
                f"convert it to one of {', '.join(map(str, _TYPE_NAMES))}"
            )
        stop = start + array.nbytes
        header[name] = {
            "dtype": _TYPE_NAMES[dtype],
            "shape": list(array.shape),
            "data_offsets": [start, stop],
        }
        start = stop
    return header


def _as_bytes(array: NDArray[Any]) -> memoryview:
    """Return the bytes of an array in row-major order, little-endian."""
    dtype = array.dtype.newbyteorder("<")
    flat = np.ascontiguousarray(array, dtype=dtype).reshape(-1)
    return flat.view(np.uint8).data


def _write(file: BinaryIO, digest: Any, data: bytes | memoryview) -> None:
    """Write bytes to a file, and add them to its digest."""
    for start in range(0, len(data), _CHUNK_BYTES):
        chunk = data[start : start + _CHUNK_BYTES]
        digest.update(chunk)
        file.write(chunk)


def read_arrays(
    path: Path, size: int | None = None, sha256: str | None = None, writable: bool = False
) -> Arrays:
    """Return the arrays of a file, copied into memory, after checking its size and its SHA-256.

    The file is read once, through one descriptor. So the arrays are those of the checksum, and a
    file that another process truncates meanwhile is an error, where a mapped file would end this
    process.
    """
    with open_regular(path) as file:
        actual_size = os.fstat(file.fileno()).st_size
        if size is not None and actual_size != size:
            raise damaged(path, f"it has {actual_size} bytes instead of {size}")
        free = memory.available()
        if actual_size > free:
            raise StorageError(
                f"{path} has {actual_size:,} bytes and {free:,} bytes of memory are free; free "
                "more, or move"
            )
        contents = np.empty(actual_size, dtype=np.uint8)
        digest = hashlib.sha256()
        for start in range(0, actual_size, _CHUNK_BYTES):
            chunk = contents[start : start + _CHUNK_BYTES]
            _fill(path, file, chunk)
            if sha256 is not None:
                digest.update(chunk.data)
    if sha256 is not None and digest.hexdigest() != sha256:
        raise damaged(path, "its contents do not match their checksum")
    contents.flags.writeable = writable
    return _arrays(path, contents)


def _fill(path: Path, file: Any, chunk: NDArray[np.uint8]) -> None:
    """Read as many bytes as ``chunk`` has."""
    view = chunk.data
    n_read = 0
    while n_read < len(view):
        n_new = file.readinto(view[n_read:])
        if not n_new:
            raise damaged(path, "it became shorter while it was read")
        n_read += n_new


class ArrayFile:
    """The arrays of a file, mapped into memory: their pages are read when they are used.

    The arrays count as writable, and nothing that is written to them reaches the file. Compiled
    functions need no second version for read-only arrays then.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with open_regular(path) as file:
            self._status = os.fstat(file.fileno())
            if self._status.st_size < _LENGTH_BYTES:
                raise damaged(path, "it ends before its header")
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        self._contents = np.frombuffer(self._map, dtype=np.uint8)
        self.arrays = _arrays(path, self._contents)

    def check(self, file: Any = None) -> None:
        """Refuse a file that has changed since it was opened.

        The use of pages beyond its end would end the process.
        """
        now = self.path.stat() if file is None else os.fstat(file.fileno())
        then = self._status
        is_unchanged = (
            os.path.samestat(now, then)
            and now.st_size == then.st_size
            and now.st_mtime_ns == then.st_mtime_ns
        )
        if not is_unchanged:
            raise damaged(self.path, "it was changed while it was in use")

    def may_have_changed(self) -> bool:
        """Whether the file was touched in any way since it was opened.

        The time of the last change of the inode cannot be set back, as that of the contents can.
        It also changes with the permissions and the links of a file.
        """
        return self.path.stat().st_ctime_ns != self._status.st_ctime_ns

    def copy(self, names: Sequence[str]) -> Arrays:
        """Return copies of some arrays.

        They are read and not mapped, so that changes of the file do not affect them.
        """
        copies: Arrays = {}
        with open_regular(self.path) as file:
            self.check(file)
            for name in names:
                array = self.arrays[name]
                copy = np.empty_like(array)
                if array.size > 0:
                    offset = array.ctypes.data - self._contents.ctypes.data
                    file.seek(offset)
                    _fill(self.path, file, copy.reshape(-1).view(np.uint8))
                copies[name] = copy
        return copies

    def prefetch(self) -> None:
        """Ask the operating system to read the file ahead, on systems that support it."""
        self._advise("MADV_WILLNEED")

    def release(self) -> None:
        """Give the pages back to the operating system, on systems that support it.

        They are read again when they are used.
        """
        self._advise("MADV_DONTNEED")

    def _advise(self, advice: str) -> None:
        if hasattr(mmap, advice):  # not on Windows
            self._map.madvise(getattr(mmap, advice))


@dataclass(frozen=True)
class _Entry:
    """An array as the header of a file describes it; the offsets count from the header's end."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    start: int
    stop: int


def _arrays(path: Path, contents: NDArray[np.uint8]) -> Arrays:
    """The arrays in the bytes of a file, whose header is not trusted."""
    header, data = _split(path, contents)
    entries = [_entry(path, name, description) for name, description in header.items()]
    entries.sort(key=lambda entry: (entry.start, entry.stop))
    arrays: Arrays = {}
    end = 0
    for entry in entries:
        name = entry.name
        if entry.start != end:
            raise damaged(path, f"array {name!r} does not start where the one before it ends")
        end = entry.stop
        if end > len(data):
            continue  # the message below names the sizes
        try:
            flat = data[entry.start : end].view(entry.dtype)
            arrays[name] = flat.reshape(entry.shape)
        except (ValueError, OverflowError) as cause:  # more or longer dimensions than NumPy has
            raise damaged(path, f"array {name!r} has an impossible shape") from cause
    if end != len(data):
        raise damaged(path, f"its arrays take {end} bytes, but {len(data)} follow the header")
    return arrays


def _split(path: Path, contents: NDArray[np.uint8]) -> tuple[dict[str, Any], NDArray[np.uint8]]:
    """Split a file into the entries of its header and the bytes of its arrays."""
    length = int.from_bytes(contents[:_LENGTH_BYTES].tobytes(), "little")
    if length > min(len(contents) - _LENGTH_BYTES, _MAX_HEADER_BYTES):
        raise damaged(path, "it ends before its header does")
    after_length = contents[_LENGTH_BYTES:]
    header = parse_json(path, after_length[:length].tobytes(), "its header")
    if not isinstance(header, dict):
        raise damaged(path, "its header does not list arrays")
    header.pop("__metadata__", None)  # the format lets writers add notes
    return header, after_length[length:]


def _entry(path: Path, name: str, description: Any) -> _Entry:
    """Check what the header says about an array."""
    try:
        dtype = _TYPES[description["dtype"]]
        shape = tuple(map(operator.index, description["shape"]))
        start, stop = map(operator.index, description["data_offsets"])
    except (KeyError, TypeError, ValueError) as cause:
        raise damaged(path, f"the header entry of array {name!r} cannot be read") from cause
    size = dtype.itemsize * math.prod(shape)
    is_negative = min((start, *shape)) < 0
    if is_negative or stop - start != size:
        raise damaged(path, f"array {name!r} does not have the size that its shape says")
    return _Entry(name, dtype, shape, start, stop)


def parse_json(path: Path, text: bytes, what: str = "it") -> Any:
    """Parse JSON that is not trusted; numbers are finite.

    A value takes up to a hundred bytes of memory, however short it is in the file.
    """
    if max_json_values(text) > MAX_JSON_VALUES:
        raise damaged(path, f"{what} has more than {MAX_JSON_VALUES:,} values")

    def refuse(name: str) -> None:
        raise ValueError(f"{name} is not JSON")

    try:
        return json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError) as cause:
        raise damaged(path, f"{what} is not JSON") from cause


def max_json_values(text: bytes) -> int:
    """Return a number that the values of JSON do not exceed, without parsing it."""
    return 1 + text.count(b",") + text.count(b"[") + text.count(b"{")


def damaged(path: Path, finding: str) -> StorageError:
    """The error for a file that is not as it was written; callers add what to do."""
    return StorageError(f"{path} is damaged: {finding}")


def file_sha256(path: Path) -> str:
    """The SHA-256 of a regular file."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def pack_csr(name: str, matrix: Any) -> Arrays:
    """Return a sparse matrix as named arrays.

    They are ``name.indptr``, ``name.indices``, ``name.data`` and ``name.shape``. Column numbers
    take two bytes each where they fit, and so do numbers that half precision holds exactly.
    """
    csr = sparse.csr_array(matrix)
    data = csr.data
    if data.dtype == np.float32:
        half = as_half(data)
        if np.array_equal(half, data):
            data = half
    return {
        f"{name}.indptr": csr.indptr,
        f"{name}.indices": csr.indices.astype(_index_type(csr.shape[1])),
        f"{name}.data": data,
        f"{name}.shape": np.array(csr.shape, dtype=np.int64),
    }


def _index_type(n_columns: int) -> type[np.integer[Any]]:
    """Return the smallest type of the format that holds the number of every column."""
    if n_columns <= 1 << 16:
        return np.uint16
    if n_columns <= 1 << 31:
        return np.int32
    return np.int64


def as_half(values: NDArray[Any]) -> NDArray[np.float16]:
    """Round numbers to half precision; those that are too large to the largest."""
    largest = np.finfo(np.float16).max
    clipped = np.clip(values, -largest, largest)
    return clipped.astype(np.float16)


def unpack_csr(
    name: str, arrays: Mapping[str, NDArray[Any]], shape: Shape = (None, None)
) -> sparse.csr_array:
    """Return the matrix that `pack_csr` packed under this name, after checking every index."""
    stored_shape = checked(f"{name}.shape", arrays, (2,), "i", 0, 1 << 62)
    n, m = stored_shape.tolist()
    if not _matches((n, m), shape):
        raise StorageError(f"matrix {name!r} is {n} × {m} and not {_listed(shape)}")
    starts = checked(f"{name}.indptr", arrays, (n + 1,), "i")
    n_entries = int(starts[-1])
    indices = checked(f"{name}.indices", arrays, (n_entries,), "iu", 0, m)
    if indices.dtype == np.uint16:
        indices = indices.astype(np.int32)
    data = checked(f"{name}.data", arrays, (n_entries,), smallest=2)
    if data.dtype == np.float16:
        data = data.astype(np.float32)
    if starts[0] != 0 or not _is_ascending(starts):
        raise StorageError(f"the rows of matrix {name!r} do not follow each other")
    matrix = sparse.csr_array((data, indices, starts), shape=(n, m), copy=False)
    # SciPy may have changed the types of the indices.
    matrix.indices = indices
    matrix.indptr = np.array(starts)  # in memory: kernels tell arrays apart that may not be written
    return matrix


def pack_strings(name: str, strings: Sequence[str]) -> Arrays:
    """Return strings as named arrays.

    They are ``name.utf8``, the concatenated bytes, and ``name.ends``, the offset where each ends.
    """
    encoded = [string.encode("utf-8", "surrogatepass") for string in strings]
    lengths = np.fromiter(map(len, encoded), dtype=np.int64, count=len(encoded))
    text = b"".join(encoded)
    return {
        f"{name}.utf8": np.frombuffer(text, dtype=np.uint8),
        f"{name}.ends": np.cumsum(lengths, dtype=np.int64),
    }


def unpack_strings(name: str, arrays: Mapping[str, NDArray[Any]]) -> list[str]:
    """Return the strings that `pack_strings` packed under this name."""
    text = checked(f"{name}.utf8", arrays, (None,), "u").tobytes()
    ends = checked(f"{name}.ends", arrays, (None,), "i", 0, len(text) + 1)
    last_end = ends[-1] if len(ends) > 0 else 0
    if not _is_ascending(ends) or last_end != len(text):
        raise StorageError(f"the strings of {name!r} do not follow each other")
    bounds = [0, *ends.tolist()]
    strings = []
    try:
        for start, end in pairwise(bounds):
            strings.append(text[start:end].decode("utf-8", "surrogatepass"))
    except UnicodeDecodeError as cause:
        raise StorageError(f"the strings of {name!r} are not UTF-8") from cause
    return strings


def checked(
    name: str,
    arrays: Mapping[str, NDArray[Any]],
    shape: Shape,
    kinds: str = "f",
    least: float | None = None,
    below: float | None = None,
    smallest: int = 4,
) -> NDArray[Any]:
    """Return an array after checking its type, its shape and its values.

    Parameters
    ----------
    name : str
        Name of the array.
    arrays : mapping of str to ndarray
        Arrays that are not trusted.
    shape : sequence of int or None
        Expected shape; None stands for any length.
    kinds : str, default="f"
        Kinds of type that are accepted, as in `numpy.dtype.kind`.
    least : float, optional
        Smallest value that is accepted.
    below : float, optional
        Values must be smaller than this.
    smallest : int, default=4
        Smallest number of bytes of a floating point number. Those must also be finite.

    Returns
    -------
    ndarray
        The array.
    """
    if name not in arrays:
        raise StorageError(f"array {name!r} is missing")
    array = arrays[name]
    is_float = array.dtype.kind == "f"
    is_accepted = _matches(array.shape, shape) and array.dtype.kind in kinds
    if is_float and array.dtype.itemsize < smallest:
        is_accepted = False
    if not is_accepted:
        description = f"{_listed(array.shape)} numbers of type {array.dtype}"
        raise StorageError(f"array {name!r} has {description}, which does not belong there")
    flat = array.reshape(-1)
    if is_float and not _all_finite(flat):
        raise StorageError(f"array {name!r} has values that are not finite")
    if not _within(flat, least, below):
        raise StorageError(f"array {name!r} has values outside of their range")
    return array


def _matches(shape: Sequence[int], expected: Shape) -> bool:
    """Whether a shape is the expected one, in which None stands for any length."""
    if len(shape) != len(expected):
        return False
    for length, expected_length in zip(shape, expected, strict=True):
        if expected_length is not None and length != expected_length:
            return False
    return True


def _all_finite(flat: NDArray[Any]) -> bool:
    """Whether all values are finite; a chunk at a time, so that the answers take little memory."""
    for start in range(0, flat.size, _CHECKED_NUMBERS):
        chunk = flat[start : start + _CHECKED_NUMBERS]
        if not np.isfinite(chunk).all():
            return False
    return True


def _within(flat: NDArray[Any], least: float | None, below: float | None) -> bool:
    """Whether all values are at least ``least`` and smaller than ``below``."""
    if flat.size == 0:
        return True
    if least is not None and not flat.min() >= least:
        return False
    return below is None or bool(flat.max() < below)


def _is_ascending(values: NDArray[Any]) -> bool:
    """Whether no value is smaller than the one before it."""
    return bool((values[1:] >= values[:-1]).all())


def finite(value: Any) -> float:
    """Return a number from JSON that is not trusted, which must be finite."""
    return float(_number(value, int | float, -1e300, 1e300))


def positive(value: Any, kind: Any = float, or_zero: bool = False) -> Any:
    """Return a number from JSON that is not trusted, which must be finite and positive."""
    accepted: Any = int | float
    limit: float = 1e300
    if kind is int:
        accepted = int
        limit = 1 << 62
    minimum = 0 if or_zero else 1e-300
    return kind(_number(value, accepted, minimum, limit))


def _number(value: Any, kinds: Any, least: float, below: float) -> Any:
    """Return a value after checking that it is a number of these kinds and within bounds."""
    is_number = isinstance(value, kinds) and not isinstance(value, bool)
    if not is_number or not least <= value < below:
        raise StorageError(f"{str(value)[:40]!r} is not a number that is valid here")
    return value


def _listed(shape: Shape) -> str:
    """Describe a shape, as in "3 × any"."""
    lengths = ["any" if length is None else str(length) for length in shape]
    if not lengths:
        return "single"
    return " × ".join(lengths)
