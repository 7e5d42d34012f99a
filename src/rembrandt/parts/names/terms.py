"""Texts as words, stems and pairs of stems, with their positions."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rembrandt.features import counting
from rembrandt.features.analysis import Analyzer
from rembrandt.features.terms import SEED, hash_span, join, mix
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


def spell(texts: Sequence[str]) -> Spelled:
    """Return the terms of texts: stem, word, and pair with the word before, for each word."""
    ends = [np.zeros(0, dtype=np.int64)]
    keys = [np.zeros(0, dtype=np.uint64)]
    kinds = [np.zeros(0, dtype=np.uint8)]
    positions = [np.zeros(0, dtype=np.int32)]
    n_before = 0
    for chunk in _ANALYZER.chunks(list(texts), silent):
        points, _ = join(chunk.texts)
        spelled = _spell(points, *chunk.terms)
        ends.append(spelled.ends + n_before)
        keys.append(spelled.keys)
        kinds.append(spelled.kinds)
        positions.append(spelled.positions)
        n_before += len(spelled.keys)
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


@kernel()
def _spell(points: Any, hashes: Any, ends: Any, starts: Any, stops: Any) -> Any:
    """The terms of words; ``ends`` is the number of words up to the end of each text."""
    room = 3 * len(hashes)
    keys = np.empty(room, np.uint64)
    kinds = np.empty(room, np.uint8)
    positions = np.empty(room, np.int32)
    last = np.empty(len(ends), np.int64)
    n = 0
    begin = 0
    for text in range(len(ends)):
        before = np.uint64(0)
        for word in range(begin, ends[text]):
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
        begin = ends[text]
        last[text] = n
    return Spelled(last, keys[:n], kinds[:n], positions[:n])
