"""Terms of texts in some languages: the words of each text become those of its language.

A word is looked up once for all of its occurrences in a chunk of texts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rembrandt.features import terms
from rembrandt.features.languages import detected
from rembrandt.features.word_forms import WordForms
from rembrandt.linalg import Array, Indices

Codes = tuple[str, ...]


class SpelledTerms(NamedTuple):
    """Terms, and the words that each one is spelled with."""

    terms: terms.Terms
    sequence: Indices  # numbers of forms: those of the words, then those of their parts
    firsts: Indices  # where the words of each term start in the sequence
    lasts: Indices  # where they stop, exclusive
    forms: list[str]

    def spell(self, which: Indices) -> list[str]:
        """Return some of the terms as texts."""
        spelled = []
        firsts = self.firsts[which].tolist()
        lasts = self.lasts[which].tolist()
        for first, last in zip(firsts, lasts, strict=True):
            numbers = self.sequence[first:last].tolist()
            words = [self.forms[number] for number in numbers]
            spelled.append(" ".join(words))
        return spelled


class _Forms(NamedTuple):
    """The forms of each token: the numbers of the first and of the others in ``forms``."""

    forms: list[str]
    counts: Indices  # of each token; none for stop words
    starts: Indices


@dataclass(frozen=True)
class Languages:
    """The languages that texts are written in."""

    codes: Codes
    word_forms: tuple[WordForms, ...]  # of each language

    @classmethod
    def of(cls, codes: Codes, kind: str, without_stop_words: bool) -> "Languages":
        """Return languages with their words as yet unread."""
        word_forms = [WordForms(code, kind, without_stop_words) for code in codes]
        return cls(codes, tuple(word_forms))

    def only(self, codes: Codes) -> "Languages":
        """Return some of the languages."""
        word_forms = [forms for forms in self.word_forms if forms.code in codes]
        return Languages(codes, tuple(word_forms))

    def occurring(self) -> Codes:
        """Return the languages that texts so far were in; the first if there was no text."""
        codes = [forms.code for forms in self.word_forms if forms.is_used]
        if not codes:
            return self.codes[:1]
        return tuple(codes)

    def terms_of(
        self,
        texts: Sequence[str],
        smallest: int,
        largest: int,
        stop: NDArray[np.uint64] | None = None,
    ) -> SpelledTerms:
        """Return all n-grams of ``smallest`` to ``largest`` terms, and the parts of compounds.

        Words whose hash is in ``stop``, and stop words of their language, are removed first.
        """
        n_texts = len(texts)
        tokens = terms.words(texts, 1, 1, stop)
        documents = _documents_of(tokens.ends)
        languages = detected(texts, self.codes)[documents]
        table = self._forms_of("".join(texts), tokens, languages)
        kept = np.flatnonzero(table.counts > 0)
        points, form_ends = terms.join(table.forms)
        form_starts = np.append(0, form_ends[:-1])
        form_hashes = terms.hash_each(table.forms)

        base = table.starts[kept]
        base_documents = documents[kept]
        base_ends = _ends_of(base_documents, n_texts)
        words = terms.Terms(
            hashes=form_hashes[base],
            ends=base_ends,
            starts=form_starts[base],
            stops=form_ends[base],
        )
        grams = terms.word_ngrams(points, words, smallest, largest)
        first_words, last_words = _words_of_grams(base_ends, smallest, largest)
        # The parts of compounds are terms without neighbours.
        n_parts = table.counts[kept] - 1
        if smallest > 1:
            n_parts[:] = 0
        owners, within = _numbered(n_parts)
        parts = base[owners] + 1 + within
        # In the sequence of forms they follow all words.
        part_positions = len(base) + np.arange(len(parts))

        # Grams first, then parts, within each document.
        gram_documents = _documents_of(grams.ends)
        part_documents = base_documents[owners]
        unordered = np.concatenate([gram_documents, part_documents])
        order = np.argsort(unordered, kind="stable")

        def merge(of_grams: Array, of_parts: Array) -> Array:
            joined = np.concatenate([of_grams, of_parts])
            return joined[order]

        first_tokens = kept[merge(first_words, owners)]
        last_tokens = kept[merge(last_words, owners)]
        merged = terms.Terms(
            hashes=merge(grams.hashes, form_hashes[parts]),
            ends=_ends_of(unordered[order], n_texts),
            starts=tokens.starts[first_tokens],
            stops=tokens.stops[last_tokens],
        )
        return SpelledTerms(
            terms=merged,
            sequence=np.concatenate([base, parts]),
            firsts=merge(first_words, part_positions),
            lasts=merge(last_words, part_positions) + 1,
            forms=table.forms,
        )

    def _forms_of(
        self,
        text: str,
        tokens: terms.Terms,
        languages: Indices,
    ) -> _Forms:
        """Look up the distinct words of each language."""
        n_tokens = len(languages)
        forms: list[str] = []
        counts = np.zeros(n_tokens, dtype=np.int64)
        starts = np.zeros(n_tokens, dtype=np.int64)
        for language in np.unique(languages).tolist():
            of_language = np.flatnonzero(languages == language)
            hashes = tokens.hashes[of_language]
            _, firsts, word_of = np.unique(hashes, return_index=True, return_inverse=True)
            examples = of_language[firsts]
            text_starts = tokens.starts[examples].tolist()
            text_stops = tokens.stops[examples].tolist()
            word_forms = self.word_forms[language]
            word_starts = []
            word_counts = []
            for start, stop in zip(text_starts, text_stops, strict=True):
                word = text[start:stop]
                forms_of_word = word_forms.forms(word)
                word_starts.append(len(forms))
                word_counts.append(len(forms_of_word))
                forms += forms_of_word
            counts[of_language] = _as_indices(word_counts)[word_of]
            starts[of_language] = _as_indices(word_starts)[word_of]
        return _Forms(forms, counts, starts)


def _as_indices(numbers: list[int]) -> Indices:
    return np.array(numbers, dtype=np.int64)


def _documents_of(ends: Indices) -> Indices:
    """Return the document of each term; ``ends`` is the number of terms up to its end."""
    n_terms = np.diff(ends, prepend=0)
    return np.repeat(np.arange(len(ends)), n_terms)


def _ends_of(documents: Indices, n_documents: int) -> Indices:
    """Return the number of terms up to the end of each document: the inverse of `_documents_of`."""
    return np.searchsorted(documents, np.arange(n_documents), side="right")


def _numbered(counts: Indices) -> tuple[Indices, Indices]:
    """Return for each of several things, of which owners have these counts, its owner, and its
    number among those of the owner.
    """
    owners = np.repeat(np.arange(len(counts)), counts)
    n_before = np.cumsum(counts) - counts
    numbers = np.arange(len(owners)) - n_before[owners]
    return owners, numbers


def _words_of_grams(ends: Indices, smallest: int, largest: int) -> tuple[Indices, Indices]:
    """Return the numbers of the first and the last word of each n-gram, in their order."""
    documents = _documents_of(ends)
    words = np.arange(len(documents))
    n_left = ends[documents] - words  # in the document, from this one on
    largest_here = np.minimum(largest, n_left)
    counts = np.maximum(0, largest_here - smallest + 1)
    firsts, within = _numbered(counts)
    lasts = firsts + smallest - 1 + within
    return firsts, lasts
