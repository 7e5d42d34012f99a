"""Helpers of FastXML and LPSR: CSR arrays for compiled code, growing buffers, and the labels with
the best scores.
"""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.errors import DataError
from rembrandt.linalg.threads import n_threads


class Rows(NamedTuple):
    """A CSR matrix for compiled code."""

    starts: NDArray[np.int64]
    columns: NDArray[np.int32]
    values: NDArray[np.float32]


def as_rows(matrix: Any, n_columns: int | None = None) -> Rows:
    """Convert a matrix to canonical CSR arrays without zeros; arrays of the right types are not
    copied.
    """
    csr = sparse.csr_array(matrix)
    if n_columns is not None and csr.shape[1] != n_columns:
        raise DataError(
            f"the model was fitted to {n_columns} features, but these rows have {csr.shape[1]}"
        )
    if not csr.has_canonical_format or not csr.data.all():
        csr = csr.copy()
        csr.sum_duplicates()
        csr.eliminate_zeros()
    return Rows(
        csr.indptr.astype(np.int64), csr.indices.astype(np.int32), csr.data.astype(np.float32)
    )


def unit_length(rows: Rows) -> Rows:
    """Scale rows to unit Euclidean length; empty rows stay empty."""
    lengths = np.diff(rows.starts)
    owner = np.repeat(np.arange(len(lengths)), lengths)
    norms = np.sqrt(
        np.bincount(owner, weights=rows.values.astype(np.float64) ** 2, minlength=len(lengths))
    )
    return rows._replace(values=(rows.values / np.maximum(norms, 1e-30)[owner]).astype(np.float32))


def row_blocks(n: int) -> list[tuple[int, int]]:
    """Split n rows into a few blocks for each thread."""
    edges = np.linspace(0, n, min(n, 4 * n_threads()) + 1).astype(int)
    return [(int(a), int(b)) for a, b in pairwise(edges)]


@njit(nogil=True, cache=True)
def room_for(buffer: NDArray[Any], size: int) -> NDArray[Any]:
    """Return the buffer, or a larger copy with room for ``size`` entries."""
    if size <= len(buffer):
        return buffer
    larger = np.empty(max(size, 2 * len(buffer)), buffer.dtype)
    larger[: len(buffer)] = buffer
    return larger


@njit(nogil=True, cache=True)
def keep_top(
    touched: NDArray[Any], scores: NDArray[Any], labels: NDArray[Any], best: NDArray[Any]
) -> None:
    """Fill ``labels`` and ``best`` with the best of ``scores[touched]``; ties go to the lower
    label.
    """
    kept = 0
    for label in touched:
        score = scores[label]
        if kept == len(best) and (score < best[-1] or (score == best[-1] and label > labels[-1])):
            continue
        at = min(kept, len(best) - 1)
        while at > 0 and (
            best[at - 1] < score or (best[at - 1] == score and labels[at - 1] > label)
        ):
            best[at], labels[at] = best[at - 1], labels[at - 1]
            at -= 1
        best[at], labels[at] = score, label
        kept = min(kept + 1, len(best))
