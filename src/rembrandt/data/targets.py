"""The ``y`` of scikit-learn's methods, brought to one form.

That is a sparse 0/1 matrix and the names of its columns.
"""

import warnings
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.data.arrays import (
    LABEL_CONTAINERS,
    as_label_list,
    is_lazy_column,
    is_missing,
    label_lists,
    label_matrix,
    label_rows,
    lazy_values,
    move_columns,
    unchanging,
    warn_missing,
)
from rembrandt.data.labels import LabelIndex, as_labels
from rembrandt.data.separators import unsplit_labels, warn_missing_words, warn_spaces
from rembrandt.errors import DataError, RembrandtWarning, kind_of
from rembrandt.linalg.validation import refusals
from rembrandt.scikit import check_classification_targets, column_or_1d


@dataclass(frozen=True)
class Targets:
    """``Y`` (n × c, CSR float32), the names of its columns, and the form in which it was given."""

    Y: sparse.csr_array
    classes: NDArray[Any]
    multiclass: bool
    dense: str | None = None  # dtype of the dense matrix that was given; predictions have the same


def read_targets(y: Any, classes: Any = None) -> Targets:
    """Read a target in any form.

    Labels keep their type. None and NaN are no label.

    Parameters
    ----------
    y : array-like or sparse matrix
        A 1-D array of classes, a 0/1 matrix, or a list of labels for each example.
    classes : array-like, default=None
        Names of the columns of a matrix, or labels that will occur in later calls.

    Returns
    -------
    Targets
    """
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    if classes is None:
        classes = frame_labels(y)
    y = _unwrapped(y)
    is_sparse = sparse.issparse(y)
    if is_matrix(y) and (classes is not None or is_sparse or y.shape[1] > 1):
        names = np.arange(y.shape[1]) if classes is None else classes
        Y, columns = _named_columns(y, names)
        dense = None if is_sparse else str(y.dtype)
        return Targets(Y, columns, multiclass=False, dense=dense)
    if not _has_lists(y) and classes is None:
        return _read_classes(y)
    multiclass = not _has_lists(y)
    if multiclass:
        _check_classes(y)
    no_labels = np.empty(0, np.int64)
    Y, columns = joined_labels(y, classes, no_labels)
    return Targets(Y, columns, multiclass)


def _read_classes(y: Any) -> Targets:
    """Read a 1-D array with one class for each example."""
    with refusals("y", "give one label for each example, lists of labels, or a 0/1 matrix"):
        labels, is_present = present_labels(column_or_1d(y, warn=True))
        _check_classes(labels)
    names, ids = np.unique(labels, return_inverse=True)
    if len(names) == 0:
        raise DataError("the target has no class; give examples of at least two classes")
    if len(names) == 1:
        raise DataError(
            f"the target has one class only ({names[0]!r}); give examples of at least two classes"
        )
    counts = is_present.astype(np.int64)
    Y, _ = label_rows(counts, ids.astype(np.int32), len(names))
    return Targets(Y, as_labels(names), multiclass=True)


def _check_classes(labels: Any) -> None:
    """Refuse a target of a regression. Strings are classes, however many there are."""
    if all(isinstance(label, str) for label in labels):
        return
    check_classification_targets(labels)


def present_labels(y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """The labels that are not missing, and a mask of them; None and NaN never become a class."""
    if y.dtype == object:
        missing = np.fromiter(map(is_missing, y), bool, len(y))
    elif y.dtype.kind == "f":
        missing = np.isnan(y)
    else:
        missing = np.zeros(len(y), dtype=bool)
    if not missing.any():
        return y, ~missing
    if missing.all():
        raise DataError("all labels are missing (None or NaN); give labels for some rows")
    warn_missing(int(missing.sum()), len(y))
    present = y[~missing]
    if y.dtype == object:
        present = as_labels(present)
    return present, ~missing


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
    >>> [labels.tolist() for labels in label_array([["red", "round"], ["red"]])]
    [['red', 'round'], ['red']]
    """
    rows = list(labels)
    result = np.empty(len(rows), dtype=object)
    for row, entry in enumerate(rows):
        result[row] = np.array(as_label_list(entry), dtype=object)
    return result


def named_targets(y: Any, classes: Any = None) -> Targets:
    """Read the targets of a fit.

    Labels that look like several in one cause a warning, unless ``classes`` names them.
    """
    targets = read_targets(y, classes)
    if classes is not None or frame_labels(y) is not None:
        return targets
    names = targets.classes.tolist()
    counts = np.bincount(targets.Y.indices, minlength=len(names))
    warn_missing_words(names, counts)
    warn_spaces(names, counts)
    unsplit = unsplit_labels(names, counts)
    if unsplit is not None:
        remedy = f"[label.split({unsplit.separator!r}) for label in y]"
        message = (
            f"{unsplit.sentence()}; give a list of labels for each row: {remedy}, or their names "
            "in classes"
        )
        warnings.warn(RembrandtWarning(message), stacklevel=2)
    return targets


def joined_labels(
    y: Any, classes: Any, model_labels: NDArray[Any]
) -> tuple[sparse.csr_array, NDArray[Any]]:
    """Read ``y`` over the labels of a model and new ones.

    Parameters
    ----------
    y : array-like or sparse matrix
        A label or a list of labels for each row, or a 0/1 matrix.
    classes : array-like or None
        More labels; or the names of the columns of a matrix, which are the labels of the model
        otherwise.
    model_labels : ndarray
        The labels of a model.

    Returns
    -------
    Y : csr_array of shape (n_rows, n_model_labels + n_new)
        A 0/1 matrix over the labels of the model and then the new ones.
    new : ndarray of shape (n_new,)
        The new labels, sorted.
    """
    if classes is None:
        classes = frame_labels(y)
    y = _unwrapped(y)
    names = model_labels if classes is None else as_labels(classes)
    if is_matrix(y):
        labels = names.tolist()
        what = "labels of the model; give classes" if classes is None else "classes"
        Y, _ = _named_columns(y, labels, what)
    else:
        labels, counts = label_lists(y)
        Y, _ = label_rows(counts, np.arange(len(labels)), len(labels))
    index = LabelIndex(model_labels)
    new = _new_labels(labels + names.tolist(), index, model_labels)
    index.add(new.tolist())
    Y = move_columns(Y, index.columns(labels), len(index))
    Y.sum_duplicates()
    Y.data[:] = 1  # a label that is repeated in a row counts once
    if len(new) == 0:
        new = model_labels[:0]  # with the type of the labels of the model
    return Y, new


def _new_labels(labels: list[Any], index: LabelIndex, model_labels: NDArray[Any]) -> NDArray[Any]:
    """The labels that are not in the index, sorted; all must be of the type of the model's."""
    try:
        unknown = set(labels).difference(index.names)
        new = as_labels(sorted(unknown))
    except TypeError as error:
        kinds = sorted({type(label).__name__ for label in labels})
        problem = f"are of the types {' and '.join(kinds)}"
        if len(kinds) == 1:
            problem = f"of type {kinds[0]} have no order ({error})"
        raise DataError(f"the labels {problem}; give strings only, or numbers only") from error
    if len(new) and len(model_labels) and _are_strings(new) != _are_strings(model_labels):
        raise DataError(
            f"the labels of the model are of type {model_labels.dtype} and the new ones of type "
            f"{new.dtype}; give labels of the same type"
        )
    return new


def _are_strings(labels: NDArray[Any]) -> bool:
    return labels.dtype.kind in "USO"


def _named_columns(
    y: Any, classes: Any, what: str = "classes"
) -> tuple[sparse.csr_array, NDArray[Any]]:
    """A matrix and the names of its columns, in their order: predictions have the same columns."""
    Y = label_matrix(y)
    names = as_labels(classes)
    if Y.shape[1] != len(names):
        raise DataError(
            f"y has {Y.shape[1]} columns and there are {len(names)} {what}: name each column"
        )
    if len(set(names.tolist())) < len(names):
        raise DataError("a class is named twice; name each column once")
    return Y, names


def named_like(names: list[str], model_labels: NDArray[Any]) -> list[Any]:
    """Labels of a file in the type of a model's own: strings, or whole numbers."""
    if _are_strings(model_labels):
        return names
    numbers = []
    for name in names:
        if not name.isdecimal():
            raise DataError(
                f"the labels of the model are numbers, and {name!r} is not one; give numbers"
            )
        numbers.append(int(name))
    return numbers


def frame_labels(y: Any) -> list[Any] | None:
    """The names of the columns of a 0/1 matrix that is a data frame; None for another target."""
    if not hasattr(y, "columns") or not hasattr(y, "to_numpy"):
        return None
    names = list(y.columns)
    return names if len(names) > 1 else None


def _unwrapped(y: Any) -> Any:
    """Bring a target into a form that the readers know.

    Tables become arrays, arrays of lists become lists, and a 0/1 matrix that is written as lists
    becomes an array. What has no order or can be read only once is refused.
    """
    if isinstance(y, str | Mapping | Set | Iterator):
        raise DataError(f"y is {kind_of(y)}; give a list or an array with one entry for each row")
    if is_lazy_column(y):
        y = lazy_values(y)
    y = unchanging(y, "y")
    if hasattr(y, "to_numpy"):  # a data frame or a series
        y = y.to_numpy()
    if isinstance(y, np.ndarray) and y.dtype == object and y.ndim == 1:
        entries = list(y)
        if _has_lists(entries):
            y = entries
    if not isinstance(y, list | tuple):
        return y
    if _has_lists(y):
        return np.asarray(y) if _are_indicators(y) else y
    if any(isinstance(label, str) for label in y):
        return np.array(y, dtype=object)
    return y


def _has_lists(y: Any) -> bool:
    """Whether this is a sequence that has the labels of an example as a list, at least once."""
    if not isinstance(y, list | tuple):
        return False
    return any(isinstance(entry, LABEL_CONTAINERS) for entry in y)


def is_matrix(y: Any) -> bool:
    """Whether this is a sparse matrix or has two dimensions."""
    return sparse.issparse(y) or getattr(y, "ndim", 1) == 2


def _are_indicators(rows: Any) -> bool:
    """Whether these are rows of a 0/1 matrix, and not lists of labels.

    They are if they have one length, longer than one, and hold zeros and ones only.
    """
    if not all(isinstance(row, list | tuple | np.ndarray) for row in rows):
        return False
    if len({len(row) for row in rows}) != 1:
        return False
    matrix = np.asarray(rows)
    is_numeric = matrix.ndim == 2 and matrix.dtype.kind in "biuf"
    return is_numeric and matrix.shape[1] > 1 and bool(np.isin(matrix, (0, 1)).all())
