"""Numbering terms, counting them within documents, and weighing the counts, by compiled loops."""

from typing import Any, NamedTuple

import numba as nb
import numpy as np
from numpy.typing import NDArray

_STEP = 1 << 14  # hashes learned at a time: the table grows as they turn out to be new


class Vocabulary:
    """Numbers for hashes, 0, 1, 2, … in the order of their first appearance; an open-addressing table."""

    def __init__(self, hashes: NDArray[np.uint64] | None = None) -> None:
        self._keys = np.zeros(1 << 10, dtype=np.uint64)
        self._numbers = np.full(1 << 10, -1, dtype=np.int32)
        self._size = 0
        if hashes is not None:
            self.learn(hashes)

    def __len__(self) -> int:
        return self._size

    def learn(self, hashes: NDArray[np.uint64]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return the number of every hash, new ones included, and the places where new ones appeared first."""
        numbers, new = np.empty(len(hashes), dtype=np.int32), np.empty(len(hashes), dtype=np.int64)
        known = self._size
        for start in range(0, len(hashes), _STEP):
            part = hashes[start : start + _STEP]
            self._make_room(self._size + len(part))
            self._size += _learn(
                self._keys, self._numbers, self._size, part, numbers[start:], new[self._size - known :], start
            )
        return numbers, new[: self._size - known].copy()

    def numbers(self, hashes: NDArray[np.uint64]) -> NDArray[np.int32]:
        """Return the number of every hash, -1 for those never seen."""
        return _numbers(self._keys, self._numbers, hashes)

    def _make_room(self, size: int) -> None:
        if 2 * size <= len(self._keys):
            return
        capacity = 1 << (2 * size).bit_length()
        keys, numbers = np.zeros(capacity, dtype=np.uint64), np.full(capacity, -1, dtype=np.int32)
        _move(self._keys, self._numbers, keys, numbers)
        self._keys, self._numbers = keys, numbers


@nb.njit(nogil=True, cache=True, inline="always")
def _slot(keys: Any, taken: Any, key: Any) -> Any:
    """Return the slot that holds the key, or the free one where it belongs."""
    mask = np.uint64(len(keys) - 1)
    slot = key & mask
    while taken[slot] >= 0 and keys[slot] != key:
        slot = (slot + np.uint64(1)) & mask
    return slot


@nb.njit(nogil=True, cache=True)
def _learn(keys: Any, taken: Any, size: int, hashes: Any, numbers: Any, new: Any, start: int) -> int:
    found = 0
    for i in range(len(hashes)):
        slot = _slot(keys, taken, hashes[i])
        if taken[slot] < 0:
            keys[slot], taken[slot] = hashes[i], size + found
            new[found] = start + i
            found += 1
        numbers[i] = taken[slot]
    return found


@nb.njit(nogil=True, cache=True)
def _numbers(keys: Any, taken: Any, hashes: Any) -> Any:
    numbers = np.empty(len(hashes), np.int32)
    for i in range(len(hashes)):
        numbers[i] = taken[_slot(keys, taken, hashes[i])]
    return numbers


@nb.njit(nogil=True, cache=True)
def _move(keys: Any, taken: Any, new_keys: Any, new_taken: Any) -> None:
    for old in range(len(keys)):
        if taken[old] >= 0:
            slot = _slot(new_keys, new_taken, keys[old])
            new_keys[slot], new_taken[slot] = keys[old], taken[old]


class Counts(NamedTuple):
    """How often each numbered term occurs in each document, the rows of a sparse matrix in no order within a row."""

    ends: NDArray[np.int64]
    columns: NDArray[np.int32]
    counts: NDArray[np.int32]


def count(numbers: NDArray[np.int32], ends: NDArray[np.int64], n_numbers: int) -> Counts:
    """Count equal numbers within each document; -1 is passed over."""
    if n_numbers <= 4 * len(numbers):
        return _count(numbers, ends, n_numbers)
    # a few short documents and many possible numbers: renumber those that occur, to look at no others
    occurring, renumbered = np.unique(numbers, return_inverse=True)
    known = int(np.searchsorted(occurring, 0))
    rows, columns, counts = _count(renumbered.astype(np.int32) - known, ends, len(occurring) - known)
    return Counts(rows, occurring[known:][columns].astype(np.int32), counts)


@nb.njit(nogil=True, cache=True)
def _count(numbers: Any, ends: Any, n_numbers: int) -> Any:
    columns, counts = np.empty(len(numbers), np.int32), np.empty(len(numbers), np.int32)
    rows = np.empty(len(ends), np.int64)
    place = np.full(n_numbers, -1, np.int64)  # where the number was written last; valid if in this document's part
    n, begin = 0, 0
    for document in range(len(ends)):
        row = n
        for i in range(begin, ends[document]):
            number = numbers[i]
            if number < 0:
                continue
            if place[number] >= row:
                counts[place[number]] += 1
            else:
                place[number], columns[n], counts[n] = n, number, 1
                n += 1
        begin = ends[document]
        rows[document] = n
    return Counts(rows, columns[:n].copy(), counts[:n].copy())


@nb.njit(nogil=True, cache=True)
def select(ends: Any, columns: Any, counts: Any, renumbered: Any) -> int:
    """Give columns their new numbers and close the gaps of those with none (-1), in place; return what is left."""
    n, begin = 0, 0
    for document in range(len(ends)):
        for i in range(begin, ends[document]):
            if renumbered[columns[i]] >= 0:
                columns[n], counts[n] = renumbered[columns[i]], counts[i]
                n += 1
        begin = ends[document]
        ends[document] = n
    return n


@nb.njit(nogil=True, cache=True)
def weigh(ends: Any, columns: Any, weights: Any, factors: Any) -> None:
    """Turn each count t into (1 + ln t)·factor, and give every row that is not empty the Euclidean length one."""
    begin = 0
    for end in ends:
        squares = 0.0
        for i in range(begin, end):
            weight = (1.0 + np.log(weights[i])) * factors[columns[i]]
            squares += weight * weight
            weights[i] = weight
        for i in range(begin, end):
            weights[i] /= np.sqrt(squares)
        begin = end
