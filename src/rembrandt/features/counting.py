"""Compiled loops that number terms, count them within documents and weight the counts."""

import secrets
from collections.abc import Iterator
from typing import Any, NamedTuple

import numba as nb
import numpy as np
from numpy.typing import NDArray
from scipy import sparse


class Vocabulary:
    """Numbers for hashes, 0, 1, 2, … in the order of their first appearance; an open-addressing
    table.

    A random factor decides the slots, so that nobody can choose texts whose terms share them.
    """

    def __init__(self, hashes: NDArray[np.uint64] | None = None) -> None:
        self._keys = np.zeros(1 << 10, dtype=np.uint64)
        self._numbers = np.full(1 << 10, -1, dtype=np.int32)
        self._size = 0
        self._factor = np.uint64(secrets.randbits(64) | 1)
        if hashes is not None:
            self.learn(hashes)

    def __len__(self) -> int:
        return self._size

    def learn(self, hashes: NDArray[np.uint64]) -> NDArray[np.int32]:
        """The number of every hash; new hashes get the next numbers."""
        self._keys, self._numbers, self._size, found = _learn(
            *(self._keys, self._numbers, self._factor), self._size, hashes
        )
        return found

    def numbers(self, hashes: NDArray[np.uint64]) -> NDArray[np.int32]:
        """The number of every hash, -1 for unknown ones."""
        return _numbers(self._keys, self._numbers, self._factor, hashes)


@nb.njit(nogil=True, cache=True, inline="always")
def _slot(keys: Any, numbers: Any, factor: Any, key: Any) -> Any:
    """The slot that holds the key, or the free one where it belongs."""
    mask = np.uint64(len(keys) - 1)
    mixed = key * factor
    slot = (mixed ^ (mixed >> np.uint64(32))) & mask
    while numbers[slot] >= 0 and keys[slot] != key:
        slot = (slot + np.uint64(1)) & mask
    return slot


@nb.njit(nogil=True, cache=True)
def _learn(keys: Any, numbers: Any, factor: Any, size: int, hashes: Any) -> Any:
    found = np.empty(len(hashes), np.int32)
    for i in range(len(hashes)):
        slot = _slot(keys, numbers, factor, hashes[i])
        if numbers[slot] < 0:
            if 2 * size >= len(keys):
                keys, numbers = _doubled(keys, numbers, factor)
                slot = _slot(keys, numbers, factor, hashes[i])
            keys[slot], numbers[slot] = hashes[i], size
            size += 1
        found[i] = numbers[slot]
    return keys, numbers, size, found


@nb.njit(nogil=True, cache=True)
def _doubled(keys: Any, numbers: Any, factor: Any) -> Any:
    new_keys, new_numbers = np.zeros(2 * len(keys), np.uint64), np.full(2 * len(keys), -1, np.int32)
    for old in range(len(keys)):
        if numbers[old] >= 0:
            slot = _slot(new_keys, new_numbers, factor, keys[old])
            new_keys[slot], new_numbers[slot] = keys[old], numbers[old]
    return new_keys, new_numbers


@nb.njit(nogil=True, cache=True)
def _numbers(keys: Any, numbers: Any, factor: Any, hashes: Any) -> Any:
    found = np.empty(len(hashes), np.int32)
    for i in range(len(hashes)):
        found[i] = numbers[_slot(keys, numbers, factor, hashes[i])]
    return found


class Counts(NamedTuple):
    """How often each term occurs in each document: rows of a sparse matrix, unsorted within a
    row.
    """

    ends: NDArray[np.int64]
    columns: NDArray[np.int32]
    counts: NDArray[np.int32]


def count(
    numbers: NDArray[np.int32], ends: NDArray[np.int64], n_numbers: int
) -> tuple[Counts, NDArray[np.int64]]:
    """Count equal numbers within each document, -1 skipped; and where among them each entry occurs
    first.
    """
    if n_numbers <= 4 * len(numbers):
        return _count(numbers, ends, n_numbers)
    # Few short documents and many possible numbers: renumber those that occur, so that the work
    # depends on them only.
    occurring, renumbered = np.unique(numbers, return_inverse=True)
    known = int(np.searchsorted(occurring, 0))
    found, first = _count(renumbered.astype(np.int32) - known, ends, len(occurring) - known)
    return found._replace(columns=occurring[known:][found.columns].astype(np.int32)), first


@nb.njit(nogil=True, cache=True)
def _count(numbers: Any, ends: Any, n_numbers: int) -> Any:
    columns, counts = np.empty(len(numbers), np.int32), np.empty(len(numbers), np.int32)
    first, rows = np.empty(len(numbers), np.int64), np.empty(len(ends), np.int64)
    last = np.full(
        n_numbers, -1, np.int64
    )  # last entry of each number; valid if it belongs to this document
    n, begin = 0, 0
    for document in range(len(ends)):
        row = n
        for i in range(begin, ends[document]):
            number = numbers[i]
            if number < 0:
                continue
            if last[number] >= row:
                counts[last[number]] += 1
            else:
                last[number], columns[n], counts[n], first[n] = n, number, 1, i
                n += 1
        begin = ends[document]
        rows[document] = n
    return Counts(rows, columns[:n].copy(), counts[:n].copy()), first[:n]


@nb.njit(nogil=True, cache=True)
def tally(columns: Any, counts: Any, statistics: Any, least: int) -> Any:
    """Add counts to the document frequency and the total of each term; returns where a term reached
    ``least``.
    """
    reached, n = np.empty(len(columns), np.int64), 0
    for i in range(len(columns)):
        statistics[0, columns[i]] += 1
        statistics[1, columns[i]] += counts[i]
        if statistics[0, columns[i]] == least:
            reached[n] = i
            n += 1
    return reached[:n]


@nb.njit(nogil=True, cache=True)
def weigh(ends: Any, columns: Any, weights: Any, factors: Any) -> None:
    """Turn each count t into (1 + ln t)·factor, and scale every row that is not empty to unit
    Euclidean length.
    """
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


def chunks(documents: list[str], size: int) -> Iterator[tuple[int, int]]:
    """Yield (begin, end) of runs of documents with about ``size`` characters each."""
    total = np.cumsum(np.fromiter(map(len, documents), dtype=np.int64, count=len(documents)))
    begin = 0
    while begin < len(documents):
        before = total[begin - 1] if begin else 0
        end = max(begin + 1, int(np.searchsorted(total, before + size, side="right")))
        yield begin, end
        begin = end


def as_matrix(parts: list[Counts], n_columns: int) -> sparse.csr_array:
    """The counts of consecutive chunks as one matrix."""
    parts = [Counts(np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0, np.int32)), *parts]
    sizes = np.cumsum([0, *(len(part.columns) for part in parts)]).tolist()
    ends = np.concatenate([part.ends + size for part, size in zip(parts, sizes, strict=False)])
    columns, counts = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("columns", "counts")
    )
    return sparse.csr_array((counts, columns, ends), shape=(len(ends) - 1, n_columns))
