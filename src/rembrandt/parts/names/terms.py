"""Texts as words, stems and pairs of stems, with their positions."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rembrandt.features import counting
from rembrandt.features.analysis import Analyzer
from rembrandt.features.terms import POINTS, SEED, Terms, hash_span, join, mix
from rembrandt.kernels import kernel
from rembrandt.progress import silent

# Kinds of terms.
STEM = 0
WORD = 1
PAIR = 2
# Characters of a stem. Words of European languages with the same beginning have mostly the same
# stem, so no rules of a language are needed.
STEM_LENGTH = 5
_STEM_SEED = SEED ^ np.uint64(0x5DEECE66D)
_PAIR_SEED = SEED ^ np.uint64(0xB5026F5AA)
_ANALYZER = Analyzer(kind="word", ngram_range=(1, 1), lowercase=True, stop_words=None)


class TextTerms(NamedTuple):
    """The distinct terms of texts, as the rows of a sparse matrix."""

    indptr: NDArray[np.int64]
    numbers: NDArray[np.int32]  # of the terms in the vocabulary
    counts: NDArray[np.int32]
    positions: NDArray[np.int32]  # of the first occurrence: words before it


class Spelled(NamedTuple):
    """Every occurrence of a term in some texts, in order."""

    ends: NDArray[np.int64]  # number of terms up to the end of each text
    keys: NDArray[np.uint64]
    kinds: NDArray[np.uint8]
    positions: NDArray[np.int32]


def spell(texts: Iterable[str]) -> Spelled:
    """Return the terms of texts: stem, word, and pair with the word before, for each word."""
    return _joined(_spelled_chunks(texts))


def spell_stems(texts: Iterable[str]) -> Spelled:
    """Return the stems of texts alone, in a third of the memory."""
    return _joined(stems_of(chunk) for chunk in _spelled_chunks(texts))


def _spelled_chunks(texts: Iterable[str]) -> Iterator[Spelled]:
    for chunk in _ANALYZER.chunks(list(texts), silent):
        points, _ = join(chunk.texts)
        yield _spelled(points, chunk.terms)


def _joined(chunks: Iterable[Spelled]) -> Spelled:
    """Return the terms of the texts of all chunks."""
    ends = [np.zeros(0, dtype=np.int64)]
    keys = [np.zeros(0, dtype=np.uint64)]
    kinds = [np.zeros(0, dtype=np.uint8)]
    positions = [np.zeros(0, dtype=np.int32)]
    n_before = 0
    for chunk in chunks:
        ends.append(chunk.ends + n_before)
        keys.append(chunk.keys)
        kinds.append(chunk.kinds)
        positions.append(chunk.positions)
        n_before += len(chunk.keys)
    return Spelled(
        np.concatenate(ends),
        np.concatenate(keys),
        np.concatenate(kinds),
        np.concatenate(positions),
    )


def count_terms(spelled: Spelled, vocabulary: counting.Vocabulary) -> TextTerms:
    """Count the terms of each text that are in the vocabulary."""
    numbers = vocabulary.numbers(spelled.keys)
    counts, first = counting.count(numbers, spelled.ends, len(vocabulary))
    indptr = np.concatenate([np.zeros(1, dtype=np.int64), counts.ends])
    return TextTerms(indptr, counts.columns, counts.counts, spelled.positions[first])


def stems_of(spelled: Spelled) -> Spelled:
    """Return the stems alone."""
    is_stem = spelled.kinds == STEM
    n_stems = np.concatenate([[0], np.cumsum(is_stem)])
    return Spelled(
        n_stems[spelled.ends],
        spelled.keys[is_stem],
        spelled.kinds[is_stem],
        spelled.positions[is_stem],
    )


def _spelled(points: NDArray[np.uint32], words: Terms) -> Spelled:
    """Return the terms of words."""
    room = 3 * len(words.hashes)
    keys = np.empty(room, dtype=np.uint64)
    kinds = np.empty(room, dtype=np.uint8)
    positions = np.empty(room, dtype=np.int32)
    ends = np.empty(len(words.ends), dtype=np.int64)
    n = _spell(
        points, words.hashes, words.ends, words.starts, words.stops, keys, kinds, positions, ends
    )
    return Spelled(ends, keys[:n], kinds[:n], positions[:n])


@kernel(
    f"({POINTS}, uint64[::1], int64[::1], int64[::1], int64[::1], uint64[::1], uint8[::1], "
    "int32[::1], int64[::1])"
)
def _spell(
    points: Any,
    hashes: Any,
    word_ends: Any,
    starts: Any,
    stops: Any,
    keys: Any,
    kinds: Any,
    positions: Any,
    ends: Any,
) -> int:
    """Write the terms of words, and return their number.

    ``word_ends`` is the number of words up to the end of each text, ``ends`` that of terms.
    """
    n = 0
    begin = 0
    for text in range(word_ends.shape[0]):
        before = np.uint64(0)
        for word in range(begin, word_ends[text]):
            stop = min(stops[word], starts[word] + STEM_LENGTH)
            stem = hash_span(points, starts[word], stop, _STEM_SEED)
            keys[n] = stem
            kinds[n] = STEM
            positions[n] = word - begin
            n += 1
            keys[n] = hashes[word]
            kinds[n] = WORD
            positions[n] = word - begin
            n += 1
            if word > begin:
                keys[n] = mix(mix(_PAIR_SEED, before), stem)
                kinds[n] = PAIR
                positions[n] = word - begin - 1
                n += 1
            before = stem
        begin = word_ends[text]
        ends[text] = n
    return n
