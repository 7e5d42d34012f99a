"""Sparse matrices of SciPy in a pair of ``.npz`` files: features in one, labels in the other."""

import zipfile
from collections.abc import Sequence
from pathlib import Path

import scipy.sparse as sp

from rembrandt.data.arrays import feature_matrix, named_labels
from rembrandt.data.dataset import Dataset
from rembrandt.errors import DataError


def read_npz(
    path: Path, labels: Path | None, label_names: Sequence[str] | None = None, unlabelled: bool = False
) -> Dataset:
    """Read the features in ``X.npz`` and the 0/1 matrix of their labels in the file ``labels``."""
    if unlabelled:
        X = load_matrix(path)
        return Dataset.from_arrays(X, sp.csr_array((X.shape[0], 0), dtype="float32"))
    if labels is None:
        message = 'the labels are in another file; name it, as in read("X.npz", labels="Y.npz")'
        raise DataError(message, path, parameter="labels")
    X, Y = load_matrix(path), load_matrix(labels)
    if X.shape[0] != Y.shape[0]:
        raise DataError(f"{Y.shape[0]:,} rows of labels for {X.shape[0]:,} examples in {path}; they must agree", labels)
    matrix, names, _ = named_labels(Y, label_names, str(labels))
    return Dataset.build(matrix, feature_matrix(X, str(path)), label_names=names)


def load_matrix(path: Path) -> sp.csr_array:
    """A sparse matrix, which is not trusted."""
    if not path.is_file():
        raise DataError("there is no such file; check the path", path)
    if not zipfile.is_zipfile(path):
        raise DataError("this is not an .npz file; write one with scipy.sparse.save_npz", path)
    try:
        matrix = sp.csr_array(sp.load_npz(path))
        matrix.check_format(full_check=True)  # compiled code will follow the indices
    except (ValueError, KeyError, TypeError, EOFError, OSError, MemoryError, zipfile.BadZipFile) as error:
        raise DataError(f"this is not a sparse matrix ({error}); write it with scipy.sparse.save_npz", path) from error
    return matrix
