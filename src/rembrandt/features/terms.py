"""Compiled loops that find the terms of texts.

Texts are joined to one array of code points. A term (a word, several words, or a few characters) is
represented by a 64-bit hash of its code points; only terms that are kept are spelled. Two of m
distinct terms share a hash, and then a column, with probability m² / 2⁶⁵, which is below one in a
million for four million terms.
"""

import re
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numba as nb
import numpy as np
from numpy.typing import NDArray

SPACE = 32
SEED = np.uint64(0x51ED270B9F652295)
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)


class Terms(NamedTuple):
    """The terms of some documents, in order."""

    hashes: NDArray[np.uint64]
    ends: NDArray[np.int64]  # number of terms up to the end of each document
    starts: NDArray[np.int64]  # where each term starts in the joined text
    stops: NDArray[np.int64]  # where it stops, exclusive


@cache
def code_points_matching(pattern: str) -> NDArray[np.bool_]:
    """Return, for every code point, whether the character class matches it: one table lookup
    instead of a regex.
    """
    everything = np.arange(0x110000, dtype="<u4").tobytes().decode("utf-32-le", "surrogatepass")
    table = np.zeros(0x110000, dtype=bool)
    for run in re.finditer(f"{pattern}+", everything):
        table[run.start() : run.end()] = True
    return table


def join(texts: Sequence[str]) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Return the texts as one array of code points, and where each text ends in it."""
    points = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), dtype="<u4")
    return points, np.cumsum(
        np.fromiter(map(len, texts), dtype=np.int64, count=len(texts)), dtype=np.int64
    )


def words(
    texts: Sequence[str], smallest: int, largest: int, stop: NDArray[np.uint64] | None = None
) -> Terms:
    """Return all n-grams of ``smallest`` to ``largest`` words, joined by one space.

    Words are the matches of the regular expression ``\\w+``; words whose hash is in ``stop`` are
    removed first.
    """
    points, ends = join(texts)
    tokens: Terms = _words(points, ends, code_points_matching(r"\w"))
    if stop is not None:
        keep = ~np.isin(tokens.hashes, stop)
        kept_so_far = np.concatenate([[0], np.cumsum(keep)])
        tokens = Terms(
            tokens.hashes[keep], kept_so_far[tokens.ends], tokens.starts[keep], tokens.stops[keep]
        )
    return tokens if largest == 1 else _word_ngrams(points, *tokens, smallest, largest)


def char_ngrams(texts: Sequence[str], smallest: int, largest: int) -> Terms:
    """Return the character n-grams of every word, padded with one space on each side.

    Words are separated by white space. A padded word not longer than n is one n-gram, once.
    """
    return _char_ngrams(*join(texts), code_points_matching(r"\s"), smallest, largest)


def hash_each(strings: Sequence[str]) -> NDArray[np.uint64]:
    """Return the hash of each string as a term."""
    return _hash_each(*join(strings))


@nb.njit(nogil=True, cache=True, inline="always")
def mix(state: Any, value: Any) -> Any:
    """Mix one value into a hash; for a given value this is a bijection of the hash, so no
    information is lost.
    """
    state = (state ^ np.uint64(value)) * _FACTOR
    return state ^ (state >> _HALF)


@nb.njit(nogil=True, cache=True)
def hash_span(points: Any, start: int, stop: int, state: Any) -> Any:
    """Mix a span of values into a hash."""
    for i in range(start, stop):
        state = mix(state, points[i])
    return state


@nb.njit(nogil=True, cache=True)
def _words(points: Any, ends: Any, is_word: Any) -> Any:
    room = len(points) // 2 + len(ends) + 1
    hashes, last = np.empty(room, np.uint64), np.empty(len(ends), np.int64)
    starts, stops = np.empty(room, np.int64), np.empty(room, np.int64)
    n, position = 0, 0
    for document in range(len(ends)):
        while position < ends[document]:
            if not is_word[points[position]]:
                position += 1
                continue
            starts[n] = position
            while position < ends[document] and is_word[points[position]]:
                position += 1
            hashes[n], stops[n] = hash_span(points, starts[n], position, SEED), position
            n += 1
        last[document] = n
    return Terms(hashes[:n], last, starts[:n], stops[:n])


@nb.njit(nogil=True, cache=True)
def _word_ngrams(
    points: Any, tokens: Any, ends: Any, first: Any, final: Any, smallest: int, largest: int
) -> Any:
    room = len(tokens) * (largest - smallest + 1)
    hashes, last = np.empty(room, np.uint64), np.empty(len(ends), np.int64)
    starts, stops = np.empty(room, np.int64), np.empty(room, np.int64)
    n, begin = 0, 0
    for document in range(len(ends)):
        for i in range(begin, ends[document]):
            state = tokens[i]
            for j in range(i, min(i + largest, ends[document])):
                if j > i:
                    state = hash_span(points, first[j], final[j], mix(state, SPACE))
                if j - i + 1 >= smallest:
                    hashes[n], starts[n], stops[n] = state, first[i], final[j]
                    n += 1
        begin = ends[document]
        last[document] = n
    return Terms(hashes[:n], last, starts[:n], stops[:n])


@nb.njit(nogil=True, cache=True)
def _char_ngrams(points: Any, ends: Any, is_space: Any, smallest: int, largest: int) -> Any:
    room = 3 * len(points) * (largest - smallest + 1)  # a word of one letter has three 1-grams
    hashes, last = np.empty(room, np.uint64), np.empty(len(ends), np.int64)
    starts, stops = np.empty(room, np.int64), np.empty(room, np.int64)
    n, position = 0, 0
    for document in range(len(ends)):
        while position < ends[document]:
            if is_space[points[position]]:
                position += 1
                continue
            begin = position
            while position < ends[document] and not is_space[points[position]]:
                position += 1
            before, after = (
                begin - 1,
                position + 1,
            )  # the padded word; its first and last characters are spaces
            for size in range(smallest, largest + 1):
                for start in range(before, max(after - size, before) + 1):
                    stop = min(start + size, after)
                    state = SEED
                    for at in range(start, stop):
                        state = mix(state, points[at] if begin <= at < position else SPACE)
                    hashes[n], starts[n], stops[n] = state, start, stop
                    n += 1
                if size >= after - before:
                    break
        last[document] = n
    return Terms(hashes[:n], last, starts[:n], stops[:n])


@nb.njit(nogil=True, cache=True)
def _hash_each(points: Any, ends: Any) -> Any:
    hashes, begin = np.empty(len(ends), np.uint64), 0
    for i in range(len(ends)):
        hashes[i] = hash_span(points, begin, ends[i], SEED)
        begin = ends[i]
    return hashes
