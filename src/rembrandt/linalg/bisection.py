"""Balanced clusters of rows by recursive bisection, without a distance matrix.

Inner loops have unsigned indices, as those of `rembrandt.linalg.hinge`, which says why.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from rembrandt.kernels import inner_kernel, kernel
from rembrandt.linalg import Array, Indices
from rembrandt.linalg.hashing import Keys, hashed
from rembrandt.linalg.selection import nth_smallest
from rembrandt.linalg.sparse import short_indices
from rembrandt.linalg.threads import Workspace, for_each

# Rounds of two-means per cut, at most.
MAX_ROUNDS = 12

# A cut is final when at most this share of the rows changes sides in a round.
MAX_CHANGED_SHARE = 0.01

# A sum of rows with a smaller squared length has no direction.
MIN_SQUARED_LENGTH = 1e-12


def bisect(A: sparse.csr_array, depth: int, seed: int = 0, keys: Keys | None = None) -> Indices:
    """Return the cluster of every row of ``A``, below ``2^depth``.

    The leading bits of a cluster name the enclosing clusters. Each cut is spherical two-means with
    sides of equal size: rows are sorted by how much nearer they are to one centre than to the
    other. The first centres are the two rows with the smallest hashes of their keys, so that
    clusters hardly change with one row more; without keys, of their numbers.
    """
    n_rows, n_columns = A.shape
    if keys is None:
        keys = np.arange(n_rows, dtype=np.uint64)
    order = np.arange(n_rows)
    bounds = np.array([0, n_rows])
    indptr = A.indptr.astype(np.int64, copy=False)
    indices = short_indices(A)
    centres = Workspace(lambda: np.zeros(n_columns, dtype=np.float32))

    def halve(start: int, middle: int, stop: int, level_keys: Keys) -> None:
        rows = order[start:stop]
        first, opposite = _two_smallest(level_keys[rows])
        space = tuple(HalvingSpace.of(rows))
        with centres.borrowed() as centre:
            _halve(indptr, indices, A.data, rows, middle - start, first, opposite, centre, space)

    for level in range(depth):
        level_keys = hashed(keys, seed + level)
        starts = bounds[:-1]
        stops = bounds[1:]
        middles = (starts + stops + 1) // 2
        cuts = []
        for start, middle, stop in zip(
            starts.tolist(), middles.tolist(), stops.tolist(), strict=True
        ):
            if stop - start > 1:
                cuts.append((start, middle, stop, level_keys))
        for_each(halve, cuts)
        bounds = np.sort(np.concatenate([bounds, middles]))
    sizes = np.diff(bounds)
    clusters = np.empty(n_rows, dtype=np.int64)
    clusters[order] = np.repeat(np.arange(len(sizes)), sizes)
    return clusters


def _two_smallest(keys: Keys) -> list[int]:
    """Return the positions of the smallest key and of the one after it."""
    smallest = np.argpartition(keys, 1)[:2]
    ordered = smallest[np.argsort(keys[smallest])]
    return [int(position) for position in ordered]


class HalvingSpace(NamedTuple):
    """Work space for a cut."""

    before: Array  # the rows, in their order before the cut
    with_half: Array  # products of the rows with the sum of one half
    with_all: Array  # products of the rows with the sum of all rows
    nearness: Array  # how much nearer rows are to that half
    sorted_part: Array
    in_half: Array
    now_in_half: Array

    @classmethod
    def of(cls, rows: Array) -> "HalvingSpace":
        """Return the space for a cut of these rows."""
        n_rows = len(rows)
        numbers = np.empty((4, n_rows), dtype=np.float32)
        sides = np.empty((2, n_rows), dtype=np.bool_)
        return cls(rows.copy(), *numbers, *sides)


@kernel(
    "void(int64[::1], int32[::1], float32[::1], int64[::1], int64, int64, int64, float32[::1], "
    "Tuple((int64[::1], float32[::1], float32[::1], float32[::1], float32[::1], "
    "boolean[::1], boolean[::1])))",
    error_model="numpy",
)
def _halve(
    indptr: Array,
    indices: Array,
    data: Array,
    rows: Array,
    n_left: int,
    first: int,
    opposite: int,
    centre: Array,
    space: tuple[Array, ...],
) -> None:
    """Reorder ``rows`` in place so that the first ``n_left`` are one half.

    The centres are first the rows at the positions ``first`` and ``opposite``. ``centre`` is work
    space, a zero for each column, and is restored; so is ``space``, whose fields are those of
    `HalvingSpace`.

    With a the sum of one half and t that of all rows, a row's inner products with both give its
    products with either half, and their sums give the squared lengths: ``aᵀa = Σ xᵀa`` over the
    rows of the half. So a round reads every row once, and adds the few that change sides.
    """
    before, with_half, with_all, nearness, sorted_part, in_half, now_in_half = space
    m = rows.shape[0]
    plus = np.float32(1)
    minus = np.float32(-1)

    _add(indptr, indices, data, rows[first], plus, centre)
    _add(indptr, indices, data, rows[opposite], minus, centre)
    _dots(indptr, indices, data, rows, centre, with_half)
    _mark_nearest(with_half, n_left, sorted_part, in_half)

    _set_to_zero(indptr, indices, rows, centre)
    for r in range(m):
        _add(indptr, indices, data, rows[r], plus, centre)
    _dots(indptr, indices, data, rows, centre, with_all)
    for r in range(m):
        if not in_half[r]:
            _add(indptr, indices, data, rows[r], minus, centre)

    for _ in range(MAX_ROUNDS):
        _dots(indptr, indices, data, rows, centre, with_half)
        aa = 0.0
        at = 0.0
        tt = 0.0
        for r in range(m):
            tt += with_all[r]
            if in_half[r]:
                aa += with_half[r]
                at += with_all[r]
        half_scale = _inverse_root(aa)
        other_scale = _inverse_root(tt - 2 * at + aa)
        for r in range(m):
            with_other = with_all[r] - with_half[r]
            nearness[r] = half_scale * with_half[r] - other_scale * with_other
        _mark_nearest(nearness, n_left, sorted_part, now_in_half)
        n_changed = 0
        for r in range(m):
            if now_in_half[r] != in_half[r]:
                if now_in_half[r]:
                    _add(indptr, indices, data, rows[r], plus, centre)
                else:
                    _add(indptr, indices, data, rows[r], minus, centre)
                n_changed += 1
                in_half[r] = now_in_half[r]
        if n_changed <= MAX_CHANGED_SHARE * m:
            break

    _set_to_zero(indptr, indices, rows, centre)
    left = 0
    right = n_left
    for r in range(m):
        if in_half[r]:
            rows[left] = before[r]
            left += 1
        else:
            rows[right] = before[r]
            right += 1


@inner_kernel(error_model="numpy")
def _mark_nearest(nearness: Array, n_left: int, sorted_part: Array, marked: Array) -> None:
    """Mark the ``n_left`` rows with the largest values, the first ones among equal values."""
    m = nearness.shape[0]
    for r in range(m):
        sorted_part[r] = nearness[r]
    limit = nth_smallest(sorted_part, m - n_left)
    n_missing = n_left
    for r in range(m):
        marked[r] = nearness[r] > limit
        n_missing -= marked[r]
    for r in range(m):
        if n_missing > 0 and nearness[r] == limit:
            marked[r] = True
            n_missing -= 1


@inner_kernel()
def _inverse_root(square: float) -> Any:
    """``1 / √square``, or zero where ``square`` is zero to rounding."""
    if square > MIN_SQUARED_LENGTH:
        return np.float32(1 / np.sqrt(square))
    return np.float32(0)


@inner_kernel(fastmath={"contract", "reassoc"}, error_model="numpy")
def _dots(
    indptr: Array, indices: Array, data: Array, rows: Array, centre: Array, out: Array
) -> None:
    """Write the inner product of each row with ``centre`` into ``out``."""
    for r in range(rows.shape[0]):
        row = rows[r]
        total = np.float32(0)
        for at in range(np.uint64(indptr[row]), np.uint64(indptr[row + 1])):
            total += data[at] * centre[np.uint32(indices[at])]
        out[r] = total


@inner_kernel(error_model="numpy")
def _set_to_zero(indptr: Array, indices: Array, rows: Array, centre: Array) -> None:
    """Set the columns of ``rows`` to zero."""
    for row in rows:
        for at in range(np.uint64(indptr[row]), np.uint64(indptr[row + 1])):
            centre[np.uint32(indices[at])] = 0


@inner_kernel(error_model="numpy")
def _add(indptr: Array, indices: Array, data: Array, row: int, factor: Any, into: Array) -> None:
    """Add ``factor`` times a row to ``into``."""
    for at in range(np.uint64(indptr[row]), np.uint64(indptr[row + 1])):
        into[np.uint32(indices[at])] += factor * data[at]
