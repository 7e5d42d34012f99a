"""The ``y`` of scikit-learn's methods, brought to one form: a sparse 0/1 matrix and the names of
its columns.
"""

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from rembrandt.data.arrays import (
    SEVERAL,
    is_missing,
    label_lists,
    label_matrix,
    label_rows,
    move_columns,
    warn_missing,
)
from rembrandt.data.labels import LabelIndex, as_labels
from rembrandt.data.separators import unsplit_labels
from rembrandt.errors import DataError, RembrandtWarning


@dataclass(frozen=True)
class Targets:
    """``Y`` (n × c, CSR float32), the names of its columns, and the form in which it was given."""

    Y: sparse.csr_array
    classes: NDArray[Any]
    multiclass: bool
    dense: str | None = None  # dtype of the dense matrix that was given; predictions have the same


def read_targets(y: Any, classes: Any = None) -> Targets:
    """Read a 1-D array of classes, a 0/1 matrix (sparse or dense), or a list of labels for each
    example.

    ``classes`` names the columns of a matrix, or labels that will occur in later calls. Labels keep
    their type. None and NaN are no label.
    """
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    y = _unwrapped(y)
    matrix = is_matrix(y) and (classes is not None or sparse.issparse(y) or y.shape[1] > 1)
    dense = str(y.dtype) if matrix and not sparse.issparse(y) else None
    if matrix:
        return Targets(
            *_named_columns(y, np.arange(y.shape[1]) if classes is None else classes), False, dense
        )
    if _has_lists(y) or classes is not None:
        multiclass = not _has_lists(y)
        if multiclass:
            check_classification_targets(y)
        return Targets(*joined_labels(y, classes, np.empty(0, np.int64)), multiclass)
    y, given = present_labels(column_or_1d(y, warn=True))
    check_classification_targets(y)
    names, ids = np.unique(y, return_inverse=True)
    if len(names) < 2:
        found = f"has one class only ({names[0]!r})" if len(names) else "has no class"
        raise DataError(f"the target {found}; give examples of at least two classes")
    return Targets(
        label_rows(given.astype(np.int64), ids.astype(np.int32), len(names))[0],
        as_labels(names),
        True,
    )


def present_labels(y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """The labels that are not missing, and a mask of them; None and NaN never become a class."""
    missing = np.isnan(y) if y.dtype.kind == "f" else np.zeros(len(y), dtype=bool)
    if y.dtype == object:
        missing = np.fromiter(map(is_missing, y), bool, len(y))
    if not missing.any():
        return y, ~missing
    if missing.all():
        raise DataError("all labels are missing (None or NaN); give labels for some rows")
    warn_missing(int(missing.sum()), len(y))
    present = y[~missing]
    return as_labels(present) if y.dtype == object else present, ~missing


def label_array(labels: Iterable[Any]) -> NDArray[np.object_]:
    """Return lists of labels as an array that scikit-learn can split.

    Tools such as `cross_val_score` and `GridSearchCV` refuse a list of lists as ``y``, and sparse
    matrices too.

    Parameters
    ----------
    labels : iterable
        A list of labels for each row.

    Returns
    -------
    ndarray of shape (n_samples,)
        An array of labels for each row.

    Examples
    --------
    >>> [each.tolist() for each in label_array([["red", "round"], ["red"]])]
    [['red', 'round'], ['red']]
    """
    rows = list(labels)
    found = np.empty(len(rows), dtype=object)
    for row, entry in enumerate(rows):
        found[row] = np.array(list(entry) if isinstance(entry, SEVERAL) else [entry], dtype=object)
    return found


def named_targets(y: Any, classes: Any = None) -> Targets:
    """Read the targets of a fit; warn about labels that look like several in one, unless
    ``classes`` names them.
    """
    targets = read_targets(y, classes)
    names = targets.classes.tolist() if classes is None else []
    found = unsplit_labels(names, np.bincount(targets.Y.indices, minlength=len(names)))
    if found is not None:
        remedy = f"[label.split({found.separator!r}) for label in y]"
        message = (
            f"{found.sentence()}; give a list of labels for each row: {remedy}, or their names in "
            "classes"
        )
        warnings.warn(RembrandtWarning(message), stacklevel=2)
    return targets


def joined_labels(
    y: Any, classes: Any, known: NDArray[Any]
) -> tuple[sparse.csr_array, NDArray[Any]]:
    """``y`` as a 0/1 matrix over the ``known`` labels and then new ones, and the names of the new
    ones.

    ``y`` is a label or a list of labels for each row, and ``classes`` names more labels. Or ``y``
    is a matrix, and ``classes`` names its columns, which are the ``known`` labels otherwise.
    """
    y = _unwrapped(y)
    named = (known if classes is None else as_labels(classes)).tolist()
    if is_matrix(y):
        labels = named
        Y, _ = _named_columns(
            y, named, "classes" if classes is not None else "labels of the model; give classes"
        )
    else:
        labels, counts = label_lists(y)
        Y, _ = label_rows(counts, np.arange(len(labels)), len(labels))
    index = LabelIndex(known)
    try:
        new = as_labels(sorted({*labels, *named}.difference(index.names)))
    except TypeError as error:
        raise DataError(
            f"the labels are not of one type ({error}); give strings only, or numbers only"
        ) from error
    if len(new) and len(known) and (new.dtype.kind in "USO") != (known.dtype.kind in "USO"):
        types = f"of type {known.dtype} and the new ones of type {new.dtype}"
        raise DataError(f"the labels of the model are {types}; give labels of the same type")
    index.add(new.tolist())
    Y = move_columns(Y, index.columns(labels), len(index))
    Y.sum_duplicates()
    Y.data[:] = 1  # a label that is repeated in a row counts once
    return Y, new if len(new) else known[:0]


def _named_columns(
    y: Any, classes: Any, what: str = "classes"
) -> tuple[sparse.csr_array, NDArray[Any]]:
    """A matrix and the names of its columns, in their order: predictions have the same columns."""
    Y, names = label_matrix(y), as_labels(classes)
    if Y.shape[1] != len(names):
        raise DataError(
            f"y has {Y.shape[1]} columns and there are {len(names)} {what}: name each column"
        )
    if len({*names.tolist()}) < len(names):
        raise DataError("a class is named twice; name each column once")
    return Y, names


def named_like(names: list[str], known: NDArray[Any]) -> list[Any]:
    """Labels of a file in the type of a model's own: strings, or whole numbers."""
    if known.dtype.kind in "USO":
        return names
    strange = next((name for name in names if not name.isdecimal()), None)
    if strange is not None:
        raise DataError(
            f"the labels of the model are numbers, and {strange!r} is not one; give numbers"
        )
    return [int(name) for name in names]


def _unwrapped(y: Any) -> Any:
    """Tables as arrays, arrays of lists as lists, and a 0/1 matrix that is written as lists as an
    array.
    """
    if hasattr(y, "to_numpy"):  # a data frame or a series
        y = y.to_numpy()
    if (
        isinstance(y, np.ndarray)
        and y.dtype == object
        and y.ndim == 1
        and any(isinstance(e, SEVERAL) for e in y)
    ):
        y = list(y)
    if (
        isinstance(y, list | tuple)
        and any(isinstance(label, str) for label in y)
        and not _has_lists(y)
    ):
        return np.array(y, dtype=object)
    return np.asarray(y) if _has_lists(y) and _are_indicators(y) else y


def _has_lists(y: Any) -> bool:
    return isinstance(y, list | tuple) and any(isinstance(entry, SEVERAL) for entry in y)


def is_matrix(y: Any) -> bool:
    return sparse.issparse(y) or getattr(y, "ndim", 1) == 2


def _are_indicators(rows: Any) -> bool:
    """Whether these are rows of zeros and ones of one length, longer than one: a matrix, not lists
    of labels.
    """
    if len({len(row) if isinstance(row, list | tuple | np.ndarray) else -1 for row in rows}) != 1:
        return False
    matrix = np.asarray(rows)
    numeric = matrix.ndim == 2 and matrix.dtype.kind in "biuf"
    return numeric and matrix.shape[1] > 1 and bool(np.isin(matrix, (0, 1)).all())
