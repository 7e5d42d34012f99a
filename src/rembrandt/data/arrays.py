"""Matrices and lists that are in memory already, checked and brought into the one form the package uses."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from rembrandt.data.sparse import MOST_LABELS, Vocabulary, label_rows
from rembrandt.errors import DataError


def check_names(names: Sequence[str], expected: int, what: str) -> None:
    """Refuse names that are not one for each column, all different."""
    if len(names) != expected:
        raise DataError(f"{len(names):,} {what} names for {expected:,} columns; give one for each")
    if len(set(names)) != len(names):
        raise DataError(f"some {what} names occur twice; each column needs its own")


def feature_matrix(X: Any, what: str = "X") -> sp.csr_array:
    """Any two-dimensional matrix of finite numbers as canonical CSR float32; the one given is not changed."""
    try:
        result = sp.csr_array(X, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise DataError(f"{what} cannot be read as a matrix of numbers ({error}); give a 2-D array") from error
    if result.ndim != 2:
        raise DataError(f"{what} has {result.ndim} dimension; give a 2-D array, one row for each example")
    not_finite = np.flatnonzero(~np.isfinite(result.data))
    if not_finite.size:
        at = int(not_finite[0])
        row = int(np.searchsorted(result.indptr, at, side="right")) - 1
        raise DataError(
            f"{what} holds {result.data[at]} at row {row}, column {result.indices[at]}; only finite numbers are taken"
        )
    if not result.has_canonical_format:
        result = result.copy()
        result.sum_duplicates()
    return result


def label_matrix(Y: Any, names: Sequence[str] | None, what: str = "Y") -> tuple[sp.csr_array, list[str], int]:
    """The 0/1 matrix, its labels' names, and how many labels were repeated within an example.

    ``Y`` is a 0/1 matrix, sparse or dense; or one entry per example, each a label or a list of labels.
    """
    if Y is None:
        raise DataError(f"there is no {what}; give a 0/1 matrix, or for each example its label or list of labels")
    if not sp.issparse(Y) and np.ndim(Y if isinstance(Y, np.ndarray) else ()) < 2:
        return _from_lists(Y, names)
    matrix = feature_matrix(Y, what)
    if not np.isin(matrix.data, (0.0, 1.0)).all():
        raise DataError(f"{what} holds values other than 0 and 1; give one where an example has a label, else zero")
    if (matrix.data == 0).any():
        matrix = matrix.copy()
        matrix.eliminate_zeros()
    if matrix.shape[1] > MOST_LABELS:
        raise DataError(f"{what} has {matrix.shape[1]:,} columns; at most {MOST_LABELS:,} labels can be read")
    chosen = [str(i) for i in range(matrix.shape[1])] if names is None else list(names)
    check_names(chosen, matrix.shape[1], "label")
    return matrix, chosen, 0


def _from_lists(Y: Any, names: Sequence[str] | None) -> tuple[sp.csr_array, list[str], int]:
    rows = [list(entry) if isinstance(entry, list | tuple | set | frozenset | np.ndarray) else [entry] for entry in Y]
    per_row = np.array([len(row) for row in rows], np.int64)
    met = Vocabulary()
    ids = met.add(str(label) for row in rows for label in row)
    chosen, place = met.in_order()
    if names is not None:
        check_names(names, len(names), "label")
        position = {name: i for i, name in enumerate(names)}
        strangers = [name for name in chosen if name not in position]
        if strangers:
            raise DataError(f"label {strangers[0]!r} is not among label_names; add it, or leave label_names out")
        place, chosen = np.array([position[chosen[i]] for i in place], np.int64), list(names)
    matrix, repeated = label_rows(per_row, place[ids], len(chosen))
    return matrix, chosen, repeated
