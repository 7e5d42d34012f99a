"""Compiled code that turns bytes into numbers.

The compiled functions stop at the first byte that they cannot read and return its position. The
readers then say in Python what was found there and what was expected.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rembrandt.kernels import inner_kernel, kernel

# Why a compiled parser stopped.
FINE = 0
BAD_LABEL = 1
BAD_FEATURE = 2
BAD_VALUE = 3
LABEL_BEYOND = 4
FEATURE_BEYOND = 5

LARGEST_ID = 2**31 - 2  # the number of columns is one more, and has to be an int32 as well
LARGEST_VALUE = float(np.finfo(np.float32).max)

_LARGEST_EXACT_POWER = 22  # larger powers of ten are not exact in double precision
_TENS = 10.0 ** np.arange(_LARGEST_EXACT_POWER + 1)
_MAX_DIGITS = 18  # that a 64-bit integer always holds; more cannot change a float32

# Bytes, by their ASCII codes.
_TAB = 9
_NEWLINE = 10
_RETURN = 13
_SPACE = 32
_PLUS = 43
_COMMA = 44
_MINUS = 45
_POINT = 46
_ZERO = 48
_NINE = 57
_COLON = 58
_UPPER_E = 69
_LOWER_E = 101


class NumericRows(NamedTuple):
    """What a chunk of lines holds, and why and where its parser stopped."""

    starts: NDArray[np.int64]  # position of each row in the chunk
    counts: NDArray[np.int64]  # labels and features of each row
    labels: NDArray[np.int32]
    features: NDArray[np.int32]
    values: NDArray[np.float32]
    error: int
    position: int


@inner_kernel()
def is_blank(byte: int) -> bool:
    """Whether a byte separates the words of a line."""
    return byte in (_SPACE, _TAB, _RETURN)


@inner_kernel()
def skip_blanks(buffer: Any, i: int) -> int:
    """The first position from ``i`` on that is not blank."""
    while i < buffer.size and is_blank(buffer[i]):
        i += 1
    return i


@inner_kernel()
def identifier(buffer: Any, i: int, end: int) -> tuple[int, int]:
    """The non-negative integer at ``i`` and where it ends; it ends at ``i`` when there is none."""
    value = 0
    while i < end and _ZERO <= buffer[i] <= _NINE:
        if value <= LARGEST_ID:  # a larger one stays just too large, however long it is
            value = value * 10 + (buffer[i] - _ZERO)
        i += 1
    return value, i


@inner_kernel()
def number(buffer: Any, i: int, end: int) -> tuple[float, int]:
    """The decimal number at ``i`` and where it ends; it ends at ``i`` when there is none."""
    start = i
    negative = i < end and buffer[i] == _MINUS
    if i < end and (buffer[i] == _MINUS or buffer[i] == _PLUS):
        i += 1
    mantissa = 0
    exponent = 0
    used = 0  # digits in the mantissa
    seen = 0  # digits
    after_point = False
    while i < end:
        byte = buffer[i]
        if _ZERO <= byte <= _NINE:
            seen += 1
            if used < _MAX_DIGITS:
                mantissa = mantissa * 10 + (byte - _ZERO)
                used += mantissa > 0
                exponent -= after_point
            else:
                exponent += not after_point
        elif byte == _POINT and not after_point:
            after_point = True
        else:
            break
        i += 1
    if seen == 0:
        return 0.0, start
    if i < end and (buffer[i] == _LOWER_E or buffer[i] == _UPPER_E):
        i += 1
        downwards = i < end and buffer[i] == _MINUS
        if i < end and (buffer[i] == _MINUS or buffer[i] == _PLUS):
            i += 1
        power, after = identifier(buffer, i, end)
        if after == i:
            return 0.0, start
        i = after
        if downwards:
            exponent -= power
        else:
            exponent += power
    value = float(mantissa)
    if mantissa != 0 and exponent != 0:
        if 0 < exponent <= _LARGEST_EXACT_POWER:
            value *= _TENS[exponent]
        elif -_LARGEST_EXACT_POWER <= exponent < 0:
            value /= _TENS[-exponent]
        else:
            value *= 10.0 ** float(exponent)
    if negative:
        value = -value
    return value, i


def parse_rows(chunk: bytes, n_labels: int, n_features: int) -> NumericRows:
    """Parse lines ``l1,l2 f:v f:v``, with ids below ``n_labels`` and ``n_features``.

    Empty lines are skipped; a line of blanks is a row without labels and features.
    """
    buffer = np.frombuffer(chunk, np.uint8)
    # The arrays are as long as the separators allow.
    max_rows = chunk.count(b"\n") + 1
    max_labels = chunk.count(b",") + max_rows
    max_features = chunk.count(b":")
    starts = np.empty(max_rows, dtype=np.int64)
    counts = np.empty((2, max_rows), dtype=np.int64)
    labels = np.empty(max_labels, dtype=np.int32)
    features = np.empty(max_features, dtype=np.int32)
    values = np.empty(max_features, dtype=np.float32)
    row, n, m, error, at = _parse_rows(
        buffer, n_labels, n_features, starts, counts, labels, features, values
    )
    return NumericRows(
        starts[:row], counts[:, :row], labels[:n], features[:m], values[:m], error, at
    )


@kernel()
def _parse_rows(
    buffer: Any,
    n_labels: int,
    n_features: int,
    starts: Any,
    counts: Any,
    labels: Any,
    features: Any,
    values: Any,
) -> Any:
    """Return the numbers of rows, labels and features, and why and where it stopped."""
    size = buffer.size
    row = 0
    n = 0  # labels so far
    m = 0  # features so far
    error = FINE
    at = size
    i = 0
    while i < size:
        if buffer[i] == _NEWLINE:
            i += 1
            continue
        if buffer[i] == _RETURN and i + 1 < size and buffer[i + 1] == _NEWLINE:
            i += 2
            continue
        starts[row] = i
        first_label = n
        first_feature = m

        # The labels: a word at the very start, unless a colon shows it to be a feature.
        expected = not is_blank(buffer[i])
        while expected:
            at = i
            label, i = identifier(buffer, i, size)
            if i < size and buffer[i] == _COLON and n == first_label and i > at:
                i = at
                break
            ends_well = i == size or (
                is_blank(buffer[i]) or buffer[i] == _NEWLINE or buffer[i] == _COMMA
            )
            if i == at or not ends_well:
                error = BAD_LABEL
            elif label >= n_labels:
                error = LABEL_BEYOND
            if error != FINE:
                break
            labels[n] = label
            n += 1
            expected = i < size and buffer[i] == _COMMA
            if expected:
                i = skip_blanks(buffer, i + 1)

        # The features, each with its value.
        while error == FINE:
            i = skip_blanks(buffer, i)
            if i == size or buffer[i] == _NEWLINE:
                break
            at = i
            feature, i = identifier(buffer, i, size)
            if i in (at, size) or buffer[i] != _COLON:
                error = BAD_FEATURE
                break
            if feature >= n_features:
                error = FEATURE_BEYOND
                break
            i += 1
            value, after = number(buffer, i, size)
            whole = after > i and (
                after == size or is_blank(buffer[after]) or buffer[after] == _NEWLINE
            )
            if not whole or not abs(np.float32(value)) <= LARGEST_VALUE:
                error = BAD_VALUE
                break
            i = after
            features[m] = feature
            values[m] = value
            m += 1

        if error != FINE:
            break
        counts[0, row] = n - first_label
        counts[1, row] = m - first_feature
        row += 1
        i += 1
    return row, n, m, error, at
