"""Sparse matrices of SciPy in a pair of ``.npz`` files: features in one, labels in the other."""

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import scipy.sparse as sp

from rembrandt import memory
from rembrandt.data.arrays import feature_matrix, named_labels
from rembrandt.data.dataset import Dataset
from rembrandt.errors import DataError
from rembrandt.linalg.validation import check_sparse

MAX_COLUMNS = 2**31 - 1  # columns are numbered by int32

# Rows cost memory even without entries, and a header can claim any number of them.
MAX_EMPTY_ROWS = 1 << 24  # allowed in any file
MAX_ROWS_PER_ENTRY = 64  # a file with more rows needs entries in proportion


def read_npz(
    path: Path,
    labels: Path | None,
    label_ids: Sequence[str] | None = None,
    unlabelled: bool = False,
) -> Dataset:
    """Read the features in ``X.npz`` and the 0/1 matrix of their labels in the file ``labels``."""
    if unlabelled:
        X = load_matrix(path)
        return Dataset.from_arrays(X, sp.csr_array((X.shape[0], 0), dtype="float32"))
    if labels is None:
        raise DataError(
            'the labels are in another file; name it, as in read("X.npz", labels="Y.npz")',
            path,
            parameter="labels",
        )
    X = load_matrix(path)
    Y = load_matrix(labels)
    if X.shape[0] != Y.shape[0]:
        raise DataError(
            f"{Y.shape[0]:,} rows of labels for {X.shape[0]:,} examples in {path}; they must agree",
            labels,
        )
    matrix, names, _ = named_labels(Y, label_ids, str(labels))
    return Dataset.build(matrix, feature_matrix(X, str(path)), label_ids=names)


def load_matrix(path: Path) -> sp.csr_array:
    """Read a sparse matrix, which is not trusted.

    SciPy converts between formats in compiled code that follows any index.
    """
    if not path.is_file():
        raise DataError("there is no such file; check the path", path)
    if not zipfile.is_zipfile(path):
        raise DataError("this is not an .npz file; write one with scipy.sparse.save_npz", path)
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(member.file_size for member in archive.infolist())
        free = memory.available()
        if size > free:
            raise ValueError(f"its arrays take {size:,} bytes, and {free:,} are free")
        return sp.csr_array(_checked(sp.load_npz(path)))
    except Exception as error:  # of zipfile, zlib, NumPy and SciPy, which document few of theirs
        raise DataError(
            f"this is not a sparse matrix ({error}); write it with scipy.sparse.save_npz", path
        ) from error


def _checked(matrix: Any) -> Any:
    """The matrix if a conversion to CSR is safe."""
    if matrix.ndim != 2 or matrix.dtype.kind not in "biuf":
        raise ValueError(
            f"it has {matrix.ndim} dimensions of type {matrix.dtype} instead of two of real numbers"
        )
    n, d = matrix.shape
    n_entries = matrix.data.size
    if d > MAX_COLUMNS or n > max(MAX_EMPTY_ROWS, MAX_ROWS_PER_ENTRY * n_entries):
        raise ValueError(f"its shape is {n:,} × {d:,}, and it has {n_entries:,} entries")
    check_sparse(matrix, "it")
    return matrix
