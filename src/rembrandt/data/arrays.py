"""Matrices and lists in memory, checked and brought into the form that the package uses."""

import operator
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from rembrandt.data.labels import LabelIndex
from rembrandt.errors import DataError, RembrandtWarning, counted
from rembrandt.linalg.sparse import Matrix, csr_of, is_sparse, is_wide
from rembrandt.linalg.validation import check_sparse

# Every label has a name in memory, so a wrong header, id or shape must not ask for more.
MAX_LABELS = 1 << 24

# Types that hold several labels of one example.
LABEL_CONTAINERS = (list, tuple, set, frozenset, np.ndarray)


class Numbers(Sequence[str]):
    """The names "0", "1", … of columns that only have numbers.

    They take no memory, however many there are.
    """

    def __init__(self, n: int) -> None:
        self._numbers = range(n)

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, index: Any) -> Any:
        selected = self._numbers[index]
        if isinstance(selected, range):
            return [str(number) for number in selected]
        return str(selected)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or len(self) != len(other):
            return False
        return all(map(operator.eq, self, other))

    __hash__ = None  # type: ignore[assignment]


def check_names(names: Sequence[str], expected: int, what: str) -> None:
    """Refuse names unless there is one for each column, all distinct."""
    if len(names) != expected:
        raise DataError(f"{len(names):,} {what} names for {expected:,} columns; give one for each")
    if len(set(names)) != len(names):
        raise DataError(f"some {what} names occur twice; each column needs its own")


def feature_matrix(X: Any, what: str = "X") -> sp.csr_array:
    """Any two-dimensional matrix of finite numbers as canonical CSR float32.

    The matrix ``X`` is not changed; ``what`` names it in messages.
    """
    if is_sparse(X):
        check_sparse(X, what)
    try:
        if np.iscomplexobj(X):
            raise TypeError("its numbers are complex")
        result = csr_of(X, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"{what} cannot be read as a matrix of numbers ({error}); give a 2-D array"
        ) from error
    if result.ndim != 2:
        raise DataError(
            f"{what} has {result.ndim} dimension; give a 2-D array, one row for each example"
        )
    not_finite = np.flatnonzero(~np.isfinite(result.data))
    if not_finite.size:
        entry = int(not_finite[0])
        row = int(np.searchsorted(result.indptr, entry, side="right")) - 1
        column = result.indices[entry]
        raise DataError(
            f"{what} has {result.data[entry]} at row {row}, column {column}; only finite "
            "numbers are allowed"
        )
    if not result.has_canonical_format:
        result = result.copy()
        result.sum_duplicates()
    return result


def unchanging(values: Any, what: str) -> Any:
    """Return a list of a list or a tuple, which may change while it is read.

    Arrays, matrices and tables are returned as they are, since their readers copy them at once.
    """
    if not isinstance(values, list | tuple):
        return values
    try:
        return list(values)
    except RuntimeError as error:
        raise DataError(
            f"{what} was changed while it was read ({error}); give a copy, as in list({what})"
        ) from error


def label_matrix(Y: Any, what: str = "Y") -> sp.csr_array:
    """A 0/1 matrix, sparse or dense, as canonical CSR float32."""
    matrix = feature_matrix(Y, what)
    if not np.isin(matrix.data, (0.0, 1.0)).all():
        raise DataError(
            f"{what} has values other than 0 and 1; give 1 where an example has a label, else 0"
        )
    if (matrix.data == 0).any():
        matrix = matrix.copy()
        matrix.eliminate_zeros()
    if matrix.shape[1] > MAX_LABELS:
        raise DataError(
            f"{what} has {matrix.shape[1]:,} columns; at most {MAX_LABELS:,} labels can be read"
        )
    return matrix


def is_missing(label: Any) -> bool:
    """Whether a value stands for none: None, NaN, or pandas' NA and NaT."""
    if isinstance(label, float | np.floating):
        return bool(np.isnan(label))
    return label is None or type(label).__name__ in ("NAType", "NaTType")


def is_lazy_column(values: Any) -> bool:
    """Whether these are the values of a column that are not in memory as a list or an array: those
    of a data set of Hugging Face, of Arrow and of polars.
    """
    if isinstance(values, list | tuple | np.ndarray) or is_sparse(values):
        return False
    package = type(values).__module__.split(".")[0]
    has_rows = hasattr(values, "__len__") and hasattr(values, "__getitem__")
    has_columns = hasattr(values, "columns") or hasattr(values, "column_names")
    return package in ("datasets", "pyarrow", "polars") and has_rows and not has_columns


def lazy_values(column: Any) -> list[Any]:
    """The values of such a column, as values of Python."""
    for name in ("to_pylist", "to_list"):
        if hasattr(column, name):
            return list(getattr(column, name)())
    return list(column)


def warn_missing(n_missing: int, n_rows: int) -> None:
    """Report labels that are missing."""
    are = "is" if n_missing == 1 else "are"
    message = (
        f"{counted(n_missing, 'label')} in {counted(n_rows, 'row')} {are} missing (None or NaN), "
        "which counts as no label"
    )
    warnings.warn(RembrandtWarning(message), stacklevel=3)


def as_label_list(entry: Any) -> list[Any]:
    """The labels of one example, which are given as a label or as several."""
    if isinstance(entry, LABEL_CONTAINERS):
        return list(entry)
    return [entry]


def label_lists(Y: Any) -> tuple[list[Any], NDArray[np.int64]]:
    """Join the labels of examples, each given as a label or as a list of labels.

    Returns
    -------
    labels : list
        The labels of all examples, one after the other, without missing ones.
    counts : ndarray of shape (n_examples,)
        How many labels each example has.
    """
    rows = [as_label_list(entry) for entry in Y]
    types = {type(label) for row in rows for label in row}
    if not types <= {str, int}:  # only values of other types can be missing
        present = [[label for label in row if not is_missing(label)] for row in rows]
        n_missing = sum(map(len, rows)) - sum(map(len, present))
        if n_missing:
            warn_missing(n_missing, len(rows))
        rows = present
    labels = [label for row in rows for label in row]
    counts = np.array([len(row) for row in rows], np.int64)
    return labels, counts


def named_labels(
    Y: Any, names: Sequence[str] | None, what: str = "Y"
) -> tuple[sp.csr_array, list[str], int]:
    """Read labels in any form.

    Parameters
    ----------
    Y : sparse matrix, 2-D array or sequence
        A 0/1 matrix, or for each example its label or list of labels.
    names : sequence of str or None
        Names of the columns of a matrix, or all labels in the wanted order. None numbers the
        columns of a matrix, and sorts labels.
    what : str, default="Y"
        What ``Y`` is called in messages.

    Returns
    -------
    matrix : csr_array of shape (n_examples, n_labels)
        The 0/1 matrix.
    names : sequence of str
        The names of its columns.
    repeated : int
        How many labels were repeated within a row.
    """
    if Y is None:
        raise DataError(
            f"there is no {what}; give a 0/1 matrix, or for each example its label or list of "
            "labels"
        )
    if is_sparse(Y) or (isinstance(Y, np.ndarray) and Y.ndim == 2):
        matrix = label_matrix(Y, what)
        if names is None:
            columns: Any = Numbers(matrix.shape[1])
        else:
            columns = list(names)
            check_names(columns, matrix.shape[1], "label")
        return matrix, columns, 0
    labels, counts = label_lists(Y)
    spelled = [str(label) for label in labels]
    if names is None:
        index = LabelIndex()
        ids = index.add(spelled)
        columns, position = index.in_order()
        ids = position[ids]
    else:
        check_names(names, len(names), "label")
        columns = list(names)
        ids = LabelIndex(columns).columns(spelled)
        if (ids < 0).any():
            unknown = spelled[int(np.argmin(ids))]
            raise DataError(
                f"label {unknown!r} is not among label_ids; add it, or leave label_ids out"
            )
    matrix, repeated = label_rows(counts, ids, len(columns))
    return matrix, columns, repeated


def csr_rows(
    counts: NDArray[Any], ids: NDArray[Any], values: NDArray[Any], n_columns: int
) -> tuple[sp.csr_array, int]:
    """A matrix from the ids and values of each row, and how many ids were repeated within a row.

    Values of ids that are repeated are added.
    """
    ends = np.cumsum(counts, dtype=np.int64)
    indptr = np.concatenate([np.zeros(1, np.int64), ends])
    matrix = sp.csr_array((values, ids, indptr), shape=(len(counts), n_columns))
    n_entries = matrix.nnz
    matrix.sum_duplicates()
    return matrix, n_entries - matrix.nnz


def label_rows(counts: NDArray[Any], ids: NDArray[Any], n_columns: int) -> tuple[sp.csr_array, int]:
    """A 0/1 matrix from the ids of each row, and how many ids were repeated within a row."""
    ones = np.ones(len(ids), np.float32)
    matrix, repeated = csr_rows(counts, ids, ones, n_columns)
    matrix.data[:] = 1.0
    return matrix, repeated


def move_columns(matrix: sp.csr_array, columns: NDArray[np.int64], n_columns: int) -> sp.csr_array:
    """Move column ``j`` to ``columns[j]``, or drop it where that is negative."""
    moved = columns[matrix.indices]
    is_kept = moved >= 0
    kept_so_far = np.concatenate([[0], np.cumsum(is_kept)])
    indptr = kept_so_far[matrix.indptr]
    entries = (matrix.data[is_kept], moved[is_kept], indptr)
    result = sp.csr_array(entries, shape=(matrix.shape[0], n_columns))
    result.sort_indices()
    return result


def select_columns(X: Matrix, columns: NDArray[np.int64]) -> Matrix:
    """``X[:, columns]`` for distinct columns, where -1 stands for a column of zeros."""
    is_present = columns >= 0
    if is_sparse(X) and is_wide(X):
        return _search_columns(X, columns)
    if is_present.all():
        return X[:, columns]
    if is_sparse(X):
        target = np.full(X.shape[1], -1, np.int64)
        target[columns[is_present]] = np.flatnonzero(is_present)
        return move_columns(X, target, len(columns))
    zero = X.dtype.type(0)
    return np.where(is_present, X[:, columns], zero)


def _search_columns(X: sp.csr_array, columns: NDArray[np.int64]) -> sp.csr_array:
    """`select_columns` by binary search, without an array over all columns of ``X``."""
    used, positions = np.unique(X.indices, return_inverse=True)
    compact = sp.csr_array((X.data, positions, X.indptr), shape=(X.shape[0], len(used)))
    target = np.full(len(used), -1, np.int64)
    if len(columns):
        order = np.argsort(columns, kind="stable")
        places = np.searchsorted(columns[order], used)
        candidates = order[np.minimum(places, len(columns) - 1)]
        is_wanted = columns[candidates] == used
        target[is_wanted] = candidates[is_wanted]
    return move_columns(compact, target, len(columns))
