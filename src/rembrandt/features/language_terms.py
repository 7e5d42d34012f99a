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


class SpelledTerms(NamedTuple):
    """Terms, and the words that each one is spelled with."""

    terms: terms.Terms
    sequence: NDArray[np.int64]  # numbers of forms: those of the words, then those of their parts
    firsts: NDArray[np.int64]  # where the words of each term start in the sequence
    lasts: NDArray[np.int64]  # where they stop, exclusive
    forms: list[str]

    def spell(self, which: NDArray[np.int64]) -> list[str]:
        """Return some of the terms as texts."""
        spelled = []
        bounds = zip(self.firsts[which].tolist(), self.lasts[which].tolist(), strict=True)
        for first, last in bounds:
            numbers = self.sequence[first:last].tolist()
            spelled.append(" ".join(self.forms[number] for number in numbers))
        return spelled


class _Forms(NamedTuple):
    """The forms of each token: the numbers of the first and of the others in ``forms``."""

    forms: list[str]
    counts: NDArray[np.int64]  # of each token; none for stop words
    starts: NDArray[np.int64]


@dataclass(frozen=True)
class Languages:
    """The languages that texts are written in."""

    codes: tuple[str, ...]
    word_forms: tuple[WordForms, ...]  # of each language

    @classmethod
    def of(cls, codes: tuple[str, ...], kind: str, without_stop_words: bool) -> "Languages":
        """Return languages with their words as yet unread."""
        word_forms = tuple(WordForms(code, kind, without_stop_words) for code in codes)
        return cls(codes, word_forms)

    def only(self, codes: tuple[str, ...]) -> "Languages":
        """Return some of the languages."""
        word_forms = [forms for forms in self.word_forms if forms.code in codes]
        return Languages(codes, tuple(word_forms))

    def occurring(self) -> tuple[str, ...]:
        """Return the languages that texts so far were in; the first if there was no text."""
        codes = tuple(forms.code for forms in self.word_forms if forms.is_used)
        return codes or self.codes[:1]

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
        tokens = terms.words(texts, 1, 1, stop)
        documents = _documents_of(tokens.ends)
        languages = detected(texts, self.codes)[documents]
        table = self._forms_of("".join(texts), tokens, languages)
        kept = np.flatnonzero(table.counts > 0)
        points, form_ends = terms.join(table.forms)
        form_starts = np.concatenate([[0], form_ends[:-1]]).astype(np.int64)
        hashes = terms.hash_each(table.forms)

        base = table.starts[kept]
        base_ends = np.searchsorted(documents[kept], np.arange(len(texts)), side="right")
        positions = np.arange(len(base))
        words = terms.Terms(hashes[base], base_ends, form_starts[base], form_ends[base])
        grams = terms.word_ngrams(points, words, smallest, largest)
        first_words, last_words = _words_of_grams(base_ends, smallest, largest)
        # The parts of compounds are terms without neighbours.
        n_parts = table.counts[kept] - 1
        owners = np.repeat(positions, n_parts)
        within = np.arange(len(owners)) - np.repeat(np.cumsum(n_parts) - n_parts, n_parts)
        parts = base[owners] + 1 + within
        if smallest > 1:
            owners = owners[:0]
            parts = parts[:0]
        part_positions = len(base) + np.arange(len(parts))

        # Grams first, then parts, within each document.
        gram_documents = _documents_of(grams.ends)
        all_documents = np.concatenate([gram_documents, documents[kept][owners]])
        order = np.argsort(all_documents, kind="stable")
        first_tokens = kept[np.concatenate([first_words, owners])[order]]
        last_tokens = kept[np.concatenate([last_words, owners])[order]]
        merged = terms.Terms(
            hashes=np.concatenate([grams.hashes, hashes[parts]])[order],
            ends=np.searchsorted(all_documents[order], np.arange(len(texts)), side="right"),
            starts=tokens.starts[first_tokens],
            stops=tokens.stops[last_tokens],
        )
        return SpelledTerms(
            terms=merged,
            sequence=np.concatenate([base, parts]),
            firsts=np.concatenate([first_words, part_positions])[order],
            lasts=np.concatenate([last_words, part_positions])[order] + 1,
            forms=table.forms,
        )

    def _forms_of(self, text: str, tokens: terms.Terms, languages: NDArray[np.int64]) -> _Forms:
        """Look up the distinct words of each language."""
        forms: list[str] = []
        counts = np.zeros(len(languages), dtype=np.int64)
        starts = np.zeros(len(languages), dtype=np.int64)
        for language in np.unique(languages).tolist():
            of_language = np.flatnonzero(languages == language)
            _, examples, word_of = np.unique(
                tokens.hashes[of_language], return_index=True, return_inverse=True
            )
            examples = of_language[examples]
            spans = zip(
                tokens.starts[examples].tolist(), tokens.stops[examples].tolist(), strict=True
            )
            word_forms = self.word_forms[language]
            word_starts = []
            word_counts = []
            for start, stop in spans:
                forms_of_word = word_forms.forms(text[start:stop])
                word_starts.append(len(forms))
                word_counts.append(len(forms_of_word))
                forms += forms_of_word
            counts[of_language] = np.array(word_counts, dtype=np.int64)[word_of]
            starts[of_language] = np.array(word_starts, dtype=np.int64)[word_of]
        return _Forms(forms, counts, starts)


def _documents_of(ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the document of each term; ``ends`` is the number of terms up to its end."""
    return np.repeat(np.arange(len(ends)), np.diff(ends, prepend=0))


def _words_of_grams(
    ends: NDArray[np.int64], smallest: int, largest: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the numbers of the first and the last word of each n-gram, in their order."""
    n_words = int(ends[-1]) if len(ends) else 0
    words = np.arange(n_words)
    n_left = np.repeat(ends, np.diff(ends, prepend=0)) - words  # in the document, from this one on
    counts = np.maximum(0, np.minimum(largest, n_left) - smallest + 1)
    firsts = np.repeat(words, counts)
    within = np.arange(len(firsts)) - np.repeat(np.cumsum(counts) - counts, counts)
    return firsts, firsts + smallest - 1 + within
