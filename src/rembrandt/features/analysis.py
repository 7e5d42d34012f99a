"""From texts to terms, chunk after chunk, and the statistics of terms that features need."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rembrandt.features import counting, terms
from rembrandt.features.composition import composed
from rembrandt.features.language_terms import Languages, SpelledTerms
from rembrandt.linalg import Indices
from rembrandt.progress import Report

# Texts are analysed this many characters at a time, so that the allocator reuses small arrays.
# Results do not depend on it.
CHUNK_CHARACTERS = 1 << 18

_WHITE_SPACE = re.compile(r"\s")
_WORD = re.compile(r"\w+")


class AnalyzedChunk(NamedTuple):
    """Consecutive documents and their terms."""

    begin: int  # number of the first document
    texts: list[str]  # as they are analysed: composed, and in lower case if that is asked for
    terms: terms.Terms
    spelled: SpelledTerms | None = None  # with languages, the words of the terms

    def spans(self, which: Indices) -> Indices:
        """(document, start, stop) of some of the terms.

        Documents are counted within the chunk, and starts and stops within their document.
        """
        documents = np.searchsorted(self.terms.ends, which, side="right")
        lengths = terms.text_lengths(self.texts)
        text_starts = np.cumsum(lengths) - lengths
        origins = text_starts[documents]
        starts = self.terms.starts[which] - origins
        stops = self.terms.stops[which] - origins
        return np.column_stack([documents, starts, stops])


@dataclass(frozen=True)
class Analyzer:
    """How texts are cut into terms."""

    kind: str  # "word" or "char"
    ngram_range: tuple[int, int]
    lowercase: bool
    stop_words: frozenset[str] | None
    languages: Languages | None = None

    def chunks(self, documents: list[str], report: Report) -> Iterator[AnalyzedChunk]:
        """Find the terms of documents, chunk after chunk."""
        stop_hashes = None
        if self.stop_words is not None:
            stop_hashes = terms.hash_each(sorted(self.stop_words))
        smallest, largest = self.ngram_range
        for begin, end in counting.chunks(documents, CHUNK_CHARACTERS):
            texts = [composed(text) for text in documents[begin:end]]
            if self.lowercase:
                texts = [text.lower() for text in texts]
            spelled = None
            if self.kind == "char":
                chunk_terms = terms.char_ngrams(texts, smallest, largest)
            elif self.languages is not None:
                spelled = self.languages.terms_of(texts, smallest, largest, stop_hashes)
                chunk_terms = spelled.terms
            else:
                chunk_terms = terms.words(texts, smallest, largest, stop_hashes)
            yield AnalyzedChunk(begin, texts, chunk_terms, spelled)
            report("reading texts", end, len(documents))

    def spell(self, chunk: AnalyzedChunk, which: Indices) -> list[str]:
        """Return some of the terms of a chunk as texts."""
        if chunk.spelled is not None:
            return chunk.spelled.spell(which)
        spelled = []
        for document, start, stop in chunk.spans(which).tolist():
            spelled.append(self._spelled(chunk.texts[document], start, stop))
        return spelled

    def _spelled(self, text: str, start: int, stop: int) -> str:
        """The term at a span of an analysed text."""
        if self.kind == "char":
            # The padding around a word may be any white space, or the end of the text.
            characters = f" {text} "[start + 1 : stop + 1]
            return _WHITE_SPACE.sub(" ", characters)
        words = _WORD.findall(text[start:stop])
        if self.stop_words:
            words = [word for word in words if word not in self.stop_words]
        return " ".join(words)


class TermLearner:
    """Counts the terms of texts that are seen once.

    A term is spelled where it reaches ``min_documents`` documents, so that rare ones, which are
    most of all terms, never become strings.
    """

    def __init__(self, analyzer: Analyzer, min_documents: int) -> None:
        self.analyzer = analyzer
        self.min_documents = min_documents
        self.vocabulary = counting.Vocabulary()
        self.n_documents = 0
        # Document frequency and number of occurrences of each term.
        self.statistics = np.zeros((2, 0))
        # The terms that occur often enough, by their number in the vocabulary.
        self.names: dict[int, str] = {}

    def counts(self, documents: list[str], report: Report) -> Iterator[counting.Counts]:
        """Learn from documents, chunk after chunk, and yield the counts of each."""
        for chunk in self.analyzer.chunks(documents, report):
            numbers = self.vocabulary.learn(chunk.terms.hashes)
            n_terms = len(self.vocabulary)
            counts, first = counting.count(numbers, chunk.terms.ends, n_terms)
            self._make_room(n_terms)
            reached = counting.tally(
                counts.columns, counts.counts, self.statistics, self.min_documents
            )
            columns = counts.columns[reached].tolist()
            names = self.analyzer.spell(chunk, first[reached])
            self.names.update(zip(columns, names, strict=True))
            yield counts
        self.n_documents += len(documents)

    def _make_room(self, n_terms: int) -> None:
        """Extend the statistics to at least ``n_terms`` columns."""
        n_missing = n_terms - self.statistics.shape[1]
        if n_missing > 0:
            # At least doubled, so that all copies together cost no more than the last one.
            n_columns = n_terms + n_missing
            self.statistics = np.pad(self.statistics, ((0, 0), (0, n_columns)))
