"""Matrices and lists that are in memory, checked and brought into the form that the package
uses.
"""

import operator
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from rembrandt.data.labels import LabelIndex
from rembrandt.errors import DataError, RembrandtWarning
from rembrandt.linalg.sparse import Matrix, is_sparse

MOST_LABELS = (
    1 << 24
)  # every label has a name in memory, so a wrong header, id or shape must not ask for more
SEVERAL = (list, tuple, set, frozenset, np.ndarray)  # types that hold the labels of one example


class Numbers(Sequence[str]):
    """The names "0", "1", … of columns that only have numbers; they take no memory, however many
    there are.
    """

    def __init__(self, n: int) -> None:
        self._numbers = range(n)

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, index: Any) -> Any:
        found = self._numbers[index]
        return [str(i) for i in found] if isinstance(found, range) else str(found)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Sequence)
            and len(self) == len(other)
            and all(map(operator.eq, self, other))
        )

    __hash__ = None  # type: ignore[assignment]


def check_names(names: Sequence[str], expected: int, what: str) -> None:
    """Refuse names unless there is one for each column, all distinct."""
    if len(names) != expected:
        raise DataError(f"{len(names):,} {what} names for {expected:,} columns; give one for each")
    if len(set(names)) != len(names):
        raise DataError(f"some {what} names occur twice; each column needs its own")


def feature_matrix(X: Any, what: str = "X") -> sp.csr_array:
    """Any two-dimensional matrix of finite numbers as canonical CSR float32; the one given is not
    changed.
    """
    try:
        if np.iscomplexobj(X):
            raise TypeError("its numbers are complex")
        result = sp.csr_array(X, dtype=np.float32)
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
        at = int(not_finite[0])
        row = int(np.searchsorted(result.indptr, at, side="right")) - 1
        raise DataError(
            f"{what} has {result.data[at]} at row {row}, column {result.indices[at]}; only finite "
            "numbers are allowed"
        )
    if not result.has_canonical_format:
        result = result.copy()
        result.sum_duplicates()
    return result


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
    if matrix.shape[1] > MOST_LABELS:
        raise DataError(
            f"{what} has {matrix.shape[1]:,} columns; at most {MOST_LABELS:,} labels can be read"
        )
    return matrix


def is_missing(label: Any) -> bool:
    """Whether a value stands for none: None, NaN, or pandas' NA and NaT."""
    if isinstance(label, float | np.floating):
        return bool(np.isnan(label))
    return label is None or type(label).__name__ in ("NAType", "NaTType")


def warn_missing(n_missing: int, n_rows: int) -> None:
    """Report labels that are missing."""
    found = f"{n_missing:,} labels in {n_rows:,} rows are missing (None or NaN)"
    warnings.warn(RembrandtWarning(f"{found}; they count as no label"), stacklevel=3)


def label_lists(Y: Any) -> tuple[list[Any], NDArray[np.int64]]:
    """All labels of a label or list of labels for each example, without missing ones; and how many
    each has.
    """
    rows = [list(entry) if isinstance(entry, SEVERAL) else [entry] for entry in Y]
    if not {type(label) for row in rows for label in row} <= {str, int}:
        present = [[label for label in row if not is_missing(label)] for row in rows]
        n_missing = sum(map(len, rows)) - sum(map(len, present))
        if n_missing:
            warn_missing(n_missing, len(rows))
        rows = present
    return [label for row in rows for label in row], np.array([len(row) for row in rows], np.int64)


def named_labels(
    Y: Any, names: Sequence[str] | None, what: str = "Y"
) -> tuple[sp.csr_array, list[str], int]:
    """The 0/1 matrix of labels in any form, the names of its columns, and how many labels were
    repeated in a row.
    """
    if Y is None:
        raise DataError(
            f"there is no {what}; give a 0/1 matrix, or for each example its label or list of "
            "labels"
        )
    if is_sparse(Y) or np.ndim(Y if isinstance(Y, np.ndarray) else ()) == 2:
        matrix = label_matrix(Y, what)
        chosen: Any = Numbers(matrix.shape[1]) if names is None else list(names)
        if names is not None:
            check_names(chosen, matrix.shape[1], "label")
        return matrix, chosen, 0
    labels, counts = label_lists(Y)
    spelled = list(map(str, labels))
    if names is None:
        index = LabelIndex()
        ids = index.add(spelled)
        chosen, position = index.in_order()
        ids = position[ids]
    else:
        check_names(names, len(names), "label")
        chosen = list(names)
        ids = LabelIndex(chosen).columns(spelled)
        if (ids < 0).any():
            unknown = spelled[int(np.argmin(ids))]
            raise DataError(
                f"label {unknown!r} is not among label_names; add it, or leave label_names out"
            )
    matrix, repeated = label_rows(counts, ids, len(chosen))
    return matrix, chosen, repeated


def csr_rows(
    counts: NDArray[Any], ids: NDArray[Any], values: NDArray[Any], n_columns: int
) -> tuple[sp.csr_array, int]:
    """A matrix from the ids and values of each row, and how many ids were repeated within a row;
    these are added.
    """
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])
    matrix = sp.csr_array((values, ids, starts), shape=(len(counts), n_columns))
    before = matrix.nnz
    matrix.sum_duplicates()
    return matrix, before - matrix.nnz


def label_rows(counts: NDArray[Any], ids: NDArray[Any], n_columns: int) -> tuple[sp.csr_array, int]:
    """A 0/1 matrix from the ids of each row, and how many ids were repeated within a row."""
    matrix, repeated = csr_rows(counts, ids, np.ones(len(ids), np.float32), n_columns)
    matrix.data[:] = 1.0
    return matrix, repeated


def move_columns(matrix: sp.csr_array, columns: NDArray[np.int64], n_columns: int) -> sp.csr_array:
    """Move column ``j`` to ``columns[j]``, or drop it where that is negative."""
    moved = columns[matrix.indices]
    kept = moved >= 0
    starts = np.concatenate([[0], np.cumsum(kept)])[matrix.indptr]
    result = sp.csr_array(
        (matrix.data[kept], moved[kept], starts), shape=(matrix.shape[0], n_columns)
    )
    result.sort_indices()
    return result


def select_columns(X: Matrix, columns: NDArray[np.int64]) -> Matrix:
    """``X[:, columns]`` for distinct columns, where -1 stands for a column of zeros."""
    known = columns >= 0
    if known.all():
        return X[:, columns]
    if is_sparse(X):
        target = np.full(X.shape[1], -1, np.int64)
        target[columns[known]] = np.flatnonzero(known)
        return move_columns(X, target, len(columns))
    return np.where(known, X[:, columns], X.dtype.type(0))
