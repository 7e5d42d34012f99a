"""Inverted lists of the terms in names and descriptions of labels, and how well a text matches."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.features.counting import Vocabulary
from rembrandt.kernels import inner_kernel, kernel
from rembrandt.linalg import Array
from rembrandt.linalg.blocks import spans
from rembrandt.linalg.selection import nth_smallest
from rembrandt.linalg.sparse import as_csr, row_sums_of_squares, scale_rows
from rembrandt.linalg.threads import Workspace, for_each
from rembrandt.parts.names.label_texts import LabelTexts
from rembrandt.parts.names.stems import StemFrequencies
from rembrandt.parts.names.terms import (
    PAIR,
    STEM,
    WORD,
    Spelled,
    TextTerms,
    count_terms,
    spell,
    stems_of,
)

# Labels of a text that are kept, those that match best.
MAX_MATCHES = 100
# Texts that are matched by one call.
CALL_ROWS = 64

# What is known of a match; the last one is of a label, the others of one of its names.
FEATURE_NAMES = (
    "share of the stems",
    "share of the words",
    "share of the pairs of stems",
    "whether all stems occur",
    "rarity of the stems",
    "few names have the stems",
    "length of the name",
    "how early it is",
    "labels with the same name",
    "whether all stems occur, times their rarity",
    "cosine of the texts",
    "cosine of the texts, squared",
)
N_FEATURES = len(FEATURE_NAMES)
# Of a logistic model before any is learned, the bias at the end.
FIRST_WEIGHTS = np.array([2, 1, 1, 1, 1, 0.5, 0, 0, 0, 1, 4, 4, -8], dtype=np.float64)
# Sums that are kept for each name while a text is read: shares of stems, words and pairs,
# ambiguity, and the earliest position.
_SUMS = 5
# Rarities and ambiguities divided by it are of order one.
_LOG_SCALE = 10.0
_NEARLY_ALL = 0.999


# Types of what a compiled match reads: `TextTerms`, facts about terms, `Lists`, and the names of
# labels; and of what it writes for one text.
_TERMS = "Tuple((int64[::1], int32[::1], int32[::1], int32[::1]))"
_OF_TERMS = "Tuple((uint8[::1], float32[::1], float32[::1]))"
_LISTS = "Tuple((int64[::1], int32[::1], float32[::1]))"
_NAMES = "Tuple((int64[::1], int64[::1], float32[:,::1]))"
_SUMMED = "Tuple((float32[:,::1], float32[::1], boolean[::1]))"
_SCORED = "Tuple((int64[::1], int64[::1], float64[::1], float64[::1]))"


class Lists(NamedTuple):
    """An inverted index: for each term the names or labels that have it, with a value."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    values: NDArray[np.float32]


class Matches(NamedTuple):
    """The labels of each text that match best, -1 where there are fewer."""

    labels: NDArray[np.int64]  # n × m, ascending in each row, -1 last
    log_odds: Array  # n × m
    features: Array  # n × m × features, or n × m × 0 if they are not asked for


@dataclass(frozen=True)
class NameIndex:
    """The terms of all names and descriptions."""

    vocabulary: Vocabulary
    kinds: NDArray[np.uint8]  # of each term
    rarities: NDArray[np.float32]
    ambiguities: NDArray[np.float32]
    in_names: Lists
    in_texts: Lists  # names and descriptions of a label together
    name_starts: NDArray[np.int64]  # of each label, among the names
    name_facts: NDArray[np.float32]  # names × (total rarity, length, same names, number of pairs)

    @property
    def n_labels(self) -> int:
        return len(self.name_starts) - 1

    @classmethod
    def of(cls, texts: LabelTexts, frequencies: StemFrequencies) -> "NameIndex":
        """Build the index."""
        spelled = spell(texts.names)
        described = stems_of(spell(texts.descriptions))
        vocabulary = Vocabulary(spelled.keys)
        vocabulary.learn(described.keys)
        n_terms = len(vocabulary)
        numbers = vocabulary.numbers(spelled.keys)
        kinds = np.full(n_terms, STEM, dtype=np.uint8)
        kinds[numbers] = spelled.kinds
        keys = np.zeros(n_terms, dtype=np.uint64)
        keys[numbers] = spelled.keys
        keys[vocabulary.numbers(described.keys)] = described.keys
        rarities = frequencies.rarities(keys)
        incidence = _incidence(spelled, numbers, len(texts.names), rarities)
        n_names = len(texts.names)
        document_counts = np.bincount(incidence[STEM].indices, minlength=n_terms)
        shares = sum(scale_rows(matrix, _inverse_sums(matrix)) for matrix in incidence.values())
        stems = incidence[STEM]
        facts = np.column_stack(
            [
                stems.sum(axis=1),
                np.log1p(np.diff(stems.indptr)),
                _log_same(spelled, texts),
                np.diff(incidence[PAIR].indptr),
            ]
        )
        return cls(
            vocabulary=vocabulary,
            kinds=kinds,
            rarities=rarities.astype(np.float32),
            ambiguities=np.log1p(n_names / np.maximum(document_counts, 1)).astype(np.float32),
            in_names=_lists(shares),
            in_texts=_lists(_label_vectors(texts, spelled, described, vocabulary, rarities)),
            name_starts=np.searchsorted(texts.labels, np.arange(texts.n_labels + 1)),
            name_facts=facts.astype(np.float32),
        )

    def match(
        self,
        spelled: Spelled,
        weights: Array,
        n_matches: int,
        with_features: bool = False,
    ) -> Matches:
        """Return the best labels of each text by a logistic model of the features of a match."""
        terms = count_terms(spelled, self.vocabulary)
        n = len(terms.indptr) - 1
        width = max(1, min(n_matches, self.n_labels))
        labels = np.full((n, width), -1, dtype=np.int64)
        log_odds = np.full((n, width), -np.inf)
        features = np.zeros((n, width, N_FEATURES if with_features else 0), dtype=np.float32)
        n_names = np.diff(self.name_starts)
        label_of_name = np.repeat(np.arange(self.n_labels), n_names)
        names = (self.name_starts, label_of_name, self.name_facts)
        of_terms = (self.kinds, self.rarities, self.ambiguities)
        space = Workspace(self._room)

        def fill(span: slice) -> None:
            with space.borrowed() as (sums, scored):
                _match(
                    tuple(terms),
                    span.start,
                    of_terms,
                    tuple(self.in_names),
                    tuple(self.in_texts),
                    names,
                    weights,
                    sums,
                    scored,
                    labels[span],
                    log_odds[span],
                    features[span],
                )

        for_each(fill, ((span,) for span in spans(n, CALL_ROWS)))
        return Matches(labels, log_odds, features)

    def _room(self) -> tuple[Any, Any]:
        """Return arrays for one text: sums, which begin with zeros, and what is written first."""
        sums = (
            np.zeros((len(self.name_facts), _SUMS), dtype=np.float32),
            np.zeros(self.n_labels, dtype=np.float32),
            np.zeros(self.n_labels, dtype=np.bool_),
        )
        scored = (
            np.empty(self.n_labels, dtype=np.int64),
            np.empty(self.n_labels, dtype=np.int64),
            np.empty(self.n_labels, dtype=np.float64),
            np.empty(self.n_labels, dtype=np.float64),
        )
        return sums, scored


def _incidence(
    spelled: Spelled, numbers: NDArray[np.int32], n_names: int, rarities: Array
) -> dict[int, Any]:
    """Return a matrix (names × terms) of each kind of term: stems and words have the rarity of the
    stem, pairs have one.
    """
    n_terms = len(rarities)
    names = np.searchsorted(spelled.ends, np.arange(len(numbers)), side="right")
    stem_numbers = np.where(spelled.kinds == WORD, np.roll(numbers, 1), numbers)
    matrices = {}
    for kind in (STEM, WORD, PAIR):
        chosen = np.flatnonzero(spelled.kinds == kind)
        pairs = names[chosen].astype(np.int64) * n_terms + numbers[chosen]
        distinct, first = np.unique(pairs, return_index=True)
        values = np.ones(len(distinct))
        if kind != PAIR:
            values = rarities[stem_numbers[chosen[first]]]
        at = (distinct // max(1, n_terms), distinct % max(1, n_terms))
        matrices[kind] = as_csr(sparse.coo_array((values, at), shape=(n_names, n_terms)))
    return matrices


def _inverse_sums(matrix: Any) -> Array:
    sums = np.asarray(matrix.sum(axis=1)).ravel()
    return 1 / np.where(sums > 0, sums, 1)


def _log_same(spelled: Spelled, texts: LabelTexts) -> Array:
    """Return the logarithm of the number of labels that have each name."""
    n_names = len(texts.names)
    stems = stems_of(spelled)
    names = np.searchsorted(stems.ends, np.arange(len(stems.keys)), side="right")
    # Equal sequences of stems have equal sums of mixed keys; others hardly ever.
    mixed = stems.keys * (2 * stems.positions.astype(np.uint64) + np.uint64(1))
    sums = np.zeros(n_names, dtype=np.uint64)
    np.add.at(sums, names, mixed)
    pairs = np.unique(np.stack([sums, texts.labels.astype(np.uint64)]), axis=1)
    keys, counts = np.unique(pairs[0], return_counts=True)
    return np.log(counts[np.searchsorted(keys, sums)]) if n_names else np.zeros(0)


def _label_vectors(
    texts: LabelTexts,
    spelled: Spelled,
    described: Spelled,
    vocabulary: Vocabulary,
    rarities: Array,
) -> sparse.csr_array:
    """Return the unit vector of the stems in all texts of each label, labels × terms."""
    shape = (texts.n_labels, len(vocabulary))
    counts = _as_matrix(count_terms(described, vocabulary), shape)
    names = count_terms(stems_of(spelled), vocabulary)
    of_names = _as_matrix(names, (len(texts.names), len(vocabulary)))
    ones = np.ones(len(texts.names), dtype=np.float32)
    at = (texts.labels, np.arange(len(texts.names)))
    membership = sparse.csr_array((ones, at), shape=(texts.n_labels, len(texts.names)))
    total = as_csr(counts + membership @ of_names)
    total.data = (1 + np.log(total.data)) * rarities[total.indices]
    squares = row_sums_of_squares(total)
    lengths = np.sqrt(np.where(squares > 0, squares, 1))
    return as_csr(scale_rows(total, 1 / lengths))


def _as_matrix(terms: TextTerms, shape: tuple[int, int]) -> Any:
    counts = terms.counts.astype(np.float64)
    return sparse.csr_array((counts, terms.numbers, terms.indptr), shape=shape)


def _lists(matrix: Any) -> Lists:
    """Return the lists of the columns of a matrix."""
    by_term = as_csr(matrix.T)
    return Lists(
        by_term.indptr.astype(np.int64),
        by_term.indices.astype(np.int32),
        by_term.data.astype(np.float32),
    )


@kernel(
    f"void({_TERMS}, int64, {_OF_TERMS}, {_LISTS}, {_LISTS}, {_NAMES}, float64[::1], {_SUMMED}, "
    f"{_SCORED}, int64[:,::1], float64[:,::1], float32[:,:,::1])"
)
def _match(
    terms: Any,
    start: int,
    of_terms: Any,
    in_names: Any,
    in_texts: Any,
    names: Any,
    weights: Any,
    sums: Any,
    scored: Any,
    labels: Any,
    log_odds: Any,
    features: Any,
) -> None:
    """Fill the best labels of as many texts from ``start`` on as ``labels`` has rows.

    ``sums`` holds zeros, and is restored.
    """
    of_names, cosines, is_touched = sums
    touched, best_names, scores, ordered = scored
    name_starts, _, name_facts = names
    for row in range(labels.shape[0]):
        n_touched, length = _add_text(
            terms, start + row, of_terms, in_names, in_texts, names, sums, touched
        )
        for i in range(n_touched):
            label = touched[i]
            cosine = cosines[label] / length
            scores[i], best_names[i] = _best_name(label, cosine, of_names, names, weights)
        n_best = _best(scores, touched, ordered, n_touched, labels[row])
        for at in range(n_best):
            i = labels[row, at]
            label = touched[i]
            labels[row, at] = label
            log_odds[row, at] = scores[i]
            if features.shape[2] > 0:
                cosine = cosines[label] / length
                values = _features(best_names[i], of_names, name_facts, cosine)
                for number in range(N_FEATURES):
                    features[row, at, number] = values[number]
        for i in range(n_touched):
            label = touched[i]
            cosines[label] = 0
            is_touched[label] = False
            for name in range(name_starts[label], name_starts[label + 1]):
                for number in range(of_names.shape[1]):
                    of_names[name, number] = 0


@inner_kernel()
def _add_text(
    terms: Any,
    text: int,
    of_terms: Any,
    in_names: Any,
    in_texts: Any,
    names: Any,
    sums: Any,
    touched: Any,
) -> Any:
    """Add up the lists of the terms of a text; return how many labels have one of its stems, and
    the length of the vector of its stems.
    """
    indptr, numbers, counts, positions = terms
    kinds, rarities, ambiguities = of_terms
    name_ends, names_with, name_shares = in_names
    text_ends, labels_with, text_weights = in_texts
    label_of_name = names[1]
    of_names, cosines, is_touched = sums
    n_touched = 0
    squares = 0.0
    for i in range(indptr[text], indptr[text + 1]):
        term = numbers[i]
        kind = kinds[term]
        for at in range(name_ends[term], name_ends[term + 1]):
            of_names[names_with[at], kind] += name_shares[at]
        if kind != STEM:
            continue
        early = np.float32(1) / np.float32(1 + positions[i])
        for at in range(name_ends[term], name_ends[term + 1]):
            name = names_with[at]
            of_names[name, 3] += ambiguities[term]
            of_names[name, 4] = max(of_names[name, 4], early)
            n_touched = _touch(label_of_name[name], is_touched, touched, n_touched)
        weight = (1 + np.log(np.float32(counts[i]))) * rarities[term]
        squares += weight * weight
        for at in range(text_ends[term], text_ends[term + 1]):
            label = labels_with[at]
            cosines[label] += weight * text_weights[at]
            n_touched = _touch(label, is_touched, touched, n_touched)
    length = np.sqrt(squares) if squares > 0 else 1.0
    return n_touched, length


@kernel(inline="always")
def _touch(label: Any, is_touched: Any, touched: Any, n_touched: Any) -> Any:
    """Remember a label, once; return how many there are."""
    if not is_touched[label]:
        is_touched[label] = True
        touched[n_touched] = label
        n_touched += 1
    return n_touched


@inner_kernel()
def _best_name(label: Any, cosine: Any, sums: Any, names: Any, weights: Any) -> Any:
    """Return the log-odds of the best name of a label, and its number; -1 if it has none."""
    name_starts, _, name_facts = names
    first = name_starts[label]
    last = name_starts[label + 1]
    if first == last:
        return _linear(_features(-1, sums, name_facts, cosine), weights), -1
    best = first
    score = -np.inf
    for name in range(first, last):
        of_name = _linear(_features(name, sums, name_facts, cosine), weights)
        if of_name > score:
            score = of_name
            best = name
    return score, best


@inner_kernel()
def _features(name: Any, sums: Any, name_facts: Any, cosine: Any) -> Any:
    """Return the features of a name; -1 stands for a label that has a description alone.

    A tuple stays in registers, where an array would be written and read for every name.
    """
    zero = np.float32(0)
    squared = np.float32(cosine * cosine)
    cosine = np.float32(cosine)
    if name < 0:
        return (zero, zero, zero, zero, zero, zero, zero, zero, zero, zero, cosine, squared)
    share = sums[name, 0]
    of_pairs = share
    if name_facts[name, 3] > 0:
        of_pairs = sums[name, 2]
    rarity = share * name_facts[name, 0] / np.float32(_LOG_SCALE)
    is_whole = np.float32(share > _NEARLY_ALL)
    return (
        share,
        sums[name, 1],
        of_pairs,
        is_whole,
        rarity,
        sums[name, 3] / np.float32(_LOG_SCALE),
        name_facts[name, 1],
        sums[name, 4],
        name_facts[name, 2],
        is_whole * rarity,
        cosine,
        squared,
    )


@inner_kernel()
def _linear(values: Any, weights: Any) -> Any:
    total = weights[-1]
    for i in range(N_FEATURES):
        total += weights[i] * values[i]
    return total


@inner_kernel()
def _best(scores: Any, labels: Any, ordered: Any, n: int, positions: Any) -> Any:
    """Fill the positions of the best of ``n`` scores by ascending label; ties go to the smaller
    label. Return their number.
    """
    n_best = positions.shape[0]
    lowest = -np.inf
    last_label = np.inf  # of those with the lowest score
    if n > n_best:
        for i in range(n):
            ordered[i] = scores[i]
        lowest = nth_smallest(ordered[:n], n - n_best)
        n_left = n_best
        n_equal = 0
        for i in range(n):
            if scores[i] > lowest:
                n_left -= 1
            elif scores[i] == lowest:
                ordered[n_equal] = labels[i]
                n_equal += 1
        last_label = nth_smallest(ordered[:n_equal], n_left - 1)
    n_filled = 0
    for i in range(n):
        if scores[i] > lowest or (scores[i] == lowest and labels[i] <= last_label):
            at = n_filled
            while at > 0 and labels[positions[at - 1]] > labels[i]:
                positions[at] = positions[at - 1]
                at -= 1
            positions[at] = i
            n_filled += 1
    return n_filled
