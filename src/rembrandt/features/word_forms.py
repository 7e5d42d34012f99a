"""Words of one language to terms: a stem or a lemma, and those of the parts of a compound."""

import threading
from functools import cache
from typing import Any, TypeVar

from rembrandt.features.languages import STEMMERS, languages_module
from rembrandt.features.stop_words import stop_words_of

T = TypeVar("T")

# Languages that write compounds as one word, and what may stand between two parts of one.
LINKS = {
    "da": ("", "s", "e"),
    "de": ("", "s", "es", "n", "en", "er", "e"),
    "et": ("", "s", "te"),
    "fi": ("", "n", "en"),
    "hu": ("",),
    "nl": ("", "s", "e", "en", "er"),
    "no": ("", "s", "e"),
    "sv": ("", "s", "o", "u"),
}
_MIN_PART = 4  # letters of a part of a compound; shorter ones are often endings
_MAX_COMPOUND = 60  # letters; longer words are not taken apart
_CACHED_WORDS = 1 << 18  # words whose forms are kept, for each language
_LEMMA_CODES = {"no": "nb", "sr": "hbs"}  # where simplemma has another code
_LOCAL = threading.local()  # stemmers hold the word they work on, so each thread has its own


class WordForms:
    """The terms that words of a language stand for.

    Parameters
    ----------
    code : str
        The language.
    kind : {"stem", "lemma"}
        Stems of snowballstemmer, or lemmas of simplemma and stems where it has no dictionary.
    without_stop_words : bool
        Whether stop words stand for no term.
    """

    def __init__(self, code: str, kind: str, without_stop_words: bool) -> None:
        self.code = code
        self.kind = kind
        self.stop_words: frozenset[str] = frozenset()
        if without_stop_words:
            self.stop_words = stop_words_of(code)
        self._reset()

    def _reset(self) -> None:
        """Forget what was looked up."""
        self._forms: dict[str, tuple[str, ...]] = {}
        self._bases: dict[str, str] = {}
        self._parts: dict[str, tuple[str, ...]] = {}
        self._known: dict[str, bool] = {}

    def __getstate__(self) -> dict[str, Any]:
        names = ("code", "kind", "stop_words")
        return {name: getattr(self, name) for name in names}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._reset()

    @property
    def is_used(self) -> bool:
        """Whether any word was looked up."""
        return len(self._forms) > 0

    def forms(self, word: str) -> tuple[str, ...]:
        """Return the terms of a word: its stem or lemma, the word itself where it differs, and the
        stems or lemmas of its parts; none for a stop word.
        """
        known = self._forms.get(word)
        if known is not None:
            return known
        forms: tuple[str, ...] = ()
        if word not in self.stop_words:
            bases = [self._base(word)]
            bases += map(self._base_of_part, self.parts(word))
            if word != bases[0]:
                bases.insert(1, word)
            forms = tuple(bases)
        _remember(self._forms, word, forms)
        return forms

    def parts(self, word: str) -> tuple[str, ...]:
        """Return the words of the language that a compound is made of; none for other words.

        Of several ways to take a word apart the one with the fewest parts is taken, and among
        those the one whose shortest part is longest.
        """
        links = LINKS.get(self.code)
        if links is None or not 2 * _MIN_PART <= len(word) <= _MAX_COMPOUND:
            return ()
        known = self._parts.get(word)
        if known is not None:
            return known
        best: tuple[str, ...] = ()
        best_rank = (0, 0)
        for start in range(len(word) - _MIN_PART, _MIN_PART - 1, -1):
            tail = word[start:]
            if not self._is_word(tail):
                continue
            for link in links:
                head = word[:start].removesuffix(link)
                if not word[:start].endswith(link) or len(head) < _MIN_PART:
                    continue
                heads = (head,) if self._is_word(head) else self.parts(head)
                candidate = (*heads, tail)
                rank = (-len(candidate), min(map(len, candidate)))
                if heads and (not best or rank > best_rank):
                    best = candidate
                    best_rank = rank
        _remember(self._parts, word, best)
        return best

    def _base_of_part(self, part: str) -> str:
        """The stem or the lemma of a part, which is that of many compounds."""
        base = self._bases.get(part)
        if base is None:
            base = self._base(part)
            _remember(self._bases, part, base)
        return base

    def _base(self, word: str) -> str:
        """The stem or the lemma of a word."""
        code = _lemma_code(self.code)
        if self.kind == "stem" or code not in _lemmatized_languages():
            return str(_stemmer(self.code).stemWord(word))
        simplemma = languages_module("simplemma")
        return str(simplemma.lemmatize(word, lang=code)).lower()

    def _is_word(self, word: str) -> bool:
        """Whether the dictionary has a word."""
        known = self._known.get(word)
        if known is None:
            simplemma = languages_module("simplemma")
            known = bool(simplemma.is_known(word, lang=_lemma_code(self.code)))
            _remember(self._known, word, known)
        return known


def _remember(cache: dict[str, T], word: str, value: T) -> None:
    """Keep a value for a word, in a cache of bounded size."""
    if len(cache) >= _CACHED_WORDS:
        cache.clear()
    cache[word] = value


def _lemma_code(code: str) -> str:
    return _LEMMA_CODES.get(code, code)


@cache
def _lemmatized_languages() -> frozenset[str]:
    """The languages of which simplemma has a dictionary."""
    dictionaries = languages_module("simplemma.strategies.dictionaries.dictionary_factory")
    return frozenset(dictionaries.SUPPORTED_LANGUAGES)


def _stemmer(code: str) -> Any:
    """The stemmer of a language in this thread."""
    stemmers: dict[str, Any] = _LOCAL.__dict__.setdefault("stemmers", {})
    if code not in stemmers:
        stemmers[code] = languages_module("snowballstemmer").stemmer(STEMMERS[code])
    return stemmers[code]
