"""Balanced clusters of rows by recursive bisection, without a distance matrix."""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.linalg.threads import Workspace, for_each

Array = NDArray[Any]
ROUNDS = 12  # of two-means per cut; the last ones change little


def bisect(A: sparse.csr_array, depth: int, seed: int = 0) -> NDArray[np.int64]:
    """Return the cluster of every row of ``A``, below ``2^depth``; the leading bits name the enclosing clusters.

    Each cut is spherical two-means with sides of equal size: rows are sorted by how much nearer they are to one centre
    than to the other.
    """
    order = np.arange(A.shape[0])
    bounds = np.array([0, A.shape[0]])
    space = Workspace(lambda: np.zeros(A.shape[1], dtype=np.float32))

    def halve(start: int, middle: int, stop: int, seed: int) -> None:
        with space.borrowed() as between:
            _halve(A.indptr, A.indices, A.data, order[start:stop], middle - start, seed, between)

    for level in range(depth):
        middle = (bounds[:-1] + bounds[1:] + 1) // 2
        cuts = zip(bounds[:-1].tolist(), middle.tolist(), bounds[1:].tolist(), strict=True)
        for_each(halve, [(*cut, seed + level) for cut in cuts if cut[2] - cut[0] > 1])
        bounds = np.sort(np.concatenate([bounds, middle]))
    clusters = np.empty(A.shape[0], dtype=np.int64)
    clusters[order] = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
    return clusters


@njit(nogil=True, cache=True, error_model="numpy")
def _halve(indptr: Array, indices: Array, data: Array, rows: Array, left: int, seed: int, between: Array) -> None:
    """Reorder ``rows`` in place so that the first ``left`` are one half; ``between`` is work space of zeros."""
    m = rows.shape[0]
    one = (seed * 7919) % m  # arbitrary first centres
    other = (one + m // 2) % m
    side = np.zeros(m, np.bool_)
    farther = np.empty(m, np.float32)
    _add(indptr, indices, data, rows[one], np.float32(1), between)
    _add(indptr, indices, data, rows[other], np.float32(-1), between)
    for _ in range(ROUNDS):
        for r in range(m):
            nearness = np.float32(0)
            for at in range(indptr[rows[r]], indptr[rows[r] + 1]):
                nearness += data[at] * between[indices[at]]
            farther[r] = -nearness
        found = np.zeros(m, np.bool_)
        found[np.argsort(farther, kind="mergesort")[:left]] = True
        if (found == side).all():
            break
        side = found
        _towards(indptr, indices, data, rows, side, between)
    _forget(indptr, indices, rows, between)
    rows[:] = np.concatenate((rows[side], rows[~side]))


@njit(nogil=True, cache=True, error_model="numpy")
def _towards(indptr: Array, indices: Array, data: Array, rows: Array, side: Array, between: Array) -> None:
    """Set ``between`` to the mean direction of one side minus that of the other."""
    lengths = np.zeros(2)
    for s in range(2):
        _forget(indptr, indices, rows, between)
        for r in range(rows.shape[0]):
            if side[r] == (s == 0):
                _add(indptr, indices, data, rows[r], np.float32(1), between)
        for r in range(rows.shape[0]):  # each column once: it is zeroed after it was counted
            for at in range(indptr[rows[r]], indptr[rows[r] + 1]):
                lengths[s] += between[indices[at]] ** 2
                between[indices[at]] = 0
    for r in range(rows.shape[0]):
        length = lengths[0] if side[r] else -lengths[1]
        if length != 0:
            _add(indptr, indices, data, rows[r], np.float32(np.sign(length) / np.sqrt(abs(length))), between)


@njit(nogil=True, cache=True, error_model="numpy")
def _forget(indptr: Array, indices: Array, rows: Array, between: Array) -> None:
    """Set the columns of ``rows`` to zero."""
    for r in rows:
        for at in range(indptr[r], indptr[r + 1]):
            between[indices[at]] = 0


@njit(nogil=True, cache=True, error_model="numpy")
def _add(indptr: Array, indices: Array, data: Array, row: int, factor: Any, into: Array) -> None:
    for at in range(indptr[row], indptr[row + 1]):
        into[indices[at]] += factor * data[at]
