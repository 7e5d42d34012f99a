"""What a user gives as ``y``, brought to one form: a sparse 0/1 matrix and the names of its columns."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from rembrandt.data.arrays import label_matrix
from rembrandt.data.sparse import label_rows, move_columns
from rembrandt.errors import DataError


@dataclass(frozen=True)
class Targets:
    """``Y`` (n×c, CSR float32) with the names of its columns and the way it was given."""

    Y: sparse.csr_array
    classes: NDArray[Any]
    multiclass: bool
    dense: str | None = None  # the type of the dense matrix it was given as, which predictions are handed back as


_SEVERAL = (list, tuple, set, frozenset, np.ndarray)  # what holds the labels of one example


def read_targets(y: Any) -> Targets:
    """A 1-D array of classes of any type, a 0/1 matrix (sparse or dense), or a list of labels for each example."""
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    y = _unwrapped(y)
    if sparse.issparse(y) or (isinstance(y, np.ndarray) and y.ndim == 2 and y.shape[1] > 1):
        Y, _, _ = label_matrix(y, None)
        return Targets(Y, np.arange(Y.shape[1]), multiclass=False, dense=None if sparse.issparse(y) else str(y.dtype))
    if isinstance(y, list | tuple) and any(isinstance(entry, _SEVERAL) for entry in y):
        Y, names, _ = label_matrix(y, None)
        return Targets(Y, np.asarray(names), multiclass=False)
    y = column_or_1d(y, warn=True)
    check_classification_targets(y)
    classes, index = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise DataError(
            f"the target holds one class only ({classes[0]!r}): there is nothing to tell apart. "
            "Give examples of at least two classes."
        )
    ones = np.ones(len(y), dtype=np.float32)
    Y = sparse.csr_array((ones, index.astype(np.int32), np.arange(len(y) + 1)), shape=(len(y), len(classes)))
    return Targets(Y, classes, multiclass=True)


def read_first(y: Any, classes: Any = None) -> Targets:
    """The labels of the first examples of several lots; ``classes`` names a matrix's columns, or labels yet to come."""
    if classes is None:
        return read_targets(y)
    names, y = np.asarray(list(classes)), _unwrapped(y)
    single = not _is_matrix(y) and not any(isinstance(entry, _SEVERAL) for entry in y)
    if single:
        check_classification_targets(y)
    Y, names = joined_labels(y, names, names[:0])
    return Targets(
        Y, names, multiclass=single, dense=str(y.dtype) if isinstance(y, np.ndarray) and y.ndim == 2 else None
    )


def joined_labels(y: Any, classes: Any, known: NDArray[Any]) -> tuple[sparse.csr_array, NDArray[Any]]:
    """``y`` as a 0/1 matrix over the ``known`` labels and then new ones, and the names of the new, of the same type.

    ``y`` is a label or a list of labels for each row, and ``classes`` more that may come; or it is a matrix, and
    ``classes`` names its columns, which are the ``known`` labels without it.
    """
    y = _unwrapped(y)
    seen = {name: i for i, name in enumerate(known.tolist())}
    named = known.tolist() if classes is None else np.asarray(list(classes)).tolist()
    if _is_matrix(y):
        Y, _, _ = label_matrix(y, None)
        if Y.shape[1] != len(named):
            given = "classes" if classes is not None else "labels of the model; give classes, the names of its columns"
            raise DataError(f"y has {Y.shape[1]} columns and there are {len(named)} {given}: name each column")
        if len(set(named)) < len(named):
            raise DataError("a class is named twice; name each column once")
        flat = named
    else:
        lists = [list(entry) if isinstance(entry, _SEVERAL) else [entry] for entry in y]
        flat = [label.item() if isinstance(label, np.generic) else label for labels in lists for label in labels]
        Y, _ = label_rows(np.array([len(each) for each in lists], np.int64), np.arange(len(flat)), len(flat))
    names = np.asarray(sorted({name for name in (*flat, *named) if name not in seen}))
    if len(names) and len(known) and (names.dtype.kind in "USO") != (known.dtype.kind in "USO"):
        raise DataError(
            f"the model's labels are of type {known.dtype} and the new ones of type {names.dtype}; give the same type"
        )
    seen |= {name: len(known) + i for i, name in enumerate(names.tolist())}
    place = np.array([seen[name] for name in flat], np.int64)
    Y = move_columns(Y, place, len(seen))
    Y.sum_duplicates()
    Y.data[:] = 1  # a label repeated in a row counts once
    return Y, names if len(names) else known[:0]


def new_labels(y: Any, classes: Any, known: NDArray[Any]) -> tuple[sparse.csr_array, NDArray[Any]]:
    """``y`` as a 0/1 matrix over the labels in it that are not ``known``, and their names, of the same type."""
    if classes is None and _is_matrix(_unwrapped(y)):
        raise DataError("y is a matrix; give classes, the names of its columns")
    again = np.isin(np.asarray([] if classes is None else list(classes)), known)
    if again.any():
        named = np.asarray(list(classes))[again][0]
        raise DataError(f"the model has label {named!r} already; give labels that it does not know")
    Y, names = joined_labels(y, classes, known)
    if len(names) == 0:
        raise DataError("y has no label that the model does not know; there is nothing to add")
    return Y[:, len(known) :], names


def named_like(names: list[str], known: NDArray[Any]) -> list[Any]:
    """Labels of a file as a model names its own: strings, or whole numbers."""
    if known.dtype.kind in "USO":
        return names
    strange = next((name for name in names if not name.isdecimal()), None)
    if strange is not None:
        raise DataError(f"the model's labels are numbers, and {strange!r} is none; give numbers")
    return [int(name) for name in names]


def _unwrapped(y: Any) -> Any:
    """Tables as arrays, arrays of lists as lists, and a 0/1 matrix that is written as lists as one."""
    if hasattr(y, "to_numpy"):  # a table or a series of one
        y = y.to_numpy()
    if isinstance(y, np.ndarray) and y.dtype == object and y.ndim == 1 and any(isinstance(e, _SEVERAL) for e in y):
        y = list(y)
    lists = isinstance(y, list | tuple) and any(isinstance(entry, _SEVERAL) for entry in y)
    return np.asarray(y) if lists and _are_indicators(y) else y


def _is_matrix(y: Any) -> bool:
    return sparse.issparse(y) or getattr(y, "ndim", 1) == 2


def _are_indicators(rows: Any) -> bool:
    """Rows of zeros and ones of one length, longer than one: a matrix written as lists, not lists of labels."""
    if len({len(row) if isinstance(row, list | tuple | np.ndarray) else -1 for row in rows}) != 1:
        return False
    matrix = np.asarray(rows)
    return (
        matrix.ndim == 2 and matrix.shape[1] > 1 and matrix.dtype.kind in "biuf" and bool(np.isin(matrix, (0, 1)).all())
    )
