"""Named arrays in one file in the safetensors format, written in one pass and read into memory or
mapped into it.

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
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rembrandt import memory
from rembrandt.errors import StorageError

Arrays = dict[str, NDArray[Any]]
Shape = Sequence[int | None]

_CODES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "I64": "<i8",
    "I32": "<i4",
    "I8": "i1",
    "U16": "<u2",
}
_CODES |= {"U8": "u1", "BOOL": "?"}
_TYPES: dict[str, np.dtype[Any]] = {name: np.dtype(code) for name, code in _CODES.items()}
_NAMES = {dtype: name for name, dtype in _TYPES.items()}
_ALIGNMENT = 64  # bytes in a cache line
_CHUNK = 1 << 24  # bytes hashed and written at a time
_LONGEST_HEADER = 100_000_000  # bytes; the limit of the safetensors library


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> tuple[int, str]:
    """Write the arrays, force them to disk, and return the size and the SHA-256 of the file; a
    failure leaves no file.

    The same arrays give the same bytes, whatever their order.
    """
    header: dict[str, Any] = {}
    end = 0
    for name in sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name)):
        dtype = arrays[name].dtype.newbyteorder("<")
        if dtype not in _NAMES:
            raise StorageError(
                f"array {name!r} has type {arrays[name].dtype}, which cannot be saved; "
                f"convert it to one of {', '.join(map(str, _NAMES))}"
            )
        start, end = end, end + arrays[name].nbytes
        header[name] = {
            "dtype": _NAMES[dtype],
            "shape": list(arrays[name].shape),
            "data_offsets": [start, end],
        }
    text = json.dumps(header).encode()
    text += b" " * (-(8 + len(text)) % _ALIGNMENT)

    digest = hashlib.sha256()
    try:
        with path.open("wb") as file:
            _write(file, digest, len(text).to_bytes(8, "little") + text)
            for name in header:
                array = np.ascontiguousarray(
                    arrays[name], dtype=arrays[name].dtype.newbyteorder("<")
                )
                _write(file, digest, array.reshape(-1).view(np.uint8).data)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return 8 + len(text) + end, digest.hexdigest()


def _write(file: BinaryIO, digest: Any, data: bytes | memoryview) -> None:
    for start in range(0, len(data), _CHUNK):
        chunk = data[start : start + _CHUNK]
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
    with path.open("rb", buffering=0) as file:
        found = os.fstat(file.fileno()).st_size
        if size is not None and found != size:
            raise damaged(path, f"it has {found} bytes instead of {size}")
        if found > (free := memory.available()):
            raise StorageError(
                f"{path} has {found:,} bytes and {free:,} bytes of memory are free; free more, or "
                "move"
            )
        whole = np.empty(found, dtype=np.uint8)
        digest = hashlib.sha256()
        for start in range(0, found, _CHUNK):
            chunk = whole[start : start + _CHUNK]
            _fill(path, file, chunk)
            if sha256 is not None:
                digest.update(chunk.data)
    if sha256 is not None and digest.hexdigest() != sha256:
        raise damaged(path, "its contents do not match their checksum")
    whole.flags.writeable = writable
    return _arrays(path, whole)


def _fill(path: Path, file: Any, chunk: NDArray[np.uint8]) -> None:
    """Read as many bytes as ``chunk`` has."""
    view, done = chunk.data, 0
    while done < len(view):
        n = file.readinto(view[done:])
        if not n:
            raise damaged(path, "it became shorter while it was read")
        done += n


class ArrayFile:
    """The arrays of a file, mapped into memory: their pages are read when they are used.

    The arrays count as writable, and nothing that is written to them reaches the file. Compiled
    functions need no second version for read-only arrays then.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open("rb") as file:
            self._status = os.fstat(file.fileno())
            if self._status.st_size < 8:
                raise damaged(path, "it ends before its header")
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        self._whole = np.frombuffer(self._map, dtype=np.uint8)
        self.arrays = _arrays(path, self._whole)

    def check(self, file: Any = None) -> None:
        """Refuse a file that has changed since it was opened; the use of pages beyond its end would
        end the process.
        """
        now, then = self.path.stat() if file is None else os.fstat(file.fileno()), self._status
        same = (
            os.path.samestat(now, then)
            and now.st_size == then.st_size
            and now.st_mtime_ns == then.st_mtime_ns
        )
        if not same:
            raise damaged(self.path, "it was changed while it was in use")

    def copy(self, names: Sequence[str]) -> Arrays:
        """Return copies of some arrays, which are read and not mapped, so that nothing can happen
        to them.
        """
        out: Arrays = {}
        with self.path.open("rb", buffering=0) as file:
            self.check(file)
            for name in names:
                array = self.arrays[name]
                out[name] = np.empty_like(array)
                if array.size:
                    file.seek(array.ctypes.data - self._whole.ctypes.data)
                    _fill(self.path, file, out[name].reshape(-1).view(np.uint8))
        return out

    def prefetch(self) -> None:
        """Ask the operating system to read the file ahead, on systems that support it."""
        self._advise("MADV_WILLNEED")

    def release(self) -> None:
        """Give the pages back to the operating system, on systems that support it; they are read
        again when used.
        """
        self._advise("MADV_DONTNEED")

    def _advise(self, advice: str) -> None:
        if hasattr(mmap, advice):  # not on Windows
            self._map.madvise(getattr(mmap, advice))


def _arrays(path: Path, whole: NDArray[np.uint8]) -> Arrays:
    """The arrays in the bytes of a file, whose header is not trusted."""
    length = int.from_bytes(whole[:8].tobytes(), "little")
    if length > min(len(whole) - 8, _LONGEST_HEADER):
        raise damaged(path, "it ends before its header does")
    header = parse_json(path, whole[8 : 8 + length].tobytes(), "its header")
    if not isinstance(header, dict):
        raise damaged(path, "its header does not list arrays")
    header.pop("__metadata__", None)  # the format lets writers add notes
    data = whole[8 + length :]
    entries = sorted(
        (_entry(path, name, entry) for name, entry in header.items()), key=lambda entry: entry[3:]
    )
    arrays: Arrays = {}
    end = 0
    for name, dtype, shape, start, stop in entries:
        if start != end:
            raise damaged(path, f"array {name!r} does not start where the one before it ends")
        end = stop
        if stop <= len(data):
            try:
                arrays[name] = data[start:stop].view(dtype).reshape(shape)
            except (
                ValueError,
                OverflowError,
            ) as cause:  # more dimensions, or longer ones, than NumPy has
                raise damaged(path, f"array {name!r} has an impossible shape") from cause
    if end != len(data):
        raise damaged(path, f"its arrays take {end} bytes, but {len(data)} follow the header")
    return arrays


def _entry(
    path: Path, name: str, entry: Any
) -> tuple[str, np.dtype[Any], tuple[int, ...], int, int]:
    """The name, type, shape, start and end of an array, from its entry in the header."""
    try:
        dtype = _TYPES[entry["dtype"]]
        shape = tuple(map(operator.index, entry["shape"]))
        start, stop = map(operator.index, entry["data_offsets"])
    except (KeyError, TypeError, ValueError) as cause:
        raise damaged(path, f"the header entry of array {name!r} cannot be read") from cause
    if min((start, *shape)) < 0 or stop - start != dtype.itemsize * math.prod(shape):
        raise damaged(path, f"array {name!r} does not have the size that its shape says")
    return name, dtype, shape, start, stop


def parse_json(path: Path, text: bytes, what: str = "it") -> Any:
    """Parse JSON that is not trusted; numbers are finite."""

    def refuse(name: str) -> None:
        raise ValueError(f"{name} is not JSON")

    try:
        return json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError) as cause:
        raise damaged(path, f"{what} is not JSON") from cause


def damaged(path: Path, finding: str) -> StorageError:
    """The error for a file that is not as it was written; callers add what to do."""
    return StorageError(f"{path} is damaged: {finding}")


def file_sha256(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def pack_csr(name: str, matrix: Any) -> Arrays:
    """Return a sparse matrix as arrays ``name.indptr``, ``name.indices``, ``name.data`` and
    ``name.shape``.

    Column numbers take two bytes each where they fit, and so do numbers that half precision holds
    exactly.
    """
    M = sparse.csr_array(matrix)
    shape, data = np.array(M.shape, dtype=np.int64), M.data
    indices = M.indices.astype(
        np.uint16 if M.shape[1] <= 1 << 16 else np.int32 if M.shape[1] <= 1 << 31 else np.int64
    )
    if data.dtype == np.float32 and np.array_equal(half := as_half(data), data):
        data = half
    return {
        f"{name}.indptr": M.indptr,
        f"{name}.indices": indices,
        f"{name}.data": data,
        f"{name}.shape": shape,
    }


def as_half(values: NDArray[Any]) -> NDArray[np.float16]:
    """Round numbers to half precision; those that are too large to the largest."""
    most = np.finfo(np.float16).max
    return np.clip(values, -most, most).astype(np.float16)


def unpack_csr(
    name: str, arrays: Mapping[str, NDArray[Any]], shape: Shape = (None, None)
) -> sparse.csr_array:
    """Return the matrix that `pack_csr` packed under this name, after checking every index."""
    n, m = checked(f"{name}.shape", arrays, (2,), "i", 0, 1 << 62).tolist()
    if any(wanted not in (None, found) for wanted, found in zip(shape, (n, m), strict=True)):
        raise StorageError(f"matrix {name!r} is {n} × {m} and not {_listed(shape)}")
    starts = checked(f"{name}.indptr", arrays, (n + 1,), "i")
    indices = checked(f"{name}.indices", arrays, (int(starts[-1]),), "iu", 0, m)
    indices = indices.astype(np.int32) if indices.dtype == np.uint16 else indices
    data = checked(f"{name}.data", arrays, indices.shape, smallest=2)
    data = data.astype(np.float32) if data.dtype == np.float16 else data
    if starts[0] != 0 or not (starts[1:] >= starts[:-1]).all():
        raise StorageError(f"the rows of matrix {name!r} do not follow each other")
    matrix = sparse.csr_array((data, indices, starts), shape=(n, m), copy=False)
    matrix.indices, matrix.indptr = indices, starts  # SciPy may have changed their types
    return matrix


def pack_strings(name: str, strings: Sequence[str]) -> Arrays:
    """Return strings as ``name.utf8``, their concatenated bytes, and ``name.ends``, the offset
    where each ends.
    """
    encoded = [string.encode("utf-8", "surrogatepass") for string in strings]
    ends = np.cumsum(
        np.fromiter(map(len, encoded), dtype=np.int64, count=len(encoded)), dtype=np.int64
    )
    return {f"{name}.utf8": np.frombuffer(b"".join(encoded), dtype=np.uint8), f"{name}.ends": ends}


def unpack_strings(name: str, arrays: Mapping[str, NDArray[Any]]) -> list[str]:
    """Return the strings that `pack_strings` packed under this name."""
    text = checked(f"{name}.utf8", arrays, (None,), "u").tobytes()
    ends = checked(f"{name}.ends", arrays, (None,), "i", 0, len(text) + 1)
    if not (ends[1:] >= ends[:-1]).all() or (ends[-1] if len(ends) else 0) != len(text):
        raise StorageError(f"the strings of {name!r} do not follow each other")
    cuts = ends.tolist()
    try:
        return [
            text[start:end].decode("utf-8", "surrogatepass")
            for start, end in zip([0, *cuts], cuts, strict=False)
        ]
    except UnicodeDecodeError as cause:
        raise StorageError(f"the strings of {name!r} are not UTF-8") from cause


def checked(
    name: str,
    arrays: Mapping[str, NDArray[Any]],
    shape: Shape,
    kinds: str = "f",
    least: float | None = None,
    below: float | None = None,
    smallest: int = 4,
) -> NDArray[Any]:
    """Return an array after checking its kind of type, its shape, and that its values are finite
    and within bounds.

    None in ``shape`` stands for any length. Floating point numbers have ``smallest`` bytes or more.
    """
    if name not in arrays:
        raise StorageError(f"array {name!r} is missing")
    array = arrays[name]
    fits = array.ndim == len(shape) and all(
        a in (None, b) for a, b in zip(shape, array.shape, strict=True)
    )
    if (
        not fits
        or array.dtype.kind not in kinds
        or (array.dtype.kind == "f" and array.dtype.itemsize < smallest)
    ):
        found = f"{_listed(array.shape)} numbers of type {array.dtype}"
        raise StorageError(f"array {name!r} has {found}, which is not what this place takes")
    flat = array.reshape(-1)
    for start in range(0, flat.size if array.dtype.kind == "f" else 0, _CHUNK):
        if not np.isfinite(flat[start : start + _CHUNK]).all():
            raise StorageError(f"array {name!r} has values that are not finite")
    inside = (
        (least is None or flat.min() >= least) and (below is None or flat.max() < below)
        if flat.size
        else True
    )
    if not inside:
        raise StorageError(f"array {name!r} has values outside of their range")
    return array


def finite(value: Any) -> float:
    """Return a number from JSON that is not trusted, which must be finite."""
    return float(_number(value, int | float, -1e300, 1e300))


def positive(value: Any, kind: Any = float, or_zero: bool = False) -> Any:
    """Return a number from JSON that is not trusted, which must be finite and positive."""
    return kind(
        _number(value, int if kind is int else int | float, 0 if or_zero else 1e-300, 1 << 62)
    )


def _number(value: Any, kinds: Any, least: float, below: float) -> Any:
    if isinstance(value, bool) or not isinstance(value, kinds) or not least <= value < below:
        raise StorageError(f"{str(value)[:40]!r} is not a number that this place takes")
    return value


def _listed(shape: Sequence[int | None]) -> str:
    return " × ".join("any" if length is None else str(length) for length in shape) or "single"
