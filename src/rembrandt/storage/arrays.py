"""Named arrays in one file in the safetensors format, written in one pass and read by mapping the file into memory.

A file is eight bytes of header length, a JSON header with the type, shape and offsets of each array, and then the
arrays without gaps. The widest types come first and the header is padded, so every array starts at a multiple of its
item size and can be used in place. The safetensors library reads these files; it is not used here because it copies all
arrays in memory when writing and when reading. Models, stores and checkpoints use this format.
"""

from __future__ import annotations

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

from rembrandt.errors import StorageError

Arrays = dict[str, NDArray[Any]]

_CODES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I8": "i1", "U8": "u1", "BOOL": "?"}
_TYPES: dict[str, np.dtype[Any]] = {name: np.dtype(code) for name, code in _CODES.items()}
_NAMES = {dtype: name for name, dtype in _TYPES.items()}
_ALIGNMENT = 64  # bytes in a cache line
_CHUNK = 1 << 24  # bytes hashed and written at a time


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> tuple[int, str]:
    """Write the arrays, force them to disk, and return the size and the SHA-256 of the file; a failure leaves no file.

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
        header[name] = {"dtype": _NAMES[dtype], "shape": list(arrays[name].shape), "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    text += b" " * (-(8 + len(text)) % _ALIGNMENT)

    digest = hashlib.sha256()
    try:
        with path.open("wb") as file:
            _write(file, digest, len(text).to_bytes(8, "little") + text)
            for name in header:
                array = np.ascontiguousarray(arrays[name], dtype=arrays[name].dtype.newbyteorder("<"))
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


def map_arrays(path: Path) -> Arrays:
    """Return the arrays of a file, read-only and mapped into memory: their pages are read when they are used."""
    return ArrayFile(path).arrays


class ArrayFile:
    """The arrays of a file, mapped into memory.

    With ``private`` the arrays count as writable, and nothing that is written to them reaches the file. Compiled
    functions need no second version for read-only arrays then.
    """

    def __init__(self, path: Path, private: bool = False) -> None:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_size < 8:
                raise damaged(path, "it ends before its header")
            access = mmap.ACCESS_COPY if private else mmap.ACCESS_READ
            self._map = mmap.mmap(file.fileno(), 0, access=access)
        self.arrays = _arrays(path, np.frombuffer(self._map, dtype=np.uint8))

    def prefetch(self) -> None:
        """Ask the operating system to read the file ahead, on systems that support it."""
        self._advise("MADV_WILLNEED")

    def release(self) -> None:
        """Give the pages back to the operating system, on systems that support it; they are read again when used."""
        self._advise("MADV_DONTNEED")

    def _advise(self, advice: str) -> None:
        if hasattr(mmap, advice):  # not on Windows
            self._map.madvise(getattr(mmap, advice))


def _arrays(path: Path, whole: NDArray[np.uint8]) -> Arrays:
    """The arrays in the bytes of a file, whose header is not trusted."""
    length = int.from_bytes(whole[:8].tobytes(), "little")
    if length > len(whole) - 8:
        raise damaged(path, "it ends before its header does")
    try:
        header = json.loads(whole[8 : 8 + length].tobytes())
    except (ValueError, RecursionError) as cause:
        raise damaged(path, "its header is not JSON") from cause
    if not isinstance(header, dict):
        raise damaged(path, "its header does not list arrays")
    header.pop("__metadata__", None)  # the format lets writers add notes
    data = whole[8 + length :]
    entries = sorted((_entry(path, name, entry) for name, entry in header.items()), key=lambda entry: entry[3:])
    arrays: Arrays = {}
    end = 0
    for name, dtype, shape, start, stop in entries:
        if start != end:
            raise damaged(path, f"array {name!r} does not start where the one before it ends")
        end = stop
        if stop <= len(data):
            try:
                arrays[name] = data[start:stop].view(dtype).reshape(shape)
            except (ValueError, OverflowError) as cause:  # more dimensions, or longer ones, than NumPy has
                raise damaged(path, f"array {name!r} has an impossible shape") from cause
    if end != len(data):
        raise damaged(path, f"its arrays take {end} bytes, but {len(data)} follow the header")
    return arrays


def _entry(path: Path, name: str, entry: Any) -> tuple[str, np.dtype[Any], tuple[int, ...], int, int]:
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


def damaged(path: Path, finding: str) -> StorageError:
    """The error for a file that is not as it was written; callers add what to do."""
    return StorageError(f"{path} is damaged: {finding}")


def file_sha256(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def pack_csr(name: str, matrix: Any) -> Arrays:
    """Return a sparse matrix as arrays ``name.indptr``, ``name.indices``, ``name.data`` and ``name.shape``."""
    M = sparse.csr_array(matrix)
    shape = np.array(M.shape, dtype=np.int64)
    return {f"{name}.indptr": M.indptr, f"{name}.indices": M.indices, f"{name}.data": M.data, f"{name}.shape": shape}


def unpack_csr(name: str, arrays: Mapping[str, NDArray[Any]]) -> sparse.csr_array:
    """Return the matrix that `pack_csr` packed under this name, on the same memory."""
    parts = (arrays[f"{name}.data"], arrays[f"{name}.indices"], arrays[f"{name}.indptr"])
    n, m = arrays[f"{name}.shape"]
    matrix = sparse.csr_array(parts, shape=(int(n), int(m)), copy=False)
    matrix.indices, matrix.indptr = parts[1:]  # SciPy may have changed their types
    return matrix


def pack_strings(name: str, strings: Sequence[str]) -> Arrays:
    """Return strings as ``name.utf8``, their concatenated bytes, and ``name.ends``, the offset where each ends."""
    encoded = [string.encode("utf-8", "surrogatepass") for string in strings]
    ends = np.cumsum(np.fromiter(map(len, encoded), dtype=np.int64, count=len(encoded)), dtype=np.int64)
    return {f"{name}.utf8": np.frombuffer(b"".join(encoded), dtype=np.uint8), f"{name}.ends": ends}


def unpack_strings(name: str, arrays: Mapping[str, NDArray[Any]]) -> list[str]:
    """Return the strings that `pack_strings` packed under this name."""
    text = arrays[f"{name}.utf8"].tobytes()
    ends = arrays[f"{name}.ends"].tolist()
    return [text[start:end].decode("utf-8", "surrogatepass") for start, end in zip([0, *ends], ends, strict=False)]
