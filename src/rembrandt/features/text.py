"""Raw texts to sparse features: tf-idf over learned terms, or hashed terms that need no learning."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from rembrandt.errors import DataError
from rembrandt.features import counting, places, terms
from rembrandt.linalg.sparse import is_sparse
from rembrandt.progress import Report, silent
from rembrandt.storage.arrays import Arrays, pack_strings, unpack_strings

_CHUNK = 1 << 18  # characters worked on at a time: small arrays are reused by the allocator; nothing else depends on it
_WHITE, _WORD = re.compile(r"\s"), re.compile(r"\w+")

_NOWHERE = np.empty((0, 3), dtype=np.int64)


class TextFeatures(TransformerMixin, BaseEstimator):
    """Turn texts into rows of weighted term counts, of Euclidean length one.

    With ``weighting="tfidf"`` the weight of a term that occurs t times in a document, and in m of n training documents,
    is (1 + ln t)·(1 + ln((1 + n) / (1 + m))): what scikit-learn's ``TfidfVectorizer`` with ``sublinear_tf=True`` gives,
    several times faster. With ``"hashed"`` terms share ``n_features`` columns by hash, weigh 1 + ln t, and nothing is
    learned from the training texts.

    Parameters
    ----------
    analyzer : "word" or "char"
        Terms are words (runs of letters, digits and underscores, single letters included: "vitamin C") or character
        n-grams within words, with a space at either end of each word.
    ngram_range : (int, int), optional
        Smallest and largest number of words or characters in a term; (1, 1) for words and (3, 4) for characters.
    weighting : "tfidf" or "hashed"
    min_count : int
        Drop terms that fewer training documents hold; tf-idf only. A term seen once can say nothing about others.
    max_features : int, optional
        Keep the terms that occur most often, among equals the first in alphabetical order; tf-idf only.
    n_features : int
        Number of columns; hashed only.
    lowercase : bool
    stop_words : sequence of str, optional
        Words to leave out, before words are put together to longer terms; words only.

    Attributes
    ----------
    idf_ : array
        Each column's factor; tf-idf only.
    n_features_out_ : int

    Examples
    --------
    >>> features = TextFeatures(min_count=1).fit(["a red fox", "a red hen"])
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
        min_count: int = 2,
        max_features: int | None = None,
        n_features: int = 2**20,
        lowercase: bool = True,
        stop_words: Sequence[str] | None = None,
    ) -> None:
        self.analyzer = analyzer
        self.ngram_range = ngram_range
        self.weighting = weighting
        self.min_count = min_count
        self.max_features = max_features
        self.n_features = n_features
        self.lowercase = lowercase
        self.stop_words = stop_words

    def fit(self, texts: Iterable[str], y: Any = None, report: Report = silent) -> Self:
        """Learn the terms and their document frequencies."""
        self.fit_transform(texts, y, report)
        return self

    def fit_parts(self, parts: Iterable[Sequence[str]], report: Report = silent) -> Self:
        """Learn from texts that come in parts, one of them in memory at a time; the same as from all at once."""
        self._check_parameters()
        if self.weighting == "hashed":
            self.n_features_out_ = self.n_features
            return self
        learner = _Learner(self)
        for texts in parts:
            learner.learn(_as_texts(texts), report)
        order, self._names = learner.choose()
        self._vocabulary = counting.Vocabulary(terms.hash_each(self._names))
        self.n_features_out_ = len(order)
        self.idf_ = _idf(learner.n_documents, learner.document_frequency[order])
        return self

    def fit_transform(self, texts: Iterable[str], y: Any = None, report: Report = silent) -> sparse.csr_array:
        """Learn the terms and return the features of the same texts, in one pass over them."""
        self._check_parameters()
        documents = _as_texts(texts)
        if self.weighting == "hashed":
            self.n_features_out_ = self.n_features
            return self.transform(documents, report)

        vocabulary = counting.Vocabulary()
        parts, hashes, sightings = [], [], []
        for begin, chunk, found in self._terms(documents, report):
            numbers, new = vocabulary.learn(found.hashes)
            parts.append(counting.count(numbers, found.ends, len(vocabulary)))
            hashes.append(found.hashes[new])
            sightings.append(_sightings(found, new, chunk, begin))
        X = _as_matrix(parts, len(vocabulary))
        kept, self._names = self._choose(X, documents, np.concatenate([_NOWHERE, *sightings]))
        self._vocabulary = counting.Vocabulary(np.concatenate(hashes)[kept])
        self.n_features_out_ = len(kept)
        X = _select_columns(X, kept)
        document_frequency = np.bincount(X.indices, minlength=len(kept))
        self.idf_ = _idf(len(documents), document_frequency)
        return self._weigh(X)

    def transform(self, texts: Iterable[str], report: Report = silent) -> sparse.csr_array:
        """Return the features of the texts, one CSR row of float32 each; terms never learned are passed over."""
        check_is_fitted(self, "n_features_out_")
        parts = []
        for _, _, found in self._terms(_as_texts(texts), report):
            parts.append(counting.count(self._columns(found.hashes), found.ends, self.n_features_out_))
        X = _as_matrix(parts, self.n_features_out_)
        X.sort_indices()
        return self._weigh(X)

    def locate(self, texts: Iterable[str]) -> places.Places:
        """Return where in the texts, as they were given, the terms of each column stand."""
        check_is_fitted(self, "n_features_out_")
        documents = _as_texts(texts)
        columns, sightings = [np.empty(0, np.int32)], [_NOWHERE]
        for begin, chunk, found in self._terms(documents, silent):
            numbers = self._columns(found.hashes)
            known = np.flatnonzero(numbers >= 0)
            columns.append(numbers[known])
            sightings.append(_sightings(found, known, chunk, begin))
        return places.in_originals(documents, self.lowercase, np.concatenate(columns), np.concatenate(sightings))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return the term of each column; hashed columns have no single term and are numbered."""
        check_is_fitted(self, "n_features_out_")
        if self.weighting == "hashed":
            return np.array([f"hashed{column}" for column in range(self.n_features_out_)], dtype=object)
        return np.array(self._names, dtype=object)

    @property
    def terms_(self) -> list[str] | None:
        """The term of each column, None where they are hashed."""
        check_is_fitted(self, "n_features_out_")
        return None if self.weighting == "hashed" else self._names

    def to_config(self) -> dict[str, Any]:
        """Return the parameters as JSON-able values; with `to_arrays` they are the whole transformer."""
        config = self.get_params()
        config["ngram_range"] = None if self.ngram_range is None else list(self.ngram_range)
        config["stop_words"] = None if self.stop_words is None else list(self.stop_words)
        return config

    def to_arrays(self) -> Arrays:
        """Return what was learned as plain arrays."""
        check_is_fitted(self, "n_features_out_")
        if self.weighting == "hashed":
            return {}
        return {**pack_strings("terms", self._names), "idf": self.idf_}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], config: Mapping[str, Any]) -> Self:
        """Return the transformer that gave these arrays and this configuration."""
        ngram_range = None if config["ngram_range"] is None else tuple(config["ngram_range"])
        self = cls(**{**config, "ngram_range": ngram_range})
        self._check_parameters()
        if self.weighting == "hashed":
            self.n_features_out_ = self.n_features
            return self
        self._names = unpack_strings("terms", arrays)
        self.idf_ = np.array(arrays["idf"], dtype=np.float32)
        self.n_features_out_ = len(self._names)
        self._vocabulary = counting.Vocabulary(terms.hash_each(self._names))
        if len(self._vocabulary) != len(self._names) or len(self.idf_) != len(self._names):
            raise DataError(
                "the saved terms are not distinct, or not as many as their weights; save the features again"
            )
        return self

    def _terms(self, documents: list[str], report: Report) -> Iterator[tuple[int, list[str], terms.Terms]]:
        """Yield the number of each chunk's first document, its texts as they are analysed, and their terms."""
        smallest, largest = self._ngram_range()
        stop = None if self.stop_words is None else terms.hash_each(self.stop_words)
        for begin, end in _chunks(documents):
            texts = [text.lower() for text in documents[begin:end]] if self.lowercase else documents[begin:end]
            if self.analyzer == "char":
                yield begin, texts, terms.char_ngrams(texts, smallest, largest)
            else:
                yield begin, texts, terms.words(texts, smallest, largest, stop)
            report("reading texts", end, len(documents))

    def _columns(self, hashes: NDArray[np.uint64]) -> NDArray[np.int32]:
        """Return the column of each term, -1 for those never learned."""
        if self.weighting == "hashed":
            return ((hashes >> np.uint64(32)) % np.uint64(self.n_features)).astype(np.int32)
        return self._vocabulary.numbers(hashes)

    def _choose(
        self, X: sparse.csr_array, documents: list[str], sightings: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], list[str]]:
        """Return the columns to keep, in alphabetical order of their terms, and the terms."""
        document_frequency = np.bincount(X.indices, minlength=X.shape[1])
        kept = np.flatnonzero(document_frequency >= self.min_count)
        names = dict(zip(kept.tolist(), self._spell(documents, sightings[kept]), strict=True))
        return self._ordered(names, np.bincount(X.indices, weights=X.data, minlength=X.shape[1]), len(documents))

    def _ordered(
        self, names: dict[int, str], total: NDArray[Any], n_documents: int
    ) -> tuple[NDArray[np.int64], list[str]]:
        """The columns to keep of those with names, in alphabetical order, and the names."""
        if not names:
            raise DataError(f"no term occurs in {self.min_count} or more of the {n_documents} texts; lower min_count")
        kept = list(names)
        if self.max_features is not None and len(kept) > self.max_features:
            kept = sorted(kept, key=lambda column: (-total[column], names[column]))[: self.max_features]
        order = sorted(kept, key=names.__getitem__)
        return np.array(order), [names[column] for column in order]

    def _spell(self, documents: list[str], sightings: NDArray[np.int64]) -> list[str]:
        """Return the terms that were sighted at (document, start, stop)."""
        stop = frozenset(self.stop_words or ())
        spelled = []
        lowered, text = -1, ""
        for document, start, end in sightings.tolist():
            if document != lowered:  # many terms are first seen in the same document
                lowered, text = document, documents[document].lower() if self.lowercase else documents[document]
            if self.analyzer == "char":  # the padding around a word may stand for any white space, or for none
                spelled.append(_WHITE.sub(" ", f" {text} "[start + 1 : end + 1]))
            else:
                spelled.append(" ".join(word for word in _WORD.findall(text[start:end]) if word not in stop))
        return spelled

    def _weigh(self, X: sparse.csr_array) -> sparse.csr_array:
        weights = X.data.astype(np.float32)
        factors = np.ones(X.shape[1], dtype=np.float32) if self.weighting == "hashed" else self.idf_
        counting.weigh(X.indptr[1:], X.indices, weights, factors)
        return sparse.csr_array((weights, X.indices, X.indptr), shape=X.shape)

    def _ngram_range(self) -> tuple[int, int]:
        return self.ngram_range or ((1, 1) if self.analyzer == "word" else (3, 4))

    def _check_parameters(self) -> None:
        if self.analyzer not in ("word", "char"):
            raise DataError(f"analyzer is {self.analyzer!r}; use 'word' or 'char'")
        if self.weighting not in ("tfidf", "hashed"):
            raise DataError(f"weighting is {self.weighting!r}; use 'tfidf' or 'hashed'")
        smallest, largest = self._ngram_range()
        if not 1 <= smallest <= largest:
            raise DataError(f"ngram_range is {self.ngram_range}; use two numbers, 1 ≤ smallest ≤ largest")
        for name in ("min_count", "max_features", "n_features"):
            value = getattr(self, name)
            if value is not None and not 1 <= value < 2**31:
                raise DataError(f"{name} is {value}; use a number from 1 to 2³¹ - 1")
        if self.stop_words is not None and (self.analyzer == "char" or isinstance(self.stop_words, str)):
            raise DataError("stop_words must be a list of words, and go with analyzer='word' only")


class _Learner:
    """The terms of texts that are seen once: a term is spelled in the part where it has occurred often enough."""

    def __init__(self, features: TextFeatures) -> None:
        self.features = features
        self.vocabulary = counting.Vocabulary()
        self.n_documents = 0
        self.document_frequency = np.zeros(0, dtype=np.int64)
        self.total = np.zeros(0)
        self.names: dict[int, str] = {}

    def learn(self, documents: list[str], report: Report) -> None:
        features, least = self.features, self.features.min_count
        for begin, chunk, found in features._terms(documents, report):
            numbers, _ = self.vocabulary.learn(found.hashes)
            counts = counting.count(numbers, found.ends, len(self.vocabulary))
            if len(self.vocabulary) > len(self.total):  # doubled, so that all the growing costs no more than one copy
                more = (0, 2 * len(self.vocabulary) - len(self.total))
                self.document_frequency, self.total = np.pad(self.document_frequency, more), np.pad(self.total, more)
            seen, places = np.unique(numbers, return_index=True)
            at = np.searchsorted(seen, counts.columns)
            before = self.document_frequency[seen]
            after = before + np.bincount(at, minlength=len(seen))
            self.document_frequency[seen] = after
            self.total[seen] += np.bincount(at, weights=counts.counts, minlength=len(seen))
            often = (before < least) & (after >= least)
            sightings = _sightings(found, places[often], chunk, begin)
            order = np.argsort(sightings[:, 0], kind="stable")
            spelled = features._spell(documents, sightings[order])
            self.names.update(zip(seen[often][order].tolist(), spelled, strict=True))
        self.n_documents += len(documents)

    def choose(self) -> tuple[NDArray[np.int64], list[str]]:
        return self.features._ordered(self.names, self.total, self.n_documents)


def _idf(n_documents: int, document_frequency: NDArray[np.int64]) -> NDArray[np.float32]:
    return (np.log((1 + n_documents) / (1 + document_frequency)) + 1).astype(np.float32)


def _as_texts(texts: Iterable[str]) -> list[str]:
    """Return the texts as a list, refusing a single text and anything that is not text."""
    if isinstance(texts, str):
        raise DataError("one text was given where a list of texts was expected; put it in a list")
    documents = list(texts)
    if not {*map(type, documents)} <= {str}:
        for row, document in enumerate(documents):
            if not isinstance(document, str):
                kind = type(document).__name__
                raise DataError(f"row {row} is {kind}, not text; replace missing texts by '' and convert others to str")
    return documents


def _chunks(documents: list[str]) -> Iterator[tuple[int, int]]:
    """Yield (begin, end) of runs of documents with about `_CHUNK` characters each."""
    total = np.cumsum(np.fromiter(map(len, documents), dtype=np.int64, count=len(documents)))
    begin = 0
    while begin < len(documents):
        before = total[begin - 1] if begin else 0
        end = max(begin + 1, int(np.searchsorted(total, before + _CHUNK, side="right")))
        yield begin, end
        begin = end


def _sightings(found: terms.Terms, places: NDArray[np.int64], texts: list[str], begin: int) -> NDArray[np.int64]:
    """Return (document, start, stop) of the terms at these places, start and stop counted within the document."""
    document = np.searchsorted(found.ends, places, side="right")
    lengths = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
    origin = (np.cumsum(lengths) - lengths)[document]
    return np.column_stack([document + begin, found.starts[places] - origin, found.stops[places] - origin])


def _as_matrix(parts: list[counting.Counts], n_columns: int) -> sparse.csr_array:
    """Return the counts of consecutive chunks as one matrix."""
    parts = parts or [counting.Counts(np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.int32))]
    sizes = np.cumsum([0, *(len(part.columns) for part in parts)])
    ends: NDArray[np.int64] = np.concatenate(
        [[0], *(part.ends + size for part, size in zip(parts, sizes[:-1], strict=True))]
    )
    columns = np.concatenate([part.columns for part in parts])
    counts = np.concatenate([part.counts for part in parts])
    shape = (len(ends) - 1, n_columns)
    return sparse.csr_array((counts, columns, ends), shape=shape)


def _select_columns(X: sparse.csr_array, kept: NDArray[np.int64]) -> sparse.csr_array:
    """Return X[:, kept] with sorted rows, on the memory of X."""
    renumbered = np.full(X.shape[1], -1, dtype=np.int32)
    renumbered[kept] = np.arange(len(kept), dtype=np.int32)
    size = counting.select(X.indptr[1:], X.indices, X.data, renumbered)
    selected = sparse.csr_array((X.data[:size], X.indices[:size], X.indptr), shape=(X.shape[0], len(kept)))
    selected.sort_indices()
    return selected


def is_text(X: Any) -> bool:
    """A list, tuple, array or series of strings, one for each example."""
    if is_sparse(X) or isinstance(X, str) or not hasattr(X, "__len__") or len(X) == 0:
        return isinstance(X, str)
    if hasattr(X, "ndim"):
        return X.ndim == 1 and all(isinstance(x, str) for x in X)
    return isinstance(X[0], str)
