"""Compiled code that turns bytes into numbers.

The compiled functions never explain: they stop at the first byte that they cannot read and say where it is. The
readers, in Python, then look at that place and say what was found there and what was expected.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

# What a compiled parser stopped at.
FINE, BAD_LABEL, BAD_FEATURE, BAD_VALUE, LABEL_BEYOND, FEATURE_BEYOND = range(6)

LARGEST_ID = 2**31 - 2
LARGEST_VALUE = float(np.finfo(np.float32).max)

_TENS = 10.0 ** np.arange(23)  # these powers are exact in double precision
_DIGITS = 18  # that a 64-bit integer always holds; more cannot change a float32

_TAB, _NEWLINE, _RETURN, _SPACE = 9, 10, 13, 32
_PLUS, _COMMA, _MINUS, _POINT, _ZERO, _NINE, _COLON = 43, 44, 45, 46, 48, 57, 58


@njit(nogil=True, cache=True)
def is_blank(byte: int) -> bool:
    """Whether a byte separates the words of a line."""
    return byte in (_SPACE, _TAB, _RETURN)


@njit(nogil=True, cache=True)
def identifier(buffer: NDArray[np.uint8], i: int, end: int) -> tuple[int, int]:
    """The non-negative integer at ``i`` and where it ends; it ends at ``i`` when there is none there."""
    value = 0
    while i < end and _ZERO <= buffer[i] <= _NINE:
        if value <= LARGEST_ID:  # larger ones stay just too large, whatever their length
            value = value * 10 + (buffer[i] - _ZERO)
        i += 1
    return value, i


@njit(nogil=True, cache=True)
def number(buffer: NDArray[np.uint8], i: int, end: int) -> tuple[float, int]:
    """The decimal number at ``i`` and where it ends; it ends at ``i`` when there is none there."""
    start = i
    negative = i < end and buffer[i] == _MINUS
    if i < end and (buffer[i] == _MINUS or buffer[i] == _PLUS):
        i += 1
    mantissa, used, seen, exponent = 0, 0, 0, 0
    after_point = False
    while i < end:
        byte = buffer[i]
        if _ZERO <= byte <= _NINE:
            seen += 1
            if used < _DIGITS:
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
    if i < end and (buffer[i] == 101 or buffer[i] == 69):  # e or E
        i += 1
        downwards = i < end and buffer[i] == _MINUS
        if i < end and (buffer[i] == _MINUS or buffer[i] == _PLUS):
            i += 1
        power, after = identifier(buffer, i, end)
        if after == i:
            return 0.0, start
        i = after
        exponent += -power if downwards else power
    value = float(mantissa)
    if mantissa != 0 and exponent != 0:
        if 0 < exponent <= 22:
            value *= _TENS[exponent]
        elif -22 <= exponent < 0:
            value /= _TENS[-exponent]
        else:
            value *= 10.0 ** float(exponent)
    return (-value if negative else value), i


@njit(nogil=True, cache=True)
def parse_rows(
    buffer: NDArray[np.uint8],
    n_labels: int,
    n_features: int,
    row_starts: NDArray[np.int64],
    row_labels: NDArray[np.int64],
    row_features: NDArray[np.int64],
    labels: NDArray[np.int32],
    features: NDArray[np.int32],
    values: NDArray[np.float32],
) -> tuple[int, int, int, int, int]:
    """Parse lines ``l1,l2 f:v f:v`` into the arrays given.

    Returns how many rows, labels and features there were, what stopped the parser (``FINE`` when nothing did), and
    the byte that it stopped at. Empty lines are skipped; a line of blanks is a row without labels and features.
    """
    size = buffer.size
    n_rows, n_row_labels, n_row_features = 0, 0, 0
    i = 0
    while i < size:
        if buffer[i] == _NEWLINE:
            i += 1
            continue
        if buffer[i] == _RETURN and i + 1 < size and buffer[i + 1] == _NEWLINE:
            i += 2
            continue
        row_starts[n_rows] = i
        first_label, first_feature = n_row_labels, n_row_features

        # The labels: a word at the very start, unless a colon shows it to be a feature.
        expected = not is_blank(buffer[i])
        while expected:
            at = i
            label, i = identifier(buffer, i, size)
            if i < size and buffer[i] == _COLON and n_row_labels == first_label and i > at:
                i = at
                break
            if i == at or (i < size and not (is_blank(buffer[i]) or buffer[i] == _NEWLINE or buffer[i] == _COMMA)):
                return n_rows, n_row_labels, n_row_features, BAD_LABEL, at
            if label >= n_labels:
                return n_rows, n_row_labels, n_row_features, LABEL_BEYOND, at
            labels[n_row_labels] = label
            n_row_labels += 1
            expected = i < size and buffer[i] == _COMMA
            if expected:
                i += 1
                while i < size and is_blank(buffer[i]):
                    i += 1

        while True:
            while i < size and is_blank(buffer[i]):
                i += 1
            if i == size or buffer[i] == _NEWLINE:
                break
            at = i
            feature, i = identifier(buffer, i, size)
            if i in (at, size) or buffer[i] != _COLON:
                return n_rows, n_row_labels, n_row_features, BAD_FEATURE, at
            if feature >= n_features:
                return n_rows, n_row_labels, n_row_features, FEATURE_BEYOND, at
            i += 1
            value, after = number(buffer, i, size)
            whole = after > i and (after == size or is_blank(buffer[after]) or buffer[after] == _NEWLINE)
            if not whole or not abs(np.float32(value)) <= LARGEST_VALUE:
                return n_rows, n_row_labels, n_row_features, BAD_VALUE, at
            i = after
            features[n_row_features] = feature
            values[n_row_features] = value
            n_row_features += 1

        row_labels[n_rows] = n_row_labels - first_label
        row_features[n_rows] = n_row_features - first_feature
        n_rows += 1
        i += 1
    return n_rows, n_row_labels, n_row_features, FINE, size


def word_at(chunk: bytes, position: int, longest: int = 40) -> str:
    """The word at a byte, quoted, for a message."""
    words = chunk[position : position + 4 * longest].split(maxsplit=1)
    word = words[0].decode("utf-8", "replace") if words else ""
    return repr(word if len(word) <= longest else word[:longest] + "…")
