"""Names to columns, and rows of ids to sparse matrices."""

import re
from collections.abc import Iterable, Sequence

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

# Every label has a name in memory, so a mistaken header, id or shape must not ask for more than there can be.
MOST_LABELS = 1 << 24

_PLAIN_INTEGER = re.compile(r"[0-9]{1,18}")


class Vocabulary:
    """Names in the order in which they were first met."""

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}

    def add(self, names: Iterable[str]) -> NDArray[np.int64]:
        """The id of each name, new names getting the next ones."""
        ids = self._ids
        return np.fromiter((ids.setdefault(name, len(ids)) for name in names), np.int64)

    def in_order(self) -> tuple[list[str], NDArray[np.int64]]:
        """The names sorted, and for each id the place its name has there."""
        names = list(self._ids)
        order = sorted_order(names)
        place = np.empty(len(names), np.int64)
        place[order] = np.arange(len(names))
        return [names[i] for i in order], place


def sorted_order(names: Sequence[str]) -> NDArray[np.int64]:
    """The order that sorts names: as numbers when every one is a plain integer, else as text."""
    if all(_PLAIN_INTEGER.fullmatch(name) for name in names):
        return np.array(sorted(range(len(names)), key=lambda i: (int(names[i]), names[i])), np.int64)
    return np.array(sorted(range(len(names)), key=names.__getitem__), np.int64)


def feature_rows(
    per_row: NDArray[np.int64], ids: NDArray[np.integer], values: NDArray[np.float32], n_columns: int
) -> tuple[sp.csr_array, int]:
    """A feature matrix from each row's ids and values, and how many features came twice in a row.

    Values of a feature that is repeated in a row are added, as they are in every sparse matrix.
    """
    matrix = sp.csr_array((values, ids, _starts(per_row)), shape=(per_row.size, n_columns))
    before = matrix.nnz
    matrix.sum_duplicates()
    return matrix, before - matrix.nnz


def label_rows(per_row: NDArray[np.int64], ids: NDArray[np.integer], n_columns: int) -> tuple[sp.csr_array, int]:
    """A label matrix of ones from each row's ids, and how many labels came twice in a row."""
    matrix, repeated = feature_rows(per_row, ids, np.ones(ids.size, np.float32), n_columns)
    matrix.data[:] = 1.0
    return matrix, repeated


def move_columns(matrix: sp.csr_array, place: NDArray[np.int64], n_columns: int) -> sp.csr_array:
    """The matrix with column ``j`` moved to ``place[j]``, or dropped where that is negative."""
    moved = place[matrix.indices]
    kept = moved >= 0
    starts = np.concatenate([[0], np.cumsum(kept)])[matrix.indptr]
    result = sp.csr_array((matrix.data[kept], moved[kept], starts), shape=(matrix.shape[0], n_columns))
    result.sort_indices()
    return result


def _starts(per_row: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(per_row, dtype=np.int64)])
