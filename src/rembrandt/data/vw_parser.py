"""Compiled code for the text format of Vowpal Wabbit: it numbers the names of a chunk and reads their values."""

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rembrandt.data.numeric import FINE, LARGEST_VALUE, is_blank, number, skip_blanks

# Why the parser stopped; ``FINE`` is zero.
BAD_IMPORTANCE, BAD_VALUE, NO_NAME, NO_BAR, TOO_MANY_WORDS, BAD_NAMESPACE = range(1, 7)

_NEWLINE, _QUOTE, _COMMA, _COLON, _BAR = 10, 39, 44, 58, 124


class VwRows(NamedTuple):
    """What a chunk of lines holds, and why and where its parser stopped.

    Labels and features are numbers of names. A name is a span: where it starts, where it ends, and its namespace.
    """

    counts: NDArray[np.int64]  # labels and features of each row
    weights: NDArray[np.float32]
    labels: NDArray[np.int32]
    features: NDArray[np.int32]
    values: NDArray[np.float32]
    label_spans: NDArray[np.int64]
    feature_spans: NDArray[np.int64]
    namespace_spans: NDArray[np.int64]
    error: int
    position: int


@njit(nogil=True, cache=True)
def _table(most: int) -> Any:
    """An empty hash table that stays at most half full, and the spans of the names in it."""
    size = 2
    while size < 2 * most:
        size *= 2
    return np.full(size, -1, np.int32), np.empty((most, 3), np.int64)


@njit(nogil=True, cache=True)
def _intern(buffer: Any, start: int, end: int, group: int, slots: Any, spans: Any, count: int) -> int:
    """The number of the name ``buffer[start:end]`` within a group; a new name gets the number ``count``."""
    hashed = np.uint64(14695981039346656037) ^ np.uint64(group)
    for i in range(start, end):
        hashed = (hashed ^ np.uint64(buffer[i])) * np.uint64(1099511628211)
    hashed ^= hashed >> np.uint64(32)
    mask = slots.size - 1
    slot = np.int64(hashed & np.uint64(mask))
    while slots[slot] >= 0:
        known = slots[slot]
        first = spans[known, 0]
        if spans[known, 2] == group and spans[known, 1] - first == end - start:
            same = True
            for i in range(end - start):
                if buffer[first + i] != buffer[start + i]:
                    same = False
                    break
            if same:
                return known
        slot = (slot + 1) & mask
    slots[slot] = count
    spans[count, 0], spans[count, 1], spans[count, 2] = start, end, group
    return count


@njit(nogil=True, cache=True)
def _word_end(buffer: Any, i: int) -> int:
    """Where the word at ``i`` ends: at a blank, a bar or the end of the line."""
    while i < buffer.size and not (is_blank(buffer[i]) or buffer[i] == _BAR or buffer[i] == _NEWLINE):
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
    """The number between a colon and the end of its word: 1 without a colon, NaN when it is not a finite number."""
    if colon == end:
        return 1.0
    value, after = number(buffer, colon + 1, end)
    if after != end or after == colon + 1 or not abs(np.float32(value)) <= LARGEST_VALUE:
        return np.nan
    return value


def parse(chunk: bytes) -> VwRows:
    """Parse whole lines."""
    buffer = np.frombuffer(chunk, np.uint8)
    n_rows, n_bars = chunk.count(b"\n") + 1, chunk.count(b"|") + 1  # the arrays are as long as the separators allow
    blanks = int(np.count_nonzero(buffer <= 32))
    return _parse(buffer, n_rows, chunk.count(b",") + n_rows, n_bars, blanks + n_bars + 1)


@njit(nogil=True, cache=True)
def _before_bar(buffer: Any, i: int, labels: Any, n_labels: int, slots: Any, spans: Any, n_names: int) -> Any:
    """Read labels, an importance and a tag up to the bar.

    Returns the position of the bar, the importance, the numbers of labels and names so far, the error and its position.
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
                        known = _intern(buffer, j, end, 0, slots, spans, n_names)
                        n_names += known == n_names
                        labels[n_labels] = known
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
    return i, importance, n_labels, n_names, error, start


@njit(nogil=True, cache=True)
def _parse(buffer: Any, most_rows: int, most_labels: int, most_namespaces: int, most_features: int) -> Any:
    counts, weights = np.empty((2, most_rows), np.int64), np.empty(most_rows, np.float32)
    values = np.empty(most_features, np.float32)
    labels, features = np.empty(most_labels, np.int32), np.empty(most_features, np.int32)
    label_slots, label_spans = _table(most_labels)
    feature_slots, feature_spans = _table(most_features)
    namespace_slots, namespace_spans = _table(most_namespaces)
    size = buffer.size
    rows, n_labels, n_features = 0, 0, 0
    label_names, feature_names, namespaces = 0, 0, 0
    error, at = FINE, size
    i = skip_blanks(buffer, 0)
    while i < size:
        if buffer[i] == _NEWLINE:
            i = skip_blanks(buffer, i + 1)
            continue
        first_label, first_feature = n_labels, n_features

        i, importance, n_labels, label_names, error, at = _before_bar(
            buffer, i, labels, n_labels, label_slots, label_spans, label_names
        )

        # From the bar on: namespaces and their features.
        namespace, scale = 0, 1.0
        while error == FINE and i < size and buffer[i] != _NEWLINE:
            opens = buffer[i] == _BAR
            start = i + opens
            i = _word_end(buffer, start)
            colon = _find(buffer, _COLON, start, i)
            value = _value(buffer, colon, i)
            if opens:
                if np.isnan(value):
                    error, at = BAD_NAMESPACE, start
                scale = value
                namespace = _intern(buffer, start, colon, 0, namespace_slots, namespace_spans, namespaces)
                namespaces += namespace == namespaces
            else:
                value *= scale
                if colon == start or not abs(np.float32(value)) <= LARGEST_VALUE:
                    error, at = (NO_NAME if colon == start else BAD_VALUE), start
                known = _intern(buffer, start, colon, namespace, feature_slots, feature_spans, feature_names)
                feature_names += known == feature_names
                features[n_features], values[n_features] = known, value
                n_features += 1
            i = skip_blanks(buffer, i)
        if error != FINE:
            break
        counts[0, rows], counts[1, rows] = n_labels - first_label, n_features - first_feature
        weights[rows] = importance
        rows += 1
    return VwRows(
        counts[:, :rows],
        weights[:rows],
        labels[:n_labels],
        features[:n_features],
        values[:n_features],
        label_spans[:label_names],
        feature_spans[:feature_names],
        namespace_spans[:namespaces],
        error,
        at,
    )
