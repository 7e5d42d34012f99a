"""Matrices of users, checked before compiled code reads them."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any

import numpy as np

from rembrandt.errors import DataError, DataTypeError
from rembrandt.linalg import Array
from rembrandt.linalg.blocks import spans
from rembrandt.linalg.sparse import is_sparse

# Largest absolute values, by precision. In single precision the squares of 10⁸ of them can be added
# up. In double precision the values have to be far below the largest number in single precision,
# because rows are also scaled to unit length in it.
MAX_VALUES = {np.dtype(np.float32): 1e15, np.dtype(np.float64): 1e30}

# Smaller absolute values count as zero: in single precision they are denormal, and one divided by
# them may be infinite.
MIN_VALUE = float(np.finfo(np.float32).tiny)

# Values that are compared at a time, so that the answers take little memory.
COMPARED_VALUES = 1 << 20


@contextmanager
def refusals(
    what: str = "X",
    remedy: str = "give a 2-D matrix of finite numbers, one row for each example",
) -> Iterator[None]:
    """Turn the errors of checks in scikit-learn and NumPy into errors that say what to do.

    Parameters
    ----------
    what : str, default="X"
        What is checked, as messages call it.
    remedy : str
        What to do.
    """
    try:
        yield
    except DataError:
        raise
    except (TypeError, ValueError) as error:
        finding, *others = str(error).splitlines() or [type(error).__name__]
        hints = [line for line in others if line.startswith("Reshape")]  # others quote the matrix
        message = "; ".join([finding.rstrip(".: "), *hints, remedy])
        kind = DataTypeError if isinstance(error, TypeError) else DataError
        raise kind(f"{what} cannot be used: {message}") from error


def check_sparse(A: Any, what: str = "X") -> None:
    """Refuse a sparse matrix that is not sound, before it is converted or multiplied.

    SciPy checks a matrix when it is made, and not when its arrays are changed later. Compiled code
    would follow any index. The check reads the indices once; entries may be in any order.

    Parameters
    ----------
    A : sparse matrix or array
        A matrix in any format of SciPy.
    what : str, default="X"
        What it is called in messages.

    Raises
    ------
    DataError
        If an entry is outside of the matrix, or if its arrays do not fit together.
    """
    if A.ndim != 2:
        raise DataError(
            f"{what} has {A.ndim} dimension; give a 2-D matrix, one row for each example"
        )
    try:
        _check_arrays(A)
    except (AttributeError, TypeError, ValueError) as error:
        raise DataError(
            f"{what} is not a sound sparse matrix: {error}; make it again, for example with "
            "scipy.sparse.csr_array((data, (rows, columns)), shape=shape)"
        ) from error


def _check_arrays(A: Any) -> None:
    """Raise a ValueError that says what is wrong with the arrays of a sparse matrix."""
    n_rows, n_columns = A.shape
    if A.format == "dok":
        A = A.tocoo()  # in Python, with checked indices
    if A.format == "csr":
        _check_compressed(A.indptr, A.indices, len(A.data), n_rows, n_columns, "row", "column")
    elif A.format == "csc":
        _check_compressed(A.indptr, A.indices, len(A.data), n_columns, n_rows, "column", "row")
    elif A.format == "bsr":
        _check_blocks(A)
    elif A.format == "coo":
        rows, columns = A.coords
        if not len(rows) == len(columns) == len(A.data):
            raise ValueError(
                f"it has {len(rows):,} row indices, {len(columns):,} column indices and "
                f"{len(A.data):,} values"
            )
        _check_indices(rows, n_rows, "row")
        _check_indices(columns, n_columns, "column")
    elif A.format == "lil":
        _check_lists(A)
    elif A.format == "dia":
        offsets = A.offsets.astype(np.float64)
        if A.data.ndim != 2 or len(A.data) != len(offsets):
            raise ValueError(f"it has {len(offsets):,} offsets for {len(A.data):,} diagonals")
        outside = np.flatnonzero(np.abs(offsets) >= max(n_rows, n_columns, 1))
        if outside.size:
            raise ValueError(f"the diagonal {A.offsets[outside[0]]} is outside of it")
    else:
        raise ValueError(f"the format {A.format!r} is unknown")


def _check_compressed(
    indptr: Array, indices: Array, n_values: int, n_major: int, n_minor: int, major: str, minor: str
) -> None:
    """Check where the rows of a CSR matrix start, and its columns; for CSC the other way round."""
    if indptr.ndim != 1 or indptr.dtype.kind not in "iu" or len(indptr) != n_major + 1:
        raise ValueError(
            f"its indptr has the shape {indptr.shape} and the type {indptr.dtype}, where "
            f"{n_major + 1:,} integers are expected for {n_major:,} {major}s"
        )
    if len(indices) != n_values:
        raise ValueError(f"it has {len(indices):,} indices for {n_values:,} values")
    if indptr[0] != 0:
        raise ValueError(f"its indptr starts with {indptr[0]} and not with 0")
    if indptr[-1] > n_values:
        raise ValueError(f"its indptr ends with {indptr[-1]:,}, and it has {n_values:,} values")
    descends = np.flatnonzero(indptr[1:] < indptr[:-1])
    if descends.size:
        raise ValueError(f"{major} {descends[0]:,} ends before it starts, as its indptr says")
    _check_indices(indices, n_minor, minor)


def _check_indices(indices: Array, size: int, axis: str) -> None:
    """Check that all indices are within an axis."""
    if indices.ndim != 1 or indices.dtype.kind not in "iu":
        raise ValueError(
            f"its {axis} indices have the shape {indices.shape} and the type {indices.dtype}, "
            "where a list of integers is expected"
        )
    if len(indices) == 0 or (indices.min() >= 0 and indices.max() < size):
        return
    is_outside = (indices < 0) | (indices >= size)
    entry = int(np.argmax(is_outside))
    raise ValueError(
        f"entry {entry:,} is in {axis} {indices[entry]:,}, and {axis}s go from 0 to {size - 1:,}"
    )


def _check_blocks(A: Any) -> None:
    """Check a matrix of dense blocks (BSR)."""
    if A.data.ndim != 3:
        raise ValueError(f"its data have {A.data.ndim} dimensions and not 3")
    block_rows, block_columns = A.data.shape[1:]
    n_rows, n_columns = A.shape
    if min(block_rows, block_columns) < 1 or n_rows % block_rows or n_columns % block_columns:
        raise ValueError(f"its blocks of {block_rows} × {block_columns} do not fill it")
    _check_compressed(
        A.indptr,
        A.indices,
        len(A.data),
        n_rows // block_rows,
        n_columns // block_columns,
        "block row",
        "block column",
    )


def _check_lists(A: Any) -> None:
    """Check a matrix of lists (LIL)."""
    n_rows, n_columns = A.shape
    if not len(A.rows) == len(A.data) == n_rows:
        raise ValueError(f"it has {len(A.rows):,} lists of columns for {n_rows:,} rows")
    n_indices = np.fromiter(map(len, A.rows), np.int64, n_rows)
    n_values = np.fromiter(map(len, A.data), np.int64, n_rows)
    differs = np.flatnonzero(n_indices != n_values)
    if differs.size:
        raise ValueError(f"row {differs[0]:,} does not have one value for each column")
    columns = np.array(list(chain.from_iterable(A.rows)))
    if columns.size:
        _check_indices(columns, n_columns, "column")


def bounded_values(X: Any, what: str = "X") -> Any:
    """Return a matrix or an array whose values floating point can square and add up.

    Parameters
    ----------
    X : ndarray or CSR matrix
        Finite values in single or double precision. It is not changed.
    what : str, default="X"
        What it is called in messages.

    Returns
    -------
    ndarray or CSR matrix
        ``X`` itself, or a copy in which values below `MIN_VALUE` are zeros.

    Raises
    ------
    DataError
        If an absolute value is larger than that in `MAX_VALUES`.
    """
    values = X.data if is_sparse(X) else X
    largest = MAX_VALUES[values.dtype]
    if values.size and (values.max() > largest or values.min() < -largest):
        raise _too_large(X, largest, what)
    if not any(_is_tiny(part).any() for part in _parts(values)):
        return X
    X = X.copy()
    for part in _parts(X.data if is_sparse(X) else X):
        part[_is_tiny(part)] = 0
    if is_sparse(X):
        X.eliminate_zeros()
    return X


def _parts(values: Array) -> Iterator[Array]:
    """Cut an array into parts of about `COMPARED_VALUES` values along its first axis."""
    values_per_row = max(1, int(np.prod(values.shape[1:])))
    n_rows = max(1, COMPARED_VALUES // values_per_row)
    for rows in spans(len(values), n_rows):
        yield values[rows]


def _is_tiny(values: Array) -> Array:
    """Whether each value is too small to count, but not zero."""
    return (np.abs(values) < MIN_VALUE) & (values != 0)


def _too_large(X: Any, largest: float, what: str) -> DataError:
    """Return the error for the first value that is too large."""
    if is_sparse(X):
        entry = int(np.argmax(np.abs(X.data) > largest))
        row = int(np.searchsorted(X.indptr, entry, side="right")) - 1
        value = X.data[entry]
        place = f"row {row:,}, column {X.indices[entry]:,}"
    else:
        index = np.unravel_index(int(np.argmax(np.abs(X) > largest)), X.shape)
        value = X[index]
        axes = zip(("row", "column"), index, strict=False)
        place = ", ".join(f"{axis} {position:,}" for axis, position in axes)
    remedy = "divide by a constant"
    if X.dtype == np.float32 and abs(value) <= MAX_VALUES[np.dtype(np.float64)]:
        remedy += ", or give float64"
    return DataError(
        f"{what} has {value:g} at {place}; only values up to {largest:g} can be squared and added "
        f"in {X.dtype}: {remedy}"
    )
