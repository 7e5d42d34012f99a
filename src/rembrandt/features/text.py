"""Texts to sparse features: tf-idf over learned terms, or hashed terms that need no learning."""

import operator
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS
from sklearn.utils.validation import check_is_fitted

from rembrandt.errors import DataError
from rembrandt.features import counting, spans, terms
from rembrandt.features.encoder import MissingEncoder, encoded, name_of
from rembrandt.linalg.sparse import as_csr, is_sparse
from rembrandt.progress import Report, silent
from rembrandt.storage.arrays import Arrays, checked, pack_strings, positive, unpack_strings

_CHUNK = (
    1 << 18
)  # characters at a time, so that the allocator reuses small arrays; results do not depend on it
_WHITE, _WORD = re.compile(r"\s"), re.compile(r"\w+")


class TextFeatures(TransformerMixin, BaseEstimator):
    """Turn texts into rows of weighted term counts with unit Euclidean length.

    With ``weighting="tfidf"``, a term that occurs t times in a document, and in m of n training
    documents, has the weight (1 + ln t)·(1 + ln((1 + n) / (1 + m))). That is what scikit-learn's
    ``TfidfVectorizer`` computes with ``sublinear_tf=True``, several times faster. With
    ``weighting="hashed"``, terms share ``n_features`` columns by their hash, have the weight 1 + ln
    t, and nothing is learned from the training texts.

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
    stop_words : "english" or sequence of str, default=None
        Words to remove before n-grams are formed; words only. "english" is the list of
        scikit-learn.
    encoder : object, default=None
        Anything with ``encode(list of str)`` that returns a vector for each text, as models of
        sentence-transformers and model2vec have. Its vectors are more columns, with the same
        strength as the terms. A saved model keeps the name of the encoder and its width, not its
        weights; see `set_encoder`.

    Attributes
    ----------
    n_features_out_ : int
        Number of columns.
    n_encoded_ : int
        Number of columns, the last ones, that are vectors of the encoder.
    idf_ : ndarray of shape (n_features_out_,)
        The factor 1 + ln((1 + n) / (1 + m)) of each column; tf-idf only.
    terms_ : list of str or None
        The term of each column, in alphabetical order; None if terms are hashed.

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
        stop_words: Literal["english"] | Sequence[str] | None = None,
        encoder: Any = None,
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
        self.encoder = encoder

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
        if self.weighting == "hashed":
            self._set(None, None)
            return self
        learner = _Learner(self)
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
        learner = _Learner(self)
        counts = list(learner.counts(documents, report))
        X = self._weigh(counting.as_matrix(counts, len(learner.vocabulary))[:, self._take(learner)])
        return self._with_vectors(X, documents)

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
        n, documents = self.n_features_out_ - self.n_encoded_, _as_texts(texts)
        found = (part.terms for part in self._analyzed(documents, report))
        X = self._weigh(
            counting.as_matrix(
                [counting.count(self._columns(t.hashes), t.ends, n)[0] for t in found], n
            )
        )
        return self._with_vectors(X, documents)

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
        columns, found = [np.empty(0, np.int32)], [np.empty((0, 3), np.int64)]
        for part in self._analyzed(documents, silent):
            numbers = self._columns(part.terms.hashes)
            known = np.flatnonzero(numbers >= 0)
            columns.append(numbers[known])
            found.append(part.spans(known) + np.array([part.begin, 0, 0]))
        return spans.in_originals(
            documents, self.lowercase, np.concatenate(columns), np.concatenate(found)
        )

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
        own = self.terms_ or [f"hashed{i}" for i in range(self.n_features_out_ - self.n_encoded_)]
        return np.array([*own, *(f"encoder {i}" for i in range(self.n_encoded_))], dtype=object)

    def set_encoder(self, encoder: Any) -> Self:
        """Give a loaded transformer the encoder that it was fitted with; its vectors must have the
        same width.

        Parameters
        ----------
        encoder : object
            The encoder, with ``encode(list of str)``.

        Returns
        -------
        self : TextFeatures
        """
        check_is_fitted(self, "n_features_out_")
        if not self.n_encoded_:
            raise DataError(
                "the texts were fitted without an encoder; leave it out", parameter="encoder"
            )
        encoded(encoder, ["text"], self.n_encoded_)
        self.encoder = encoder
        return self

    def to_config(self) -> dict[str, Any]:
        """Return the parameters as JSON values; with `to_arrays` they are the whole transformer."""
        config, sequences = (
            self.get_params(deep=False),
            ("ngram_range", "stop_words"),
        )  # which JSON holds as lists
        if self.encoder is not None:
            config["encoder"] = {"name": name_of(self.encoder), "width": self.n_encoded_}
        lists = {name: config[name] for name in sequences if config[name] is not None}
        return config | {
            name: given if isinstance(given, str) else list(given) for name, given in lists.items()
        }

    def to_arrays(self) -> Arrays:
        """Return what was learned as arrays."""
        check_is_fitted(self, "n_features_out_")
        return (
            {} if self.terms_ is None else pack_strings("terms", self.terms_) | {"idf": self.idf_}
        )

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], config: Mapping[str, Any]) -> Self:
        """Return the transformer that `to_arrays` and `to_config` describe."""
        known = {
            "min_df" if name == "min_count" else name: value for name, value in config.items()
        }  # its former name
        ngram_range = (
            None
            if known["ngram_range"] is None
            else tuple(map(operator.index, known["ngram_range"]))
        )
        given = known.get("encoder")
        encoder = (
            None
            if given is None
            else MissingEncoder(str(given["name"]), positive(given["width"], int))
        )
        self = cls(**{**known, "ngram_range": ngram_range, "encoder": encoder})
        if self.weighting == "hashed":
            return self.fit([])
        self._check_parameters()
        self._set(
            unpack_strings("terms", arrays),
            np.array(checked("idf", arrays, (None,), "f", 0), dtype=np.float32),
        )
        if not len(self._vocabulary) == len(self.idf_) == self.n_features_out_ - self.n_encoded_:
            raise DataError(
                "the saved terms are not distinct, or not as many as their weights; save the "
                "features again"
            )
        return self

    def _set(self, names: list[str] | None, idf: NDArray[np.float32] | None) -> None:
        """Set the terms, None for hashed ones, and the number of columns."""
        self.terms_, n = names, self.n_features
        if names is not None and idf is not None:
            self.idf_, n = idf, len(names)
            self._vocabulary = counting.Vocabulary(terms.hash_each(names))
        known = self.encoder.width if isinstance(self.encoder, MissingEncoder) else None
        self.n_encoded_ = (
            0 if self.encoder is None else known or encoded(self.encoder, ["text"]).shape[1]
        )
        self.n_features_out_ = n + self.n_encoded_

    def _with_vectors(self, X: sparse.csr_array, documents: list[str]) -> sparse.csr_array:
        """Append the vectors of the encoder; terms and vectors then have half of the squared length
        each.
        """
        if not self.n_encoded_:
            return X
        both: Any = [X, sparse.csr_array(encoded(self.encoder, documents, self.n_encoded_))]
        return as_csr(sparse.hstack(both, format="csr") * np.float32(0.5**0.5))

    def _take(self, learner: "_Learner") -> NDArray[np.int64]:
        """Keep the terms that the parameters ask for; returns their numbers in the vocabulary of
        the learner.
        """
        names, (frequencies, totals), n = learner.names, learner.statistics, learner.n_documents
        least, most = (df * n if isinstance(df, float) else df for df in (self.min_df, self.max_df))
        kept = [column for column in names if least <= frequencies[column] <= most]
        if not kept:
            found = (
                f"no term occurs in {self.min_df} or more and {self.max_df} or less of the {n} "
                "texts"
            )
            raise DataError(
                f"{found}; lower min_df or raise max_df", parameter=("min_df", "max_df")
            )
        if self.max_features is not None and len(kept) > self.max_features:
            kept = sorted(kept, key=lambda column: (-totals[column], names[column]))[
                : self.max_features
            ]
        columns = np.array(sorted(kept, key=names.__getitem__))
        idf = np.log((1 + learner.n_documents) / (1 + frequencies[columns])) + 1
        self._set([names[column] for column in columns.tolist()], idf.astype(np.float32))
        return columns

    def _analyzed(self, documents: list[str], report: Report) -> Iterator["_Analyzed"]:
        """Find the terms of documents, chunk after chunk."""
        sizes = self._ngram_range()
        stop = None if self.stop_words is None else terms.hash_each(self._stop_words())
        for begin, end in counting.chunks(documents, _CHUNK):
            texts = (
                [text.lower() for text in documents[begin:end]]
                if self.lowercase
                else documents[begin:end]
            )
            found = (
                terms.char_ngrams(texts, *sizes)
                if self.analyzer == "char"
                else terms.words(texts, *sizes, stop)
            )
            yield _Analyzed(begin, texts, found)
            report("reading texts", end, len(documents))

    def _columns(self, hashes: NDArray[np.uint64]) -> NDArray[np.int32]:
        """The column of each term, -1 for unknown ones."""
        if self.weighting == "hashed":
            return ((hashes >> np.uint64(32)) % np.uint64(self.n_features)).astype(np.int32)
        return self._vocabulary.numbers(hashes)

    def _weigh(self, X: sparse.csr_array) -> sparse.csr_array:
        X.sort_indices()
        weights = X.data.astype(np.float32)
        factors = np.ones(X.shape[1], dtype=np.float32) if self.weighting == "hashed" else self.idf_
        counting.weigh(X.indptr[1:], X.indices, weights, factors)
        return sparse.csr_array((weights, X.indices, X.indptr), shape=X.shape)

    def _stop_words(self) -> list[str]:
        return (
            sorted(ENGLISH_STOP_WORDS)
            if self.stop_words == "english"
            else list(self.stop_words or ())
        )

    def _ngram_range(self) -> tuple[int, int]:
        return self.ngram_range or ((1, 1) if self.analyzer == "word" else (3, 4))

    def _check_parameters(self) -> None:
        usable = callable(getattr(self.encoder, "encode", None)) and not isinstance(
            self.encoder, str
        )
        if self.encoder is not None and not usable:
            expected = "an object with encode(list of str), such as load_encoder(NAME)"
            raise DataError(f"encoder is {self.encoder!r}; give {expected}", parameter="encoder")
        if self.analyzer not in ("word", "char"):
            raise DataError(f"analyzer is {self.analyzer!r}; use 'word' or 'char'")
        if self.weighting not in ("tfidf", "hashed"):
            raise DataError(f"weighting is {self.weighting!r}; use 'tfidf' or 'hashed'")
        smallest, largest = self._ngram_range()
        if not 1 <= smallest <= largest <= 100:
            raise DataError(
                f"ngram_range is {self.ngram_range}; use two numbers, 1 ≤ smallest ≤ largest ≤ 100"
            )
        for name in ("min_df", "max_df", "max_features", "n_features"):
            value = getattr(self, name)
            if isinstance(value, float) and name.endswith("_df"):
                if not 0 <= value <= 1:
                    raise DataError(
                        f"{name} is {value}; use a share from 0.0 to 1.0 or a whole number",
                        parameter=name,
                    )
            elif value is not None and not 1 <= value < 2**31:
                raise DataError(
                    f"{name} is {value}; use a number from 1 to 2³¹ - 1", parameter=name
                )
        words = () if self.stop_words in (None, "english") else self.stop_words
        if (
            isinstance(words, str)
            or {*map(type, words)} - {str}
            or (self.stop_words and self.analyzer == "char")
        ):
            message = "stop_words must be 'english' or a list of words, and needs analyzer='word'"
            raise DataError(message, parameter="stop_words")


class _Analyzed(NamedTuple):
    """Consecutive documents: the number of the first, their texts as they are analysed, and their
    terms.
    """

    begin: int
    texts: list[str]
    terms: terms.Terms

    def spans(self, which: NDArray[np.int64]) -> NDArray[np.int64]:
        """(document, start, stop) of some of the terms, counted within these documents and within
        each.
        """
        document = np.searchsorted(self.terms.ends, which, side="right")
        lengths = np.fromiter(map(len, self.texts), dtype=np.int64, count=len(self.texts))
        origin = (np.cumsum(lengths) - lengths)[document]
        return np.column_stack(
            [document, self.terms.starts[which] - origin, self.terms.stops[which] - origin]
        )


class _Learner:
    """Counts the terms of texts that are seen once; a term is spelled where it reaches ``min_df``
    documents.

    If ``min_df`` is a share, the number is known only at the end, so every term is spelled.
    """

    def __init__(self, features: TextFeatures) -> None:
        self.features, self.stop_words = features, frozenset(features._stop_words())
        self.least = 1 if isinstance(features.min_df, float) else features.min_df
        self.vocabulary = counting.Vocabulary()
        self.n_documents = 0
        self.statistics = np.zeros(
            (2, 0)
        )  # document frequency and number of occurrences of each term
        self.names: dict[int, str] = {}  # of the terms that occur often enough

    def counts(self, documents: list[str], report: Report) -> Iterator[counting.Counts]:
        """Learn from documents, chunk after chunk, and yield the counts of each."""
        for part in self.features._analyzed(documents, report):
            numbers = self.vocabulary.learn(part.terms.hashes)
            counts, first = counting.count(numbers, part.terms.ends, len(self.vocabulary))
            missing = len(self.vocabulary) - self.statistics.shape[1]
            if (
                missing > 0
            ):  # at least doubled, so that all copies together cost no more than the last one
                self.statistics = np.pad(
                    self.statistics, ((0, 0), (0, len(self.vocabulary) + missing))
                )
            reached = counting.tally(counts.columns, counts.counts, self.statistics, self.least)
            found = part.spans(first[reached]).tolist()
            spelled = (
                self._spell(part.texts[document], start, stop) for document, start, stop in found
            )
            self.names.update(zip(counts.columns[reached].tolist(), spelled, strict=True))
            yield counts
        self.n_documents += len(documents)

    def _spell(self, text: str, start: int, stop: int) -> str:
        """The term at a span of an analysed text."""
        if (
            self.features.analyzer == "char"
        ):  # the padding around a word may be any white space, or the end of the text
            return _WHITE.sub(" ", f" {text} "[start + 1 : stop + 1])
        return " ".join(
            word for word in _WORD.findall(text[start:stop]) if word not in self.stop_words
        )


def _as_texts(texts: Iterable[str]) -> list[str]:
    """The texts as a list; a single text, and anything that is not text, is refused."""
    if isinstance(texts, str):
        raise DataError("one text was given where a list of texts was expected; put it in a list")
    documents = list(texts)
    wrong = next(
        (row for row, document in enumerate(documents) if not isinstance(document, str)), None
    )
    if wrong is not None:
        kind = type(documents[wrong]).__name__
        raise DataError(
            f"row {wrong} is {kind}, not text; replace missing texts by '' and convert others to "
            "str"
        )
    return documents


def is_text(X: Any) -> bool:
    """Whether X is a list, tuple, array or series of strings, one for each example."""
    if is_sparse(X) or isinstance(X, str) or not hasattr(X, "__len__") or len(X) == 0:
        return isinstance(X, str)
    if hasattr(X, "ndim"):
        return X.ndim == 1 and all(isinstance(x, str) for x in X)
    return isinstance(X[0], str)
