"""What a user gives as ``y``, brought to one form: a sparse 0/1 matrix and the names of its columns."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from rembrandt.data.arrays import label_matrix
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
    if hasattr(y, "to_numpy"):  # a table or a series of one
        y = y.to_numpy()
    if isinstance(y, np.ndarray) and y.dtype == object and y.ndim == 1 and any(isinstance(e, _SEVERAL) for e in y):
        y = list(y)
    if sparse.issparse(y) or (isinstance(y, np.ndarray) and y.ndim == 2 and y.shape[1] > 1):
        Y, _, _ = label_matrix(y, None)
        return Targets(Y, np.arange(Y.shape[1]), multiclass=False, dense=None if sparse.issparse(y) else str(y.dtype))
    if isinstance(y, list | tuple) and any(isinstance(entry, _SEVERAL) for entry in y):
        if _are_indicators(y):
            return read_targets(np.asarray(y))
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


def new_labels(y: Any, classes: Any, known: NDArray[Any]) -> tuple[sparse.csr_array, NDArray[Any]]:
    """``y`` as a 0/1 matrix over the labels in it that are not ``known``, and their names, of the same type."""
    if classes is not None:
        Y, _, _ = label_matrix(y, None)
        names = np.asarray(list(classes))
        if Y.shape[1] != len(names):
            raise DataError(f"y has {Y.shape[1]} columns and there are {len(names)} classes: name each column")
    else:
        if sparse.issparse(y) or getattr(y, "ndim", 1) == 2:
            raise DataError("y is a matrix; give classes, the names of its columns")
        lists = [list(entry) if isinstance(entry, _SEVERAL) else [entry] for entry in y]
        flat = [label.item() if isinstance(label, np.generic) else label for labels in lists for label in labels]
        seen = set(known.tolist())
        names = np.asarray(sorted({label for label in flat if label not in seen}))
        place = {name: i for i, name in enumerate(names.tolist())}
        columns = np.array([place.get(label, -1) for label in flat], dtype=np.int64)
        rows = np.repeat(np.arange(len(lists)), [len(labels) for labels in lists])
        new = columns >= 0
        ones = np.ones(int(new.sum()), dtype=np.float32)
        Y = sparse.csr_array((ones, (rows[new], columns[new])), shape=(len(lists), len(names)))
        Y.data[:] = 1  # a label repeated in a row counts once
    if len(names) == 0:
        raise DataError("y has no label that the model does not know; there is nothing to add")
    if len(set(names.tolist())) < len(names):
        raise DataError("a class is named twice; name each column once")
    if (names.dtype.kind in "USO") != (known.dtype.kind in "USO"):
        raise DataError(
            f"the model's labels are of type {known.dtype} and the new ones of type {names.dtype}; give the same type"
        )
    return Y, names


def _are_indicators(rows: Any) -> bool:
    """Rows of zeros and ones of one length, longer than one: a matrix written as lists, not lists of labels."""
    if len({len(row) if isinstance(row, list | tuple | np.ndarray) else -1 for row in rows}) != 1:
        return False
    matrix = np.asarray(rows)
    return (
        matrix.ndim == 2 and matrix.shape[1] > 1 and matrix.dtype.kind in "biuf" and bool(np.isin(matrix, (0, 1)).all())
    )
