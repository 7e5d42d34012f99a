"""Dense vectors next to texts, such as those of a sentence encoder, from a file."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rembrandt.data.compressed import open_bytes
from rembrandt.data.dataset import Dataset
from rembrandt.errors import DataError


def with_vectors(data: Dataset, path: Path) -> Dataset:
    """Return examples of texts with the vectors of a file.

    The file has one row for each example, in the same order.
    """
    if data.texts is None:
        raise DataError(
            "the examples have features, and vectors go next to texts; join the features instead",
            path,
        )
    vectors = read_vectors(path)
    if len(vectors) != data.n_examples:
        raise DataError(
            f"there are {len(vectors):,} vectors and {data.n_examples:,} examples; give one for "
            "each",
            path,
        )
    return replace(data, vectors=vectors)


def read_vectors(path: Path) -> NDArray[np.float32]:
    """Read a matrix of finite numbers.

    The file is an array of NumPy (.npy), or Parquet with a column of lists or with columns of
    numbers.
    """
    if path.suffix == ".npy":
        matrix = _read_npy(path)
    elif path.suffix == ".parquet":
        matrix = _read_parquet(path)
    else:
        raise DataError(
            f"vectors cannot be read from {path.suffix or 'a file without suffix'}; use .npy or "
            ".parquet",
            path,
        )
    if matrix.ndim != 2 or matrix.dtype.kind not in "fiu" or matrix.shape[1] == 0:
        raise DataError(
            f"found an array of {matrix.dtype} of shape {matrix.shape}; expected a matrix of "
            "numbers, one row for each example",
            path,
        )
    vectors = matrix.astype(np.float32)
    is_finite = np.isfinite(vectors).all(axis=1)
    if not is_finite.all():
        row = int(np.argmin(is_finite))
        raise DataError(
            f"row {row} has a value that is not finite; only finite numbers are allowed", path
        )
    return vectors


def _read_npy(path: Path) -> Any:
    """The array in a file of NumPy."""
    try:
        with open_bytes(path) as (content, _):
            return np.load(content, allow_pickle=False)
    except (ValueError, EOFError, MemoryError) as error:
        raise DataError(
            f"this is not an array in NumPy's format ({error}); write it with numpy.save", path
        ) from error


def _read_parquet(path: Path) -> NDArray[Any]:
    """The vectors in a Parquet file: one column of lists, or a column for each dimension."""
    from pyarrow.types import is_nested  # takes long to load

    from rembrandt.data.parquet import check_sizes, check_values, open_parquet

    with open_parquet(path) as file:
        check_sizes(path, file)
        table = file.read()
        check_values(path, table)
    lists = [column for column in table.columns if is_nested(column.type)]
    if len(lists) > 1:
        raise DataError(f"{len(lists)} columns hold lists; keep the one with the vectors", path)
    try:
        if lists:
            return np.array(lists[0].to_pylist(), dtype=np.float64)
        columns = [column.to_numpy() for column in table.columns]
        return np.array(columns, dtype=np.float64).T
    except (ValueError, TypeError) as error:
        raise DataError(
            f"the vectors are not numbers, or not of one length ({error})", path
        ) from error
