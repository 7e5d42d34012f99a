"""Compiled code for the text format of Vowpal Wabbit: it finds and hashes names, and reads their
values.
"""

import secrets
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rembrandt.data.numeric import FINE, LARGEST_VALUE, is_blank, number, skip_blanks
from rembrandt.features.terms import hash_span, mix

# Why the parser stopped; ``FINE`` is zero.
BAD_IMPORTANCE, BAD_VALUE, NO_NAME, NO_BAR, TOO_MANY_WORDS, BAD_NAMESPACE = range(1, 7)

_SEED = np.uint64(secrets.randbits(64))  # random, so that nobody can choose names with equal hashes
_NEWLINE, _QUOTE, _COMMA, _COLON, _CARET, _BAR = 10, 39, 44, 58, 94, 124


class VwRows(NamedTuple):
    """What a chunk of lines holds, and why and where its parser stopped.

    A name is known by the hash of its bytes; ``spans`` are where it starts and stops, after those
    of its namespace.
    """

    counts: NDArray[np.int64]  # labels and features of each row
    weights: NDArray[np.float32]
    labels: NDArray[np.uint64]
    label_spans: NDArray[np.int64]
    features: NDArray[np.uint64]
    feature_spans: NDArray[np.int64]
    values: NDArray[np.float32]
    error: int
    position: int


@njit(nogil=True, cache=True)
def _word_end(buffer: Any, i: int) -> int:
    """Where the word at ``i`` ends: at a blank, a bar or the end of the line."""
    while i < buffer.size and not (
        is_blank(buffer[i]) or buffer[i] == _BAR or buffer[i] == _NEWLINE
    ):
        i += 1
    return i


@njit(nogil=True, cache=True)
def _find(buffer: Any, byte: int, start: int, end: int) -> int:
    """Where a byte first occurs, or ``end``."""
    for i in range(start, end):
        if buffer[i] == byte:
            return i
    return end


@njit(nogil=True, cache=True)
def _value(buffer: Any, colon: int, end: int) -> float:
    """The number between a colon and the end of its word: 1 without a colon, NaN when it is not a
    finite number.
    """
    if colon == end:
        return 1.0
    value, after = number(buffer, colon + 1, end)
    if after != end or after == colon + 1 or not abs(np.float32(value)) <= LARGEST_VALUE:
        return np.nan
    return value


def parse(chunk: bytes) -> VwRows:
    """Parse whole lines."""
    buffer = np.frombuffer(chunk, np.uint8)
    n_rows = chunk.count(b"\n") + 1  # the arrays are as long as the separators allow
    most_features = int(np.count_nonzero(buffer <= 32)) + chunk.count(b"|") + 2
    return _parse(buffer, _SEED, n_rows, chunk.count(b",") + n_rows, most_features)


@njit(nogil=True, cache=True)
def _before_bar(buffer: Any, hash_seed: Any, i: int, labels: Any, spans: Any, n_labels: int) -> Any:
    """Read labels, an importance and a tag up to the bar.

    Returns the position of the bar, the importance, the number of labels so far, the error and its
    position.
    """
    importance, words, error, start = 1.0, 0, FINE, i
    while error == FINE and i < buffer.size and buffer[i] != _BAR and buffer[i] != _NEWLINE:
        start, i = i, _word_end(buffer, i)
        touches = i < buffer.size and buffer[i] == _BAR
        if not (buffer[start] == _QUOTE or (touches and words > 0)):
            if words == 0:
                j = start
                while j < i:
                    end = _find(buffer, _COMMA, j, i)
                    if end > j:
                        labels[n_labels] = hash_span(buffer, j, end, hash_seed)
                        spans[n_labels, 0], spans[n_labels, 1] = j, end
                        n_labels += 1
                    j = end + 1
            elif words == 1:
                importance, after = number(buffer, start, i)
                if after != i or not 0 <= importance <= LARGEST_VALUE:
                    error = BAD_IMPORTANCE
            else:
                error = TOO_MANY_WORDS
            words += 1
        if error == FINE:
            i = skip_blanks(buffer, i)
    if error == FINE and (i == buffer.size or buffer[i] == _NEWLINE):
        error = NO_BAR
    return i, importance, n_labels, error, start


@njit(nogil=True, cache=True)
def _parse(
    buffer: Any, hash_seed: Any, most_rows: int, most_labels: int, most_features: int
) -> Any:
    counts, weights = np.empty((2, most_rows), np.int64), np.empty(most_rows, np.float32)
    labels, label_spans = np.empty(most_labels, np.uint64), np.empty((most_labels, 2), np.int64)
    features, spans = np.empty(most_features, np.uint64), np.empty((most_features, 4), np.int64)
    values = np.empty(most_features, np.float32)
    rows, n, m = 0, 0, 0  # rows, labels and features so far
    error, at = FINE, buffer.size
    i = skip_blanks(buffer, 0)
    while i < buffer.size and error == FINE:
        if buffer[i] == _NEWLINE:
            i = skip_blanks(buffer, i + 1)
            continue
        first_label, first_feature = n, m
        i, weights[rows], n, error, at = _before_bar(buffer, hash_seed, i, labels, label_spans, n)

        # From the bar on: namespaces and their features.
        first, last, seed, scale = 0, 0, hash_seed, 1.0  # of the namespace
        while error == FINE and i < buffer.size and buffer[i] != _NEWLINE:
            opens = buffer[i] == _BAR
            at = i + opens
            i = _word_end(buffer, at)
            colon = _find(buffer, _COLON, at, i)
            value = _value(buffer, colon, i)
            if opens:
                first, last, scale = at, colon, value
                seed = (
                    hash_seed
                    if first == last
                    else mix(hash_span(buffer, first, last, hash_seed), _CARET)
                )
                if np.isnan(value):
                    error = BAD_NAMESPACE
            else:
                value *= scale
                if colon == at or not abs(np.float32(value)) <= LARGEST_VALUE:
                    error = NO_NAME if colon == at else BAD_VALUE
                features[m], values[m] = hash_span(buffer, at, colon, seed), value
                spans[m, 0], spans[m, 1], spans[m, 2], spans[m, 3] = first, last, at, colon
                m += 1
            i = skip_blanks(buffer, i)
        counts[0, rows], counts[1, rows] = n - first_label, m - first_feature
        rows += 1
    names = labels[:n], label_spans[:n], features[:m], spans[:m]
    return VwRows(counts[:, :rows], weights[:rows], *names, values[:m], error, at)
