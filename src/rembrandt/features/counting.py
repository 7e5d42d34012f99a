"""Compiled loops that number terms, count them within documents and weight the counts."""

import secrets
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.features.terms import text_lengths
from rembrandt.kernels import kernel
from rembrandt.linalg import Floats, Indices

Hashes = NDArray[np.uint64]
Numbers = NDArray[np.int32]

_INITIAL_SLOTS = 1 << 10  # of a vocabulary; a power of two, as slots are found with a bit mask

# With more possible numbers than this for each term, an array over all numbers would cost more
# than counting itself, and the numbers that occur are renumbered first.
_MAX_NUMBERS_PER_TERM = 4


class Vocabulary:
    """Numbers for hashes, 0, 1, 2, … in the order of their first appearance.

    This is an open-addressing table. A random factor decides the slots, so that nobody can choose
    texts whose terms share them.
    """

    def __init__(self, hashes: Hashes | None = None) -> None:
        self._keys = np.zeros(_INITIAL_SLOTS, dtype=np.uint64)
        self._numbers = np.full(_INITIAL_SLOTS, -1, dtype=np.int32)
        self._size = 0
        odd = secrets.randbits(64) | 1
        self._factor = np.uint64(odd)
        if hashes is not None:
            self.learn(hashes)

    def __len__(self) -> int:
        return self._size

    def learn(self, hashes: Hashes) -> Numbers:
        """The number of every hash; new hashes get the next numbers."""
        numbers = np.empty(len(hashes), dtype=np.int32)
        done = 0
        while True:
            self._size, done = _learn(
                self._keys,
                self._numbers,
                self._factor,
                self._size,
                hashes,
                done,
                numbers,
            )
            if done == len(hashes):
                return numbers
            self._double()

    def _double(self) -> None:
        """Move to a table with twice as many slots."""
        n_slots = 2 * len(self._keys)
        keys = np.zeros(n_slots, dtype=np.uint64)
        numbers = np.full(n_slots, -1, dtype=np.int32)
        _move(self._keys, self._numbers, self._factor, keys, numbers)
        self._keys = keys
        self._numbers = numbers

    def numbers(self, hashes: Hashes) -> Numbers:
        """The number of every hash, or -1 where it is unknown."""
        result = np.empty(len(hashes), dtype=np.int32)
        _look_up(self._keys, self._numbers, self._factor, hashes, result)
        return result


@kernel(inline="always")
def _slot(keys: Any, numbers: Any, factor: Any, key: Any) -> Any:
    """The slot that holds the key, or the free one where it belongs."""
    mask = np.uint64(len(keys) - 1)
    mixed = key * factor
    slot = (mixed ^ (mixed >> np.uint64(32))) & mask
    while numbers[slot] >= 0 and keys[slot] != key:
        slot = (slot + np.uint64(1)) & mask
    return slot


@kernel("(uint64[::1], int32[::1], uint64, int64, uint64[::1], int64, int32[::1])")
def _learn(
    keys: Any, numbers: Any, factor: Any, size: int, hashes: Any, begin: int, result: Any
) -> tuple[int, int]:
    """Number the hashes from ``begin`` on until the table is half full.

    Return the number of keys, and where it stopped.
    """
    for i in range(begin, hashes.shape[0]):
        slot = _slot(keys, numbers, factor, hashes[i])
        if numbers[slot] < 0:
            if 2 * size >= keys.shape[0]:
                return size, i
            keys[slot] = hashes[i]
            numbers[slot] = size
            size += 1
        result[i] = numbers[slot]
    return size, hashes.shape[0]


@kernel("void(uint64[::1], int32[::1], uint64, uint64[::1], int32[::1])")
def _move(keys: Any, numbers: Any, factor: Any, new_keys: Any, new_numbers: Any) -> None:
    """Put all keys into another table."""
    for old in range(keys.shape[0]):
        if numbers[old] >= 0:
            slot = _slot(new_keys, new_numbers, factor, keys[old])
            new_keys[slot] = keys[old]
            new_numbers[slot] = numbers[old]


@kernel("void(uint64[::1], int32[::1], uint64, uint64[::1], int32[::1])")
def _look_up(keys: Any, numbers: Any, factor: Any, hashes: Any, result: Any) -> None:
    """Write the number of every hash, -1 where it is unknown."""
    for i in range(hashes.shape[0]):
        slot = _slot(keys, numbers, factor, hashes[i])
        result[i] = numbers[slot]


class Counts(NamedTuple):
    """How often each term occurs in each document.

    These are the rows of a sparse matrix, with columns in any order within a row.
    """

    ends: Indices  # number of entries up to the end of each document
    columns: Numbers
    counts: Numbers


def count(
    numbers: Numbers,
    ends: Indices,
    n_numbers: int,
) -> tuple[Counts, Indices]:
    """Count equal numbers within each document, where -1 is skipped.

    Returns the counts, and for each of them where among ``numbers`` it occurs first.
    """
    if n_numbers <= _MAX_NUMBERS_PER_TERM * len(numbers):
        return _count(numbers, ends, n_numbers)
    # Few short documents and many possible numbers: renumber those that occur, so that the work
    # depends on them only.
    occurring, renumbered = np.unique(numbers, return_inverse=True)
    n_skipped = int(np.searchsorted(occurring, 0))  # 1 if -1 occurs, else 0
    occurring = occurring[n_skipped:]
    consecutive = renumbered.astype(np.int32) - n_skipped
    renumbered_counts, first = _count(consecutive, ends, len(occurring))
    columns = occurring[renumbered_counts.columns]
    counts = renumbered_counts._replace(columns=columns.astype(np.int32))
    return counts, first


def _count(
    numbers: Numbers,
    ends: Indices,
    n_numbers: int,
) -> tuple[Counts, Indices]:
    """Count with an array over all numbers."""
    n_terms = len(numbers)
    columns = np.empty(n_terms, dtype=np.int32)
    counts = np.empty(n_terms, dtype=np.int32)
    first = np.empty(n_terms, dtype=np.int64)
    row_ends = np.empty(len(ends), dtype=np.int64)
    last = np.full(n_numbers, -1, dtype=np.int64)
    document_ends = ends.astype(np.int64)
    n_entries = _count_rows(
        numbers,
        document_ends,
        last,
        columns,
        counts,
        first,
        row_ends,
    )
    counted = Counts(
        ends=row_ends,
        columns=columns[:n_entries].copy(),
        counts=counts[:n_entries].copy(),
    )
    return counted, first[:n_entries]


@kernel("(int32[::1], int64[::1], int64[::1], int32[::1], int32[::1], int64[::1], int64[::1])")
def _count_rows(
    numbers: Any, ends: Any, last: Any, columns: Any, counts: Any, first: Any, row_ends: Any
) -> int:
    """Write the entries, and return how many there are.

    ``last`` is the last entry of each number; it is valid if it belongs to the same document.
    """
    n = 0
    begin = 0
    for document in range(ends.shape[0]):
        row_begin = n
        for i in range(begin, ends[document]):
            number = numbers[i]
            if number < 0:
                continue
            if last[number] >= row_begin:
                counts[last[number]] += 1
            else:
                last[number] = n
                columns[n] = number
                counts[n] = 1
                first[n] = i
                n += 1
        begin = ends[document]
        row_ends[document] = n
    return n


def tally(
    columns: Numbers,
    counts: Numbers,
    statistics: Floats,
    min_documents: int,
) -> Indices:
    """Add counts to the document frequency and the total of each term.

    Returns where in ``columns`` a term reached a document frequency of ``min_documents``.
    """
    reached = np.empty(len(columns), dtype=np.int64)
    n_reached = _tally(columns, counts, statistics, min_documents, reached)
    return reached[:n_reached]


@kernel("(int32[::1], int32[::1], float64[:,::1], int64, int64[::1])")
def _tally(columns: Any, counts: Any, statistics: Any, min_documents: int, reached: Any) -> int:
    """Add the counts; return how many terms reached the number of documents."""
    n = 0
    for i in range(columns.shape[0]):
        statistics[0, columns[i]] += 1
        statistics[1, columns[i]] += counts[i]
        if statistics[0, columns[i]] == min_documents:
            reached[n] = i
            n += 1
    return n


def weigh(
    matrix: sparse.csr_array,
    factors: NDArray[np.float32],
) -> sparse.csr_array:
    """Turn each count t into (1 + ln t)·factor.

    Every row that is not empty is scaled to unit Euclidean length.
    """
    weights = matrix.data.astype(np.float32)
    indptr = matrix.indptr.astype(np.int64, copy=False)
    columns = matrix.indices.astype(np.int32, copy=False)
    _weigh(indptr, columns, weights, factors)
    arrays = (weights, matrix.indices, matrix.indptr)
    return sparse.csr_array(arrays, shape=matrix.shape)


@kernel("void(int64[::1], int32[::1], float32[::1], float32[::1])")
def _weigh(indptr: Any, columns: Any, weights: Any, factors: Any) -> None:
    """Weigh the counts in place."""
    for row in range(indptr.shape[0] - 1):
        squares = 0.0
        for i in range(indptr[row], indptr[row + 1]):
            weight = (1.0 + np.log(weights[i])) * factors[columns[i]]
            squares += weight * weight
            weights[i] = weight
        for i in range(indptr[row], indptr[row + 1]):
            weights[i] /= np.sqrt(squares)


def chunks(documents: list[str], size: int) -> Iterator[tuple[int, int]]:
    """Yield (begin, end) of runs of documents with about ``size`` characters each."""
    lengths = text_lengths(documents)
    total = np.cumsum(lengths)
    begin = 0
    n_before = 0
    while begin < len(documents):
        limit = n_before + size
        end = int(np.searchsorted(total, limit, side="right"))
        end = max(begin + 1, end)  # a document longer than the size is a run by itself
        yield begin, end
        begin = end
        n_before = total[end - 1]


def as_matrix(chunk_counts: list[Counts], n_columns: int) -> sparse.csr_array:
    """The counts of consecutive chunks as one matrix."""
    ends = [np.zeros(1, np.int64)]
    columns = [np.empty(0, np.int32)]
    counts = [np.empty(0, np.int32)]
    n_entries = 0
    for chunk in chunk_counts:
        ends.append(chunk.ends + n_entries)
        columns.append(chunk.columns)
        counts.append(chunk.counts)
        n_entries += len(chunk.columns)
    data = np.concatenate(counts)
    indices = np.concatenate(columns)
    indptr = np.concatenate(ends)
    n_documents = len(indptr) - 1
    shape = (n_documents, n_columns)
    return sparse.csr_array((data, indices, indptr), shape=shape)
