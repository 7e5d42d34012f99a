"""Sparse matrices and lists of strings as plain named arrays, the only thing that a model file holds."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Arrays = dict[str, NDArray[Any]]


def pack_csr(name: str, matrix: Any) -> Arrays:
    """Return the matrix as arrays ``name.indptr``, ``name.indices``, ``name.data`` and ``name.shape``."""
    M = sparse.csr_array(matrix)
    shape = np.array(M.shape, dtype=np.int64)
    return {f"{name}.indptr": M.indptr, f"{name}.indices": M.indices, f"{name}.data": M.data, f"{name}.shape": shape}


def unpack_csr(name: str, arrays: Mapping[str, NDArray[Any]]) -> sparse.csr_array:
    """Return the matrix that `pack_csr` packed under this name, on the same memory."""
    parts = (arrays[f"{name}.data"], arrays[f"{name}.indices"], arrays[f"{name}.indptr"])
    n, m = arrays[f"{name}.shape"]
    matrix = sparse.csr_array(parts, shape=(int(n), int(m)), copy=False)
    matrix.indices, matrix.indptr = parts[1:]  # of the types that they had; SciPy would choose others
    return matrix


def pack_strings(name: str, strings: Sequence[str]) -> Arrays:
    """Return the strings as ``name.utf8``, their bytes end to end, and ``name.ends``, where each one ends."""
    encoded = [string.encode("utf-8", "surrogatepass") for string in strings]
    ends = np.cumsum(np.fromiter(map(len, encoded), dtype=np.int64, count=len(encoded)), dtype=np.int64)
    return {f"{name}.utf8": np.frombuffer(b"".join(encoded), dtype=np.uint8), f"{name}.ends": ends}


def unpack_strings(name: str, arrays: Mapping[str, NDArray[Any]]) -> list[str]:
    """Return the strings that `pack_strings` packed under this name."""
    text = arrays[f"{name}.utf8"].tobytes()
    ends = arrays[f"{name}.ends"].tolist()
    return [text[start:end].decode("utf-8", "surrogatepass") for start, end in zip([0, *ends], ends, strict=False)]
