"""Compiled code for the text format of Vowpal Wabbit.

It finds and hashes names, and reads their values.
"""

import secrets
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rembrandt.data.numeric import FINE, LARGEST_VALUE, is_blank, number, skip_blanks
from rembrandt.features.terms import hash_span, mix
from rembrandt.kernels import inner_kernel, kernel

# Why the parser stopped; ``FINE`` is zero.
BAD_IMPORTANCE = 1
BAD_VALUE = 2
NO_NAME = 3
NO_BAR = 4
TOO_MANY_WORDS = 5
BAD_NAMESPACE = 6

_SEED = np.uint64(secrets.randbits(64))  # random, so that nobody can choose names with equal hashes

# Bytes, by their ASCII codes.
_NEWLINE = 10
_SPACE = 32
_QUOTE = 39
_COMMA = 44
_COLON = 58
_CARET = 94
_BAR = 124


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


@inner_kernel()
def _word_end(buffer: Any, i: int) -> int:
    """Where the word at ``i`` ends: at a blank, a bar or the end of the line."""
    while i < buffer.size and not (
        is_blank(buffer[i]) or buffer[i] == _BAR or buffer[i] == _NEWLINE
    ):
        i += 1
    return i


@inner_kernel()
def _find(buffer: Any, byte: int, start: int, end: int) -> int:
    """Where a byte first occurs, or ``end``."""
    for i in range(start, end):
        if buffer[i] == byte:
            return i
    return end


@inner_kernel()
def _value(buffer: Any, colon: int, end: int) -> float:
    """The number between a colon and the end of its word.

    It is 1 without a colon, and NaN if it is not a finite number.
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
    # The arrays are as long as the separators allow.
    max_rows = chunk.count(b"\n") + 1
    max_labels = chunk.count(b",") + max_rows
    n_blanks = int(np.count_nonzero(buffer <= _SPACE))
    max_features = n_blanks + chunk.count(b"|") + 2
    counts = np.empty((2, max_rows), dtype=np.int64)
    weights = np.empty(max_rows, dtype=np.float32)
    labels = np.empty(max_labels, dtype=np.uint64)
    label_spans = np.empty((max_labels, 2), dtype=np.int64)
    features = np.empty(max_features, dtype=np.uint64)
    feature_spans = np.empty((max_features, 4), dtype=np.int64)
    values = np.empty(max_features, dtype=np.float32)
    rows, n, m, error, at = _parse(
        buffer, _SEED, counts, weights, labels, label_spans, features, feature_spans, values
    )
    return VwRows(
        counts[:, :rows],
        weights[:rows],
        labels[:n],
        label_spans[:n],
        features[:m],
        feature_spans[:m],
        values[:m],
        error,
        at,
    )


@inner_kernel()
def _before_bar(buffer: Any, hash_seed: Any, i: int, labels: Any, spans: Any, n_labels: int) -> Any:
    """Read labels, an importance and a tag up to the bar.

    Returns the position of the bar, the importance, the number of labels so far, the error and its
    position.
    """
    importance = 1.0
    words = 0  # so far, without the tag
    error = FINE
    start = i
    while error == FINE and i < buffer.size and buffer[i] != _BAR and buffer[i] != _NEWLINE:
        start = i
        i = _word_end(buffer, i)
        touches_bar = i < buffer.size and buffer[i] == _BAR
        is_tag = buffer[start] == _QUOTE or (touches_bar and words > 0)
        if not is_tag:
            if words == 0:
                j = start
                while j < i:
                    end = _find(buffer, _COMMA, j, i)
                    if end > j:
                        labels[n_labels] = hash_span(buffer, j, end, hash_seed)
                        spans[n_labels, 0] = j
                        spans[n_labels, 1] = end
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


@kernel()
def _parse(
    buffer: Any,
    hash_seed: Any,
    counts: Any,
    weights: Any,
    labels: Any,
    label_spans: Any,
    features: Any,
    feature_spans: Any,
    values: Any,
) -> Any:
    """Return the numbers of rows, labels and features, and why and where it stopped."""
    rows = 0
    n = 0  # labels so far
    m = 0  # features so far
    error = FINE
    at = buffer.size
    i = skip_blanks(buffer, 0)
    while i < buffer.size and error == FINE:
        if buffer[i] == _NEWLINE:
            i = skip_blanks(buffer, i + 1)
            continue
        first_label = n
        first_feature = m
        i, weights[rows], n, error, at = _before_bar(buffer, hash_seed, i, labels, label_spans, n)

        # From the bar on: namespaces and their features.
        namespace_start = 0
        namespace_stop = 0
        seed = hash_seed  # the hash of the namespace, which its features continue
        scale = 1.0  # the value of the namespace
        while error == FINE and i < buffer.size and buffer[i] != _NEWLINE:
            opens_namespace = buffer[i] == _BAR
            at = i + opens_namespace
            i = _word_end(buffer, at)
            colon = _find(buffer, _COLON, at, i)
            value = _value(buffer, colon, i)
            if opens_namespace:
                namespace_start = at
                namespace_stop = colon
                scale = value
                seed = hash_seed
                if namespace_start != namespace_stop:
                    seed = hash_span(buffer, namespace_start, namespace_stop, hash_seed)
                    seed = mix(seed, _CARET)
                if np.isnan(value):
                    error = BAD_NAMESPACE
            else:
                value *= scale
                if colon == at:
                    error = NO_NAME
                elif not abs(np.float32(value)) <= LARGEST_VALUE:
                    error = BAD_VALUE
                features[m] = hash_span(buffer, at, colon, seed)
                values[m] = value
                feature_spans[m, 0] = namespace_start
                feature_spans[m, 1] = namespace_stop
                feature_spans[m, 2] = at
                feature_spans[m, 3] = colon
                m += 1
            i = skip_blanks(buffer, i)
        counts[0, rows] = n - first_label
        counts[1, rows] = m - first_feature
        rows += 1
    return rows, n, m, error, at
