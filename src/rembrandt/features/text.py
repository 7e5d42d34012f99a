"""Texts to sparse features: tf-idf over learned terms, or hashed terms that need no learning."""

import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.errors import DataError
from rembrandt.features import counting, spans, terms
from rembrandt.features.analysis import Analyzer, TermLearner
from rembrandt.features.composition import composed
from rembrandt.features.language_terms import Languages
from rembrandt.features.languages import (
    check_packages,
    installed_packages,
    languages_of,
    warn_if_other_packages,
)
from rembrandt.features.stop_words import stop_words_of
from rembrandt.linalg.sparse import is_sparse
from rembrandt.progress import Report, silent
from rembrandt.scikit import BaseEstimator, TransformerMixin, check_is_fitted
from rembrandt.storage.arrays import Arrays, checked, pack_strings, unpack_strings

_MAX_NGRAM = 100  # words or characters in a term
_COUNT_LIMIT = 2**31  # of documents and columns, whose numbers have 32 bits


class NewTerms(NamedTuple):
    """What texts have that features were not learned from."""

    n_terms: int  # different terms of the texts
    n_unknown: int  # of them
    n_learned: int  # of the unknown ones


class TextFeatures(TransformerMixin, BaseEstimator):
    """Turn texts into rows of weighted term counts with unit Euclidean length.

    With ``weighting="tfidf"``, a term that occurs t times in a document, and in m of n training
    documents, has the weight (1 + ln t)·(1 + ln((1 + n) / (1 + m))). That is what scikit-learn's
    ``TfidfVectorizer`` computes with ``sublinear_tf=True``, several times faster. With
    ``weighting="hashed"``, terms share ``n_features`` columns by their hash, have the weight 1 + ln
    t, and nothing is learned from the training texts.

    Texts are brought to the composed form of Unicode (NFC) first, so that "é" is the same term
    whether it is one character or a letter with a combining accent.

    Parameters
    ----------
    analyzer : {"word", "char"}, default="word"
        Terms are words (runs of letters, digits and underscores, single letters included: "vitamin
        C"), or n-grams of characters within words, with a space at either end of each word.
    ngram_range : tuple (int, int), default=None
        Smallest and largest number of words or characters in a term. None means (1, 1) for words
        and (3, 4) for characters.
    weighting : {"tfidf", "hashed"}, default="tfidf"
        How terms become columns and weights.
    min_df : int or float, default=2
        Ignore terms that occur in fewer training documents, or in a smaller share of them; tf-idf
        only.
    max_df : int or float, default=1.0
        Ignore terms that occur in more training documents, or in a larger share of them; tf-idf
        only.
    max_features : int, default=None
        Keep the terms with the most occurrences, ties in alphabetical order; tf-idf only.
    n_features : int, default=2**20
        Number of columns; hashed only.
    lowercase : bool, default=True
        Convert texts to lower case first.
    stop_words : "english", "language" or sequence of str, default=None
        Words to remove before n-grams are formed; words only. "english" is the list of
        scikit-learn, and "language" that of the language of each text, where there is one (de, en,
        es, fr, it, nl, pt, sv).
    language : str or sequence of str, default=None
        Make the forms of a word one term: a code such as "de"; several codes, of which that of each
        text is detected; or "auto" for all languages. Compounds of languages that write them as one
        word also count as their parts. The packages are those of ``rembrandt[languages]``.
    word_forms : {"stem", "lemma"}, default="stem"
        With a language, terms are stems (snowballstemmer), or lemmas (simplemma) where there is a
        dictionary of the language.

    Attributes
    ----------
    n_features_out_ : int
        Number of columns.
    idf_ : ndarray of shape (n_features_out_,)
        The factor 1 + ln((1 + n) / (1 + m)) of each column; tf-idf only.
    terms_ : list of str or None
        The term of each column, in alphabetical order, those of `extended` last; None if terms are
        hashed.

    Examples
    --------
    >>> from rembrandt import TextFeatures
    >>> features = TextFeatures(min_df=1).fit(["a red fox", "a red hen"])
    >>> features.get_feature_names_out().tolist()
    ['a', 'fox', 'hen', 'red']
    >>> features.transform(["hen hen"]).toarray().round(3)
    array([[0., 0., 1., 0.]], dtype=float32)
    """

    def __init__(
        self,
        analyzer: str = "word",
        ngram_range: tuple[int, int] | None = None,
        weighting: str = "tfidf",
        min_df: int | float = 2,
        max_df: int | float = 1.0,
        max_features: int | None = None,
        n_features: int = 2**20,
        lowercase: bool = True,
        stop_words: Literal["english", "language"] | Sequence[str] | None = None,
        language: str | Sequence[str] | None = None,
        word_forms: str = "stem",
    ) -> None:
        self.analyzer = analyzer
        self.ngram_range = ngram_range
        self.weighting = weighting
        self.min_df = min_df
        self.max_df = max_df
        self.max_features = max_features
        self.n_features = n_features
        self.lowercase = lowercase
        self.stop_words = stop_words
        self.language = language
        self.word_forms = word_forms

    def fit(self, texts: Iterable[str], y: Any = None, report: Report = silent) -> Self:
        """Learn the terms and their document frequencies.

        Parameters
        ----------
        texts : iterable of str
            The training texts.
        y : None
            Ignored.
        report : callable, default=silent
            Called with stage, done and total.

        Returns
        -------
        self : TextFeatures
        """
        return self.fit_parts([_as_texts(texts)], report)

    def fit_parts(self, parts: Iterable[Sequence[str]], report: Report = silent) -> Self:
        """Learn from texts that come in parts, with one part in memory at a time.

        The result is the same as that of `fit` on all texts.

        Parameters
        ----------
        parts : iterable of sequences of str
            The training texts.
        report : callable, default=silent
            Called with stage, done and total.

        Returns
        -------
        self : TextFeatures
        """
        self._check_parameters()
        self._languages = self._chosen_languages()
        if self.weighting == "hashed":
            self._set(None, None)
            return self
        learner = self._learner()
        for texts in parts:
            for _ in learner.counts(_as_texts(texts), report):
                pass
        self._take(learner)
        return self

    def fit_transform(
        self, texts: Iterable[str], y: Any = None, report: Report = silent
    ) -> sparse.csr_array:
        """Learn the terms and return the features of the same texts, in one pass over them.

        Parameters
        ----------
        texts : iterable of str
            The training texts.
        y : None
            Ignored.
        report : callable, default=silent
            Called with stage, done and total.

        Returns
        -------
        X : csr_array of shape (n_texts, n_features_out_)
            Features of type float32.
        """
        documents = _as_texts(texts)
        if self.weighting == "hashed":
            return self.fit([]).transform(documents, report)
        self._check_parameters()
        self._languages = self._chosen_languages()
        learner = self._learner()
        counts = list(learner.counts(documents, report))
        X = counting.as_matrix(counts, len(learner.vocabulary))
        return self._weigh(X[:, self._take(learner)])

    def transform(self, texts: Iterable[str], report: Report = silent) -> sparse.csr_array:
        """Return the features of texts; terms that were not learned are ignored.

        Parameters
        ----------
        texts : iterable of str
            The texts.
        report : callable, default=silent
            Called with stage, done and total.

        Returns
        -------
        X : csr_array of shape (n_texts, n_features_out_)
            Features of type float32.
        """
        check_is_fitted(self, "n_features_out_")
        documents = _as_texts(texts)
        return self._weigh(self._counts(documents, report))

    def extended(
        self,
        texts: Iterable[str],
        n_before: int,
        earlier: Iterable[str] = (),
        report: Report = silent,
    ) -> tuple[Self, NewTerms]:
        """Return features with the new terms of more texts.

        The columns of the new terms come after those of the other terms, whose weights do not
        change. ``min_df`` holds for the new texts and the earlier ones together.

        Parameters
        ----------
        texts : iterable of str
            More texts.
        n_before : int
            Number of texts that the terms were learned from.
        earlier : iterable of str, default=()
            These texts, if they are at hand; otherwise they are taken to have none of the new
            terms.
        report : callable, default=silent
            Called with stage, done and total.

        Returns
        -------
        features : TextFeatures
            The same object if there are no new terms, or if ``max_features`` limits their number.
        new : NewTerms
            How many terms of the texts were not known.
        """
        check_is_fitted(self, "n_features_out_")
        if self.terms_ is None:
            return self, NewTerms(0, 0, 0)
        learner = TermLearner(self._analyzer(), 1)
        for _ in learner.counts(_as_texts(texts), report):
            pass
        numbers = np.array(sorted(learner.names, key=learner.names.__getitem__), dtype=np.int64)
        spelled = [learner.names[number] for number in numbers.tolist()]
        hashes = terms.hash_each(spelled)
        is_unknown = self._vocabulary.numbers(hashes) < 0
        documents = _as_texts(earlier)
        frequencies = learner.statistics[0][numbers] + self._frequencies(hashes, documents, report)
        n_counted = learner.n_documents + len(documents)
        n_texts = n_before + learner.n_documents
        is_learned = is_unknown & (frequencies >= _as_count(self.min_df, n_counted))
        is_learned &= frequencies <= _as_count(self.max_df, n_texts)
        if self.max_features is not None:
            is_learned[:] = False
        new = NewTerms(len(spelled), int(is_unknown.sum()), int(is_learned.sum()))
        if not new.n_learned:
            return self, new
        added = [spelled[position] for position in np.flatnonzero(is_learned).tolist()]
        idf = np.log((1 + n_texts) / (1 + frequencies[is_learned])) + 1
        features = type(self)(**self.get_params(deep=False))
        features._languages = self._languages
        all_idf = np.append(self.idf_, idf).astype(np.float32)
        features._set(self.terms_ + added, all_idf)
        return features, new

    def _frequencies(
        self, hashes: NDArray[np.uint64], documents: list[str], report: Report
    ) -> NDArray[np.float64]:
        """In how many documents each of these terms occurs."""
        learner = TermLearner(self._analyzer(), _COUNT_LIMIT)  # spells no term
        for _ in learner.counts(documents, report):
            pass
        numbers = learner.vocabulary.numbers(hashes)
        padded = np.append(learner.statistics[0], 0.0)  # the last one is for unknown terms
        return np.where(numbers < 0, 0.0, padded[numbers])

    def locate(self, texts: Iterable[str]) -> spans.TermSpans:
        """Find where the terms of each column occur.

        Parameters
        ----------
        texts : iterable of str
            The texts.

        Returns
        -------
        spans : TermSpans
            Arrays ``documents``, ``columns``, ``starts`` and ``stops`` with one entry for each
            occurrence.
        """
        check_is_fitted(self, "n_features_out_")
        documents = _as_texts(texts)
        columns = [np.empty(0, np.int32)]
        occurrences = [np.empty((0, 3), np.int64)]
        for chunk in self._analyzer().chunks(documents, silent):
            chunk_columns = self._columns(chunk.terms.hashes)
            learned = np.flatnonzero(chunk_columns >= 0)
            columns.append(chunk_columns[learned])
            occurrences.append(chunk.spans(learned) + np.array([chunk.begin, 0, 0]))
        return spans.in_originals(
            documents, self.lowercase, np.concatenate(columns), np.concatenate(occurrences)
        )

    @property
    def term_keys(self) -> NDArray[np.uint64] | None:
        """Hashes of the terms of the columns; None for hashed columns, which are the same for any
        texts.
        """
        if self.terms_ is None:
            return None
        return terms.hash_each(self.terms_)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return the names of the columns.

        Parameters
        ----------
        input_features : None
            Ignored.

        Returns
        -------
        names : ndarray of str objects of shape (n_features_out_,)
            The terms; hashed columns, which have no single term, are numbered.
        """
        check_is_fitted(self, "n_features_out_")
        term_names = self.terms_
        if term_names is None:
            term_names = [f"hashed{i}" for i in range(self.n_features_out_)]
        return np.array(term_names, dtype=object)

    def to_config(self) -> dict[str, Any]:
        """Return the parameters as JSON values; with `to_arrays` they are the whole transformer."""
        config = self.get_params(deep=False)
        for name in ("ngram_range", "stop_words", "language"):  # JSON holds sequences as lists
            value = config[name]
            if value is not None and not isinstance(value, str):
                config[name] = list(value)
        if self.language is None:
            del config["language"]
            del config["word_forms"]
        return config

    def to_arrays(self) -> Arrays:
        """Return what was learned as arrays."""
        check_is_fitted(self, "n_features_out_")
        arrays: Arrays = {}
        if self.terms_ is not None:
            arrays = pack_strings("terms", self.terms_) | {"idf": self.idf_}
        if self._languages is not None:
            arrays |= pack_strings("languages", list(self._languages.codes))
            arrays |= pack_strings("packages", installed_packages())
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], config: Mapping[str, Any]) -> Self:
        """Return the transformer that `to_arrays` and `to_config` describe."""
        params = dict(config)
        if "min_count" in params:  # the former name of min_df
            params["min_df"] = params.pop("min_count")
        if params.pop("encoder", None) is not None:
            raise DataError(
                "the model has vectors of an encoder among its features, which an earlier version "
                "made; fit again with RembrandtClassifier(encoder=...)",
                parameter="encoder",
            )
        if params["ngram_range"] is not None:
            params["ngram_range"] = tuple(map(operator.index, params["ngram_range"]))
        self = cls(**params)
        if self.weighting == "hashed":
            self.fit([])
            self._take_languages(arrays)
            return self
        self._check_parameters()
        names = unpack_strings("terms", arrays)
        idf = checked("idf", arrays, (None,), "f", 0)
        self._set(names, np.array(idf, dtype=np.float32))
        if not len(self._vocabulary) == len(self.idf_) == self.n_features_out_:
            raise DataError(
                "the saved terms are not distinct, or not as many as their weights; save the "
                "features again"
            )
        self._take_languages(arrays)
        return self

    def _take_languages(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take the languages of the training texts; warn where other packages read them."""
        if self._languages is None:
            return
        codes = languages_of(unpack_strings("languages", arrays))
        if not set(codes) <= set(self._languages.codes):
            raise DataError("the saved languages are not those of the setting; save them again")
        self._languages = self._languages.only(codes)
        warn_if_other_packages(unpack_strings("packages", arrays))

    def _chosen_languages(self) -> Languages | None:
        """The languages that the parameters name."""
        if self.language is None:
            return None
        codes = languages_of(self.language)
        check_packages(codes)
        return Languages.of(codes, self.word_forms, self.stop_words == "language")

    def _set(self, names: list[str] | None, idf: NDArray[np.float32] | None) -> None:
        """Set the terms, None for hashed ones, and the number of columns."""
        if not hasattr(self, "_languages"):
            self._languages = self._chosen_languages()
        self.terms_ = names
        n_terms = self.n_features
        if names is not None and idf is not None:
            n_terms = len(names)
            self.idf_ = idf
            self._vocabulary = counting.Vocabulary(terms.hash_each(names))
        self.n_features_out_ = n_terms

    def _take(self, learner: TermLearner) -> NDArray[np.int64]:
        """Keep the terms that the parameters ask for.

        Returns their numbers in the vocabulary of the learner.
        """
        names = learner.names
        frequencies, totals = learner.statistics
        n = learner.n_documents
        min_documents = _as_count(self.min_df, n)
        max_documents = _as_count(self.max_df, n)
        kept = [term for term in names if min_documents <= frequencies[term] <= max_documents]
        if not kept:
            raise DataError(
                f"of the {n:,} texts no term occurs in at least {min_documents:g} (min_df) and at "
                f"most {max_documents:g} (max_df); lower min_df, raise max_df, or give more texts",
                parameter=("min_df", "max_df"),
            )
        if self.max_features is not None and len(kept) > self.max_features:
            kept.sort(key=lambda term: (-totals[term], names[term]))
            kept = kept[: self.max_features]
        kept.sort(key=names.__getitem__)
        if self._languages is not None:
            self._languages = self._languages.only(self._languages.occurring())
        columns = np.array(kept)
        idf = np.log((1 + n) / (1 + frequencies[columns])) + 1
        self._set([names[term] for term in kept], idf.astype(np.float32))
        return columns

    def _analyzer(self) -> Analyzer:
        """How the parameters say that texts are cut into terms."""
        return Analyzer(
            self.analyzer,
            self._ngram_range(),
            self.lowercase,
            self._stop_words(),
            self._languages,
        )

    def _learner(self) -> TermLearner:
        # If min_df is a share, the number is known only at the end, so every term is spelled.
        min_documents = 1 if isinstance(self.min_df, float) else self.min_df
        return TermLearner(self._analyzer(), min_documents)

    def _counts(self, documents: list[str], report: Report) -> sparse.csr_array:
        """How often the term of each column occurs in each document."""
        n_terms = self.n_features_out_
        counts = []
        for chunk in self._analyzer().chunks(documents, report):
            columns = self._columns(chunk.terms.hashes)
            chunk_counts, _ = counting.count(columns, chunk.terms.ends, n_terms)
            counts.append(chunk_counts)
        return counting.as_matrix(counts, n_terms)

    def _columns(self, hashes: NDArray[np.uint64]) -> NDArray[np.int32]:
        """The column of each term, -1 for unknown ones."""
        if self.weighting == "hashed":
            upper_half = hashes >> np.uint64(32)
            return (upper_half % np.uint64(self.n_features)).astype(np.int32)
        return self._vocabulary.numbers(hashes)

    def _weigh(self, X: sparse.csr_array) -> sparse.csr_array:
        """Turn counts into weights, and scale rows to unit length."""
        X.sort_indices()
        factors = np.ones(X.shape[1], dtype=np.float32) if self.weighting == "hashed" else self.idf_
        return counting.weigh(X, factors)

    def _stop_words(self) -> frozenset[str] | None:
        if self.stop_words is None or self.stop_words == "language":
            return None
        if self.stop_words == "english":
            return stop_words_of("en")
        return frozenset(map(composed, self.stop_words))

    def _ngram_range(self) -> tuple[int, int]:
        if self.ngram_range:
            return self.ngram_range
        if self.analyzer == "word":
            return (1, 1)
        return (3, 4)

    def _check_parameters(self) -> None:
        if self.analyzer not in ("word", "char"):
            raise DataError(f"analyzer is {self.analyzer!r}; use 'word' or 'char'")
        if self.weighting not in ("tfidf", "hashed"):
            raise DataError(f"weighting is {self.weighting!r}; use 'tfidf' or 'hashed'")
        smallest, largest = self._ngram_range()
        if not 1 <= smallest <= largest <= _MAX_NGRAM:
            raise DataError(
                f"ngram_range is {self.ngram_range}; use two numbers, 1 ≤ smallest ≤ largest ≤ "
                f"{_MAX_NGRAM}"
            )
        self._check_counts()
        self._check_stop_words()
        self._check_language()

    def _check_language(self) -> None:
        if self.word_forms not in ("stem", "lemma"):
            raise DataError(
                f"word_forms is {self.word_forms!r}; use 'stem' or 'lemma'", parameter="word_forms"
            )
        if self.language is None:
            return
        languages_of(self.language)
        if self.analyzer != "word" or not self.lowercase:
            raise DataError(
                "language is for words in lower case; it needs analyzer='word' and lowercase=True",
                parameter="language",
            )

    def _check_counts(self) -> None:
        for name in ("min_df", "max_df", "max_features", "n_features"):
            value = getattr(self, name)
            if isinstance(value, float) and name.endswith("_df"):
                if not 0 <= value <= 1:
                    raise DataError(
                        f"{name} is {value}; use a share from 0.0 to 1.0 or a whole number",
                        parameter=name,
                    )
            elif value is not None and not 1 <= value < _COUNT_LIMIT:
                raise DataError(
                    f"{name} is {value}; use a number from 1 to 2³¹ - 1", parameter=name
                )

    def _check_stop_words(self) -> None:
        words = self.stop_words
        if words is None:
            return
        if isinstance(words, str):
            are_words = words == "english" or (words == "language" and self.language is not None)
        else:
            are_words = all(type(word) is str for word in words)
        if not are_words or (words and self.analyzer == "char"):
            raise DataError(
                "stop_words must be 'english', a list of words, or 'language' where a language is "
                "set, and needs analyzer='word'",
                parameter="stop_words",
            )


def _as_count(df: int | float, n_documents: int) -> int | float:
    """A number of documents, from a number or a share of them."""
    if isinstance(df, float):
        return df * n_documents
    return df


def _as_texts(texts: Iterable[str]) -> list[str]:
    """The texts as a list; a single text, and anything that is not text, is refused."""
    if isinstance(texts, str):
        raise DataError("one text was given where a list of texts was expected; put it in a list")
    documents = list(texts)
    for row, document in enumerate(documents):
        if not isinstance(document, str):
            kind = type(document).__name__
            raise DataError(
                f"row {row} is {kind}, not text; replace missing texts by '' and convert others to "
                "str"
            )
    return documents


def is_text(X: Any) -> bool:
    """Whether X is a list, tuple, array or series of strings, one for each example."""
    if isinstance(X, str):
        return True
    if is_sparse(X) or not hasattr(X, "__len__") or len(X) == 0:
        return False
    if hasattr(X, "ndim"):
        return X.ndim == 1 and all(isinstance(x, str) for x in X)
    return isinstance(X[0], str)
