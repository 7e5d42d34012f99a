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

import numpy as np
from numpy.typing import NDArray

from rembrandt.kernels import inner_kernel, kernel

SPACE = 32  # code point of the space that joins words and pads them
SEED = np.uint64(0x51ED270B9F652295)  # state of a hash before its first value
_FACTOR = np.uint64(
    0x9E3779B97F4A7C15
)  # odd, so that the product is a bijection: 2⁶⁴ / golden ratio
_HALF_BITS = np.uint64(32)  # the upper half is folded into the lower one
_N_CODEPOINTS = 0x110000  # Unicode ends here
POINTS = "Array(uint32, 1, 'C', True)"  # type of code points, which nobody may change


class Terms(NamedTuple):
    """The terms of some documents, in order."""

    hashes: NDArray[np.uint64]
    ends: NDArray[np.int64]  # number of terms up to the end of each document
    starts: NDArray[np.int64]  # where each term starts in the joined text
    stops: NDArray[np.int64]  # where it stops, exclusive


@cache
def code_points_matching(pattern: str) -> NDArray[np.bool_]:
    """Return, for every code point, whether the character class ``pattern`` matches it.

    Compiled loops look characters up in this table instead of using a regular expression.
    """
    code_points = np.arange(_N_CODEPOINTS, dtype="<u4")
    characters = code_points.tobytes().decode("utf-32-le", "surrogatepass")
    table = np.zeros(_N_CODEPOINTS, dtype=bool)
    for run in re.finditer(f"{pattern}+", characters):
        table[run.start() : run.end()] = True
    return table


def join(texts: Sequence[str]) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Return the texts as one array of code points, and where each text ends in it."""
    encoded = "".join(texts).encode("utf-32-le", "surrogatepass")
    points = np.frombuffer(encoded, dtype="<u4")
    ends = np.cumsum(text_lengths(texts), dtype=np.int64)
    return points, ends


def text_lengths(texts: Sequence[str]) -> NDArray[np.int64]:
    """Return the number of characters of each text."""
    return np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))


def words(
    texts: Sequence[str],
    smallest: int,
    largest: int,
    stop: NDArray[np.uint64] | None = None,
) -> Terms:
    """Return all n-grams of ``smallest`` to ``largest`` words, joined by one space.

    Words are the matches of the regular expression ``\\w+``; words whose hash is in ``stop`` are
    removed first.
    """
    points, ends = join(texts)
    is_word = code_points_matching(r"\w")
    tokens = _single_words(points, ends, is_word)
    if stop is not None:
        tokens = _without(tokens, stop)
    if largest == 1:
        return tokens
    return word_ngrams(points, tokens, smallest, largest)


def word_ngrams(points: NDArray[np.uint32], tokens: Terms, smallest: int, largest: int) -> Terms:
    """Return the n-grams of single words, which are spelled in ``points``."""
    terms = _room(len(tokens.hashes) * (largest - smallest + 1), len(tokens.ends))
    n = _word_ngrams(points, tokens, smallest, largest, terms)
    return _filled(terms, n)


def _room(n_terms: int, n_documents: int) -> Terms:
    """Return arrays with room for terms."""
    return Terms(
        hashes=np.empty(n_terms, dtype=np.uint64),
        ends=np.empty(n_documents, dtype=np.int64),
        starts=np.empty(n_terms, dtype=np.int64),
        stops=np.empty(n_terms, dtype=np.int64),
    )


def _filled(terms: Terms, n: int) -> Terms:
    """Return the first ``n`` terms, where there is room for more."""
    return Terms(terms.hashes[:n], terms.ends, terms.starts[:n], terms.stops[:n])


def _single_words(
    points: NDArray[np.uint32], ends: NDArray[np.int64], is_word: NDArray[np.bool_]
) -> Terms:
    """Return the single words; ``ends`` is where each document ends in ``points``."""
    # Words are at least one character apart.
    terms = _room(len(points) // 2 + len(ends) + 1, len(ends))
    n = _words(points, ends, is_word, terms.hashes, terms.ends, terms.starts, terms.stops)
    return _filled(terms, n)


def _without(tokens: Terms, stop: NDArray[np.uint64]) -> Terms:
    """The tokens whose hash is not in ``stop``."""
    kept = ~np.isin(tokens.hashes, stop)
    kept_so_far = np.concatenate([[0], np.cumsum(kept)])
    return Terms(
        hashes=tokens.hashes[kept],
        ends=kept_so_far[tokens.ends],
        starts=tokens.starts[kept],
        stops=tokens.stops[kept],
    )


def char_ngrams(texts: Sequence[str], smallest: int, largest: int) -> Terms:
    """Return the character n-grams of every word, padded with one space on each side.

    Words are separated by white space. A padded word not longer than n is one n-gram, once.
    """
    points, ends = join(texts)
    is_space = code_points_matching(r"\s")
    # A word of one letter has three 1-grams.
    terms = _room(3 * len(points) * (largest - smallest + 1), len(ends))
    n = _char_ngrams(points, ends, is_space, smallest, largest, terms)
    return _filled(terms, n)


def hash_each(strings: Sequence[str]) -> NDArray[np.uint64]:
    """Return the hash of each string as a term."""
    points, ends = join(strings)
    hashes = np.empty(len(ends), dtype=np.uint64)
    _hash_each(points, ends, hashes)
    return hashes


@kernel(inline="always")
def mix(state: Any, value: Any) -> Any:
    """Mix one value into a hash.

    For a fixed value this is a bijection of the hash, so no information is lost.
    """
    state = (state ^ np.uint64(value)) * _FACTOR
    return state ^ (state >> _HALF_BITS)


@inner_kernel()
def hash_span(points: Any, start: Any, stop: Any, state: Any) -> Any:
    """Mix a span of values into a hash."""
    for i in range(start, stop):
        state = mix(state, points[i])
    return state


@kernel(f"({POINTS}, int64[::1], boolean[::1], uint64[::1], int64[::1], int64[::1], int64[::1])")
def _words(
    points: Any, ends: Any, is_word: Any, hashes: Any, last: Any, starts: Any, stops: Any
) -> int:
    """Write the single words, and return how many there are."""
    n = 0
    position = 0
    for document in range(ends.shape[0]):
        while position < ends[document]:
            if not is_word[points[position]]:
                position += 1
                continue
            starts[n] = position
            while position < ends[document] and is_word[points[position]]:
                position += 1
            stops[n] = position
            hashes[n] = hash_span(points, starts[n], position, SEED)
            n += 1
        last[document] = n
    return n


@kernel()
def _word_ngrams(points: Any, tokens: Any, smallest: int, largest: int, terms: Any) -> int:
    """Write the n-grams of words, and return how many there are."""
    words = tokens.hashes
    ends = tokens.ends
    word_starts = tokens.starts
    word_stops = tokens.stops
    hashes = terms.hashes
    starts = terms.starts
    stops = terms.stops
    n = 0
    begin = 0
    for document in range(ends.shape[0]):
        for i in range(begin, ends[document]):
            state = words[i]
            for j in range(i, min(i + largest, ends[document])):
                if j > i:
                    state = mix(state, SPACE)
                    state = hash_span(points, word_starts[j], word_stops[j], state)
                if j - i + 1 >= smallest:
                    hashes[n] = state
                    starts[n] = word_starts[i]
                    stops[n] = word_stops[j]
                    n += 1
        begin = ends[document]
        terms.ends[document] = n
    return n


@kernel()
def _char_ngrams(
    points: Any, ends: Any, is_space: Any, smallest: int, largest: int, terms: Any
) -> int:
    """Write the n-grams of the characters of padded words, and return how many there are.

    ``ends`` is where each document ends.
    """
    hashes = terms.hashes
    starts = terms.starts
    stops = terms.stops
    n = 0
    position = 0
    for document in range(ends.shape[0]):
        while position < ends[document]:
            if is_space[points[position]]:
                position += 1
                continue
            begin = position
            while position < ends[document] and not is_space[points[position]]:
                position += 1
            # The padded word: its first and last characters are spaces.
            before = begin - 1
            after = position + 1
            for size in range(smallest, largest + 1):
                for start in range(before, max(after - size, before) + 1):
                    stop = min(start + size, after)
                    state = SEED
                    for at in range(start, stop):
                        if begin <= at < position:
                            state = mix(state, points[at])
                        else:
                            state = mix(state, SPACE)
                    hashes[n] = state
                    starts[n] = start
                    stops[n] = stop
                    n += 1
                if size >= after - before:
                    break
        terms.ends[document] = n
    return n


@kernel(f"void({POINTS}, int64[::1], uint64[::1])")
def _hash_each(points: Any, ends: Any, hashes: Any) -> None:
    """Write the hash of each string; ``ends`` is where it ends in ``points``."""
    begin = np.int64(0)
    for i in range(ends.shape[0]):
        hashes[i] = hash_span(points, begin, ends[i], SEED)
        begin = ends[i]
