"""Compiled code for Vowpal Wabbit's text: numbers the names that it meets, and reads their values."""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rembrandt.data.numeric import FINE, LARGEST_VALUE, is_blank, number

# What the parser stopped at; ``FINE`` is zero.
BAD_IMPORTANCE, BAD_VALUE, NO_NAME, NO_BAR, TOO_MANY_WORDS, BAD_NAMESPACE = range(1, 7)

_NEWLINE, _QUOTE, _COMMA, _COLON, _BAR = 10, 39, 44, 58, 124


@njit(nogil=True, cache=True)
def _intern(
    buffer: NDArray[np.uint8],
    start: int,
    end: int,
    group: int,
    slots: NDArray[np.int32],
    spans: NDArray[np.int64],
    count: int,
) -> int:
    """The number of the name ``buffer[start:end]`` within a group; ``count`` when it is new, and then kept."""
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
def _word_end(buffer: NDArray[np.uint8], i: int) -> int:
    """Where the word at ``i`` ends: at a blank, a bar or the end of the line."""
    while i < buffer.size and not (is_blank(buffer[i]) or buffer[i] == _BAR or buffer[i] == _NEWLINE):
        i += 1
    return i


@njit(nogil=True, cache=True)
def _skip_blanks(buffer: NDArray[np.uint8], i: int) -> int:
    while i < buffer.size and is_blank(buffer[i]):
        i += 1
    return i


@njit(nogil=True, cache=True)
def _value(buffer: NDArray[np.uint8], colon: int, end: int) -> float:
    """The number between a colon and the end of its word: 1 without a colon, NaN when it is no finite number."""
    if colon == end:
        return 1.0
    value, after = number(buffer, colon + 1, end)
    if after != end or after == colon + 1 or not abs(np.float32(value)) <= LARGEST_VALUE:
        return np.nan
    return value


@njit(nogil=True, cache=True)
def _colon(buffer: NDArray[np.uint8], start: int, end: int) -> int:
    for i in range(start, end):
        if buffer[i] == _COLON:
            return i
    return end


@njit(nogil=True, cache=True)
def parse(
    buffer: NDArray[np.uint8],
    per_row_labels: NDArray[np.int64],
    per_row_features: NDArray[np.int64],
    importances: NDArray[np.float32],
    labels: NDArray[np.int32],
    features: NDArray[np.int32],
    values: NDArray[np.float32],
    label_slots: NDArray[np.int32],
    feature_slots: NDArray[np.int32],
    namespace_slots: NDArray[np.int32],
    label_spans: NDArray[np.int64],
    feature_spans: NDArray[np.int64],
    namespace_spans: NDArray[np.int64],
) -> tuple[tuple[int, int, int], tuple[int, int, int], int, int]:
    """Fill the arrays; returns (rows, labels, features), how many different names of each kind, error, position."""
    size = buffer.size
    rows, n_labels, n_features = 0, 0, 0
    label_names, feature_names, namespaces = 0, 0, 0
    error, at = FINE, size
    i = _skip_blanks(buffer, 0)
    while i < size:
        if buffer[i] == _NEWLINE:
            i = _skip_blanks(buffer, i + 1)
            continue
        first_label, first_feature = n_labels, n_features

        # Before the bar: a label, an importance, a tag.
        importance = 1.0
        words = 0
        while i < size and buffer[i] != _BAR and buffer[i] != _NEWLINE:
            start, i = i, _word_end(buffer, i)
            touches = i < size and buffer[i] == _BAR
            if not (buffer[start] == _QUOTE or (touches and words > 0)):
                if words == 0:
                    j = start
                    while j < i:
                        end = j
                        while end < i and buffer[end] != _COMMA:
                            end += 1
                        if end > j:
                            known = _intern(buffer, j, end, 0, label_slots, label_spans, label_names)
                            label_names += known == label_names
                            labels[n_labels] = known
                            n_labels += 1
                        j = end + 1
                elif words == 1:
                    importance, after = number(buffer, start, i)
                    if after != i or not 0 <= importance <= LARGEST_VALUE:
                        error, at = BAD_IMPORTANCE, start
                        break
                else:
                    error, at = TOO_MANY_WORDS, start
                    break
                words += 1
            i = _skip_blanks(buffer, i)
        if error == FINE and (i == size or buffer[i] == _NEWLINE):
            error, at = NO_BAR, start
        if error != FINE:
            break

        # From the bar on: namespaces and their features.
        namespace, scale = 0, 1.0
        while i < size and buffer[i] != _NEWLINE:
            opens = buffer[i] == _BAR
            start = i + opens
            i = _word_end(buffer, start)
            colon = _colon(buffer, start, i)
            value = _value(buffer, colon, i)
            if opens:
                if np.isnan(value):
                    error, at = BAD_NAMESPACE, start
                    break
                scale = value
                namespace = _intern(buffer, start, colon, 0, namespace_slots, namespace_spans, namespaces)
                namespaces += namespace == namespaces
            else:
                value *= scale
                if colon == start or not abs(np.float32(value)) <= LARGEST_VALUE:
                    error, at = (NO_NAME if colon == start else BAD_VALUE), start
                    break
                known = _intern(buffer, start, colon, namespace, feature_slots, feature_spans, feature_names)
                feature_names += known == feature_names
                features[n_features] = known
                values[n_features] = value
                n_features += 1
            i = _skip_blanks(buffer, i)
        if error != FINE:
            break
        per_row_labels[rows] = n_labels - first_label
        per_row_features[rows] = n_features - first_feature
        importances[rows] = importance
        rows += 1
    return (rows, n_labels, n_features), (label_names, feature_names, namespaces), error, at
