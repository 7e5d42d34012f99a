"""Named arrays in one file in the safetensors format, written in one pass and read by mapping it into memory.

The layout is eight bytes of header length, a JSON header that gives each array's type, shape and place, and then the
arrays end to end without gaps. The widest types come first and the header is padded, so that every array starts at a
multiple of its item size and can be used where it lies. The library of that name reads these files too; we write and
map them here because it would copy all arrays in memory on both ways.
"""

import hashlib
import json
import math
import mmap
import operator
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from rembrandt.errors import ModelError
from rembrandt.packing import Arrays

_TYPES: dict[str, np.dtype[Any]] = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "I64": np.dtype("<i8"),
    "I32": np.dtype("<i4"),
    "I8": np.dtype("i1"),
    "U8": np.dtype("u1"),
    "BOOL": np.dtype("?"),
}
_NAMES = {dtype: name for name, dtype in _TYPES.items()}
_ALIGNMENT = 64  # a cache line; vector units like it too
_PIECE = 1 << 24  # bytes hashed and written at a time


def write_weights(path: Path, arrays: Mapping[str, NDArray[Any]]) -> tuple[int, str]:
    """Write the arrays, force them to the disk, and return the file's size and SHA-256."""
    for name, array in arrays.items():
        if array.dtype.newbyteorder("<") not in _NAMES:
            raise ModelError(
                f"array {name!r} has type {array.dtype}, which a model cannot hold; "
                f"convert it to one of {', '.join(str(dtype) for dtype in _NAMES)}"
            )
    order = sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name))
    header: dict[str, Any] = {}
    end = 0
    for name in order:
        start, end = end, end + arrays[name].nbytes
        dtype = arrays[name].dtype.newbyteorder("<")
        header[name] = {"dtype": _NAMES[dtype], "shape": list(arrays[name].shape), "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    text += b" " * (-(8 + len(text)) % _ALIGNMENT)

    digest = hashlib.sha256()
    with path.open("xb") as file:
        _write(file, digest, len(text).to_bytes(8, "little") + text)
        for name in order:
            array = np.ascontiguousarray(arrays[name], dtype=arrays[name].dtype.newbyteorder("<"))
            _write(file, digest, array.reshape(-1).view(np.uint8).data)
        file.flush()
        os.fsync(file.fileno())
    return 8 + len(text) + end, digest.hexdigest()


def _write(file: BinaryIO, digest: Any, data: bytes | memoryview) -> None:
    for start in range(0, len(data), _PIECE):
        piece = data[start : start + _PIECE]
        digest.update(piece)
        file.write(piece)


def map_weights(path: Path) -> Arrays:
    """Return the file's arrays, read-only and mapped into memory: nothing is read until it is used."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size < 8:
            raise damaged(path, "it ends before its header")
        whole = np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), dtype=np.uint8)
    length = int.from_bytes(whole[:8].tobytes(), "little")
    if length > size - 8:
        raise damaged(path, "it ends before its header does")
    try:
        header = json.loads(whole[8 : 8 + length].tobytes())
    except ValueError as cause:
        raise damaged(path, "its header is not JSON") from cause
    if not isinstance(header, dict):
        raise damaged(path, "its header does not list arrays")
    header.pop("__metadata__", None)  # other writers of the format may leave notes there
    data = whole[8 + length :]
    places = sorted((_place(path, name, entry) for name, entry in header.items()), key=lambda place: place[3:])
    end = 0
    for name, _, _, start, stop in places:
        if start != end:
            raise damaged(path, f"array {name!r} does not start where the one before it ends")
        end = stop
    if end != len(data):
        raise damaged(path, f"its arrays take {end} bytes, but {len(data)} follow the header")
    return {name: data[start:stop].view(dtype).reshape(shape) for name, dtype, shape, start, stop in places}


def _place(path: Path, name: str, entry: Any) -> tuple[str, np.dtype[Any], tuple[int, ...], int, int]:
    """Return an array's name, type, shape, start and end from its entry in the header."""
    try:
        dtype = _TYPES[entry["dtype"]]
        shape = tuple(map(operator.index, entry["shape"]))
        start, stop = map(operator.index, entry["data_offsets"])
    except (KeyError, TypeError, ValueError) as cause:
        raise damaged(path, f"the header's entry of array {name!r} cannot be read") from cause
    if min((start, *shape)) < 0 or stop - start != dtype.itemsize * math.prod(shape):
        raise damaged(path, f"array {name!r} does not have the size that its shape says")
    return name, dtype, shape, start, stop


def damaged(path: Path, finding: str) -> ModelError:
    """Return the error for a file that is not as it was written, ending in what to do."""
    return ModelError(f"{path} is damaged: {finding}; copy the model folder again from where it was made, or fit anew")
