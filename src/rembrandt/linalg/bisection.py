"""Balanced clusters of rows by recursive bisection, without a distance matrix."""

from typing import Any

import numpy as np
from numba import njit
from scipy import sparse

from rembrandt.linalg import Array, Indices
from rembrandt.linalg.threads import Workspace, for_each

ROUNDS = 12  # of two-means per cut, at most
STILL = 0.01  # part of the rows that change sides in the last round


def bisect(A: sparse.csr_array, depth: int, seed: int = 0) -> Indices:
    """Return the cluster of every row of ``A``, below ``2^depth``; the leading bits name the
    enclosing clusters.

    Each cut is spherical two-means with sides of equal size: rows are sorted by how much nearer
    they are to one centre than to the other.
    """
    order = np.arange(A.shape[0])
    bounds = np.array([0, A.shape[0]])
    space = Workspace(lambda: np.zeros(A.shape[1], dtype=np.float32))

    def halve(start: int, middle: int, stop: int, seed: int) -> None:
        with space.borrowed() as centre:
            _halve(A.indptr, A.indices, A.data, order[start:stop], middle - start, seed, centre)

    for level in range(depth):
        middle = (bounds[:-1] + bounds[1:] + 1) // 2
        cuts = zip(bounds[:-1].tolist(), middle.tolist(), bounds[1:].tolist(), strict=True)
        for_each(halve, [(*cut, seed + level) for cut in cuts if cut[2] - cut[0] > 1])
        bounds = np.sort(np.concatenate([bounds, middle]))
    clusters = np.empty(A.shape[0], dtype=np.int64)
    clusters[order] = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
    return clusters


@njit(nogil=True, cache=True, error_model="numpy")
def _halve(
    indptr: Array, indices: Array, data: Array, rows: Array, left: int, seed: int, centre: Array
) -> None:
    """Reorder ``rows`` in place so that the first ``left`` are one half; ``centre`` is work space
    of zeros.

    With a the sum of one half and t that of all rows, a row's inner products with both give its
    products with either half, and their sums give the squared lengths: ``aᵀa = Σ xᵀa`` over the
    rows of the half. So a round reads every row once, and adds the few that change sides.
    """
    m = rows.shape[0]
    one = (seed * 7919) % m  # arbitrary first centres
    _add(indptr, indices, data, rows[one], np.float32(1), centre)
    _add(indptr, indices, data, rows[(one + m // 2) % m], np.float32(-1), centre)
    with_half, with_all = np.empty(m, np.float32), np.empty(m, np.float32)
    _dots(indptr, indices, data, rows, centre, with_half)
    side = _nearest(with_half, left)
    _forget(indptr, indices, rows, centre)
    for r in range(m):
        _add(indptr, indices, data, rows[r], np.float32(1), centre)
    _dots(indptr, indices, data, rows, centre, with_all)
    for r in range(m):
        if not side[r]:
            _add(indptr, indices, data, rows[r], np.float32(-1), centre)
    for _ in range(ROUNDS):
        _dots(indptr, indices, data, rows, centre, with_half)
        aa = at = tt = 0.0
        for r in range(m):
            tt += with_all[r]
            if side[r]:
                aa += with_half[r]
                at += with_all[r]
        to_half, to_rest = _inverse_root(aa), _inverse_root(tt - 2 * at + aa)
        found = _nearest(to_half * with_half - to_rest * (with_all - with_half), left)
        changed = 0
        for r in range(m):
            if found[r] != side[r]:
                _add(indptr, indices, data, rows[r], np.float32(1 if found[r] else -1), centre)
                changed += 1
        side = found
        if changed <= STILL * m:
            break
    _forget(indptr, indices, rows, centre)
    rows[:] = np.concatenate((rows[side], rows[~side]))


@njit(nogil=True, cache=True, error_model="numpy")
def _nearest(nearness: Array, left: int) -> Array:
    """Mark the ``left`` rows with the largest values, the first ones among equal values."""
    limit = np.partition(nearness, nearness.shape[0] - left)[nearness.shape[0] - left]
    found = nearness > limit
    missing = left - found.sum()
    for r in range(nearness.shape[0]):
        if missing > 0 and nearness[r] == limit:
            found[r] = True
            missing -= 1
    return found


@njit(nogil=True, cache=True)
def _inverse_root(square: float) -> Any:
    return np.float32(1 / np.sqrt(square)) if square > 1e-12 else np.float32(0)


@njit(nogil=True, cache=True, fastmath={"contract", "reassoc"}, error_model="numpy")
def _dots(
    indptr: Array, indices: Array, data: Array, rows: Array, centre: Array, out: Array
) -> None:
    for r in range(rows.shape[0]):
        total = np.float32(0)
        for at in range(indptr[rows[r]], indptr[rows[r] + 1]):
            total += data[at] * centre[indices[at]]
        out[r] = total


@njit(nogil=True, cache=True, error_model="numpy")
def _forget(indptr: Array, indices: Array, rows: Array, centre: Array) -> None:
    """Set the columns of ``rows`` to zero."""
    for r in rows:
        for at in range(indptr[r], indptr[r + 1]):
            centre[indices[at]] = 0


@njit(nogil=True, cache=True, error_model="numpy")
def _add(indptr: Array, indices: Array, data: Array, row: int, factor: Any, into: Array) -> None:
    for at in range(indptr[row], indptr[row + 1]):
        into[indices[at]] += factor * data[at]
