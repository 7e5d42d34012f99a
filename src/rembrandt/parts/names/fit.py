"""The likelihood that a label is right given how its names match: a small logistic model."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rembrandt.data.content import row_keys
from rembrandt.data.examples import Examples
from rembrandt.linalg import Array
from rembrandt.linalg.hashing import hashed
from rembrandt.linalg.logistic import newton
from rembrandt.linalg.ranking import rank
from rembrandt.linalg.sparse import select_entries
from rembrandt.metrics.hits import hits
from rembrandt.parts.names.encoded import EncodedNames, passages_of
from rembrandt.parts.names.index import FIRST_WEIGHTS, MAX_MATCHES, NameIndex
from rembrandt.parts.names.label_texts import LabelTexts, label_texts
from rembrandt.parts.names.part import Names
from rembrandt.parts.names.similarity import (
    Compared,
    ComparedLabels,
    Similarity,
    similarity_features,
)
from rembrandt.parts.names.stems import StemFrequencies
from rembrandt.parts.names.terms import spell, spell_stems
from rembrandt.parts.names.word_map import WordMap
from rembrandt.parts.protocol import Part, TextVectors
from rembrandt.progress import Report, silent

# Texts in which stems are counted, texts that a map is learned from, and texts that the weights are
# learned from.
READ_TEXTS = 100_000
MAP_TEXTS = 20_000
LEARNED_TEXTS = 3_000
# Matches of a text that weights are learned from.
LEARNED_MATCHES = 100
# Texts from which it is seen whether the names of labels occur in them, and labels listed for each.
CHECKED_TEXTS = 2_000
CHECKED_LABELS = 10
# True labels among those listed, below which the names are taken to be uninformative; and by how
# many standard errors they must be more than by chance.
FEWEST_HITS = 20
MIN_STANDARD_ERRORS = 3.0
FEWEST_EXAMPLES = 5
SMALLEST_FLOOR = 1e-7
# One of so many labels, and one of so many texts, is hidden from a map, to learn what its
# similarities say of labels without examples.
HIDDEN_LABELS = 4
HIDDEN_TEXTS = 4
# True labels among the hidden ones, below which similarities are not used.
FEWEST_HIDDEN_HITS = 50


def texts_of_labels(data: Examples) -> LabelTexts:
    """Return what is known of the labels of some examples as text."""
    return label_texts(
        data.classes, data.label_names, data.label_descriptions, data.label_other_names
    )


def some_rows(data: Examples, n_most: int) -> NDArray[np.int64]:
    """Return ``n_most`` rows by their content, whatever the order of the rows; all where there are
    fewer.
    """
    if data.n <= n_most:
        return np.arange(data.n)
    numbers = hashed(row_keys(data))
    chosen = np.argsort(numbers, kind="stable")[:n_most]
    return np.sort(chosen)


def is_informative(data: Examples) -> bool:
    """Whether the labels whose names match a text best are labels of the text significantly more
    often than of any text.
    """
    if data.texts is None or data.n < 2:
        return False
    texts = texts_of_labels(data)
    if not texts.names and not any(texts.descriptions):
        return False
    rows = some_rows(data, CHECKED_TEXTS)
    spelled = spell(data.texts[rows])
    index = NameIndex.of(texts, StemFrequencies.of(spelled))
    matches = index.match(spelled, FIRST_WEIGHTS, MAX_MATCHES)
    ranked, _ = rank(matches.labels, matches.log_odds)
    listed = ranked[:, :CHECKED_LABELS]
    true = data.Y[rows]
    n_hits = int(hits(true, listed).sum())
    n_listed = np.bincount(listed[listed >= 0], minlength=data.n_labels)
    n_true = np.bincount(true.indices, minlength=data.n_labels)
    n_by_chance = float(n_listed @ n_true) / len(rows)
    error = (n_hits + n_by_chance) ** 0.5
    is_significant = n_hits - n_by_chance > MIN_STANDARD_ERRORS * error
    return bool(n_hits >= FEWEST_HITS and is_significant)


def fit_names(
    data: Examples,
    begun: Part | None,
    encoder: TextVectors | None,
    report: Report,
    is_trial: bool = False,
) -> Names:
    """Fit a part.

    ``begun`` is one that was fitted to nearly all of the examples, and ``encoder`` what the model
    has to turn texts into vectors. The part of a trial compares no names, because no label is added
    to it.
    """
    assert data.texts is not None
    report("names", 0, 3)
    texts = texts_of_labels(data)
    stems = spell_stems(data.texts[some_rows(data, READ_TEXTS)])
    frequencies = StemFrequencies.of(stems)
    report("names", 1, 3)
    index = NameIndex.of(texts, frequencies)
    if isinstance(begun, Names):
        weights = begun.weights
        floor = begun.floor
    else:
        weights, floor = learn_weights(data, index)
    report("names", 2, 3)
    similarity = None
    if not is_trial:
        similarity = learn_similarity(data, texts, frequencies, index, weights, encoder, report)
    if similarity is not None:
        word_map = learn_map(data, texts, frequencies)
        if word_map is not None:
            similarity = replace(similarity, word_map=word_map)
    report("names", 3, 3)
    return Names(
        texts=texts,
        frequencies=frequencies,
        weights=weights,
        floor=floor,
        n_fitted=data.n_labels,
        similarity=similarity,
    )


def learn_weights(data: Examples, index: NameIndex) -> tuple[Array, float]:
    """Learn the weights of the features of a match, and the rate of labels that do not match.

    The frequency of a label is one more feature, and the bias is that of a label of typical
    frequency. So what is learned does not depend on the examples of a single label, and holds for
    labels without examples too.
    """
    assert data.texts is not None
    rows = some_rows(data, LEARNED_TEXTS)
    spelled = spell(data.texts[rows])
    matches = index.match(spelled, FIRST_WEIGHTS, LEARNED_MATCHES, with_features=True)
    is_true = hits(data.Y[rows], matches.labels) > 0
    n_examples = np.bincount(data.Y.indices, minlength=data.n_labels)
    is_used = matches.labels >= 0
    n_missed = data.Y[rows].nnz - int(is_true.sum())
    n_unmatched = len(rows) * data.n_labels - int(is_used.sum())
    floor = max(SMALLEST_FLOOR, n_missed / max(1, n_unmatched))
    # A label that nearly no example has is not like one that somebody adds because it is needed.
    is_typical = n_examples >= FEWEST_EXAMPLES
    if not is_typical[data.Y[rows].indices].any():
        is_typical = n_examples > 0
    is_used &= is_typical[matches.labels]
    log_counts = np.log(np.maximum(n_examples, 1))
    weights = _logistic_weights(
        matches.features[is_used], log_counts[matches.labels[is_used]], is_true[is_used]
    )
    *of_match, of_count, bias = weights
    typical = float(log_counts[is_typical].mean())
    with_bias = np.append(of_match, bias + of_count * typical)
    # As they are stored.
    return with_bias.astype(np.float32).astype(np.float64), min(floor, 0.5)


def _logistic_weights(features: Array, log_counts: Array, true: Array) -> Array:
    """Fit a logistic model; with too few true matches the weights are the first ones."""
    if true.sum() < FEWEST_HITS or true.all():
        return np.insert(FIRST_WEIGHTS, -1, 0.0)
    ones = np.ones(len(features))
    design = np.column_stack([features, log_counts, ones]).astype(np.float64)
    return newton(design, true.astype(np.float64))


def learn_map(data: Examples, texts: LabelTexts, frequencies: StemFrequencies) -> WordMap | None:
    """Learn the map from texts to names; None where there is nothing to learn."""
    assert data.texts is not None
    rows = some_rows(data, MAP_TEXTS)
    stems = spell_stems(data.texts[rows])
    return WordMap.of(stems, data.Y[rows], texts, frequencies)


def learn_similarity(
    data: Examples,
    texts: LabelTexts,
    frequencies: StemFrequencies,
    index: NameIndex,
    match_weights: Array,
    encoder: TextVectors | None = None,
    report: Report = silent,
) -> Similarity | None:
    """Learn the weights of `Similarity` from labels and texts that are hidden from a map; None
    where there are too few.

    As for the weights of a match, the frequency of a label is a feature while they are learned, and
    then that of a typical label.
    """
    assert data.texts is not None
    rows = some_rows(data, MAP_TEXTS)
    groups = row_keys(data, rows)
    is_hidden_row = _is_drawn(groups, HIDDEN_TEXTS)
    is_hidden = _is_drawn(np.arange(data.n_labels), HIDDEN_LABELS)
    n_examples = np.bincount(data.Y.indices, minlength=data.n_labels)
    is_typical = n_examples >= FEWEST_EXAMPLES
    hidden = np.flatnonzero(is_hidden & is_typical)

    other_rows = rows[~is_hidden_row]
    others = data.Y[other_rows]
    others = select_entries(others, ~is_hidden[others.indices])
    stems = spell_stems(data.texts[other_rows])
    word_map = WordMap.of(stems, others, texts, frequencies)
    hidden_rows = rows[is_hidden_row][:LEARNED_TEXTS]
    n_hidden_true = data.Y[hidden_rows][:, hidden].nnz
    if word_map is None or n_hidden_true < FEWEST_HIDDEN_HITS:
        return None

    spelled = spell(data.texts[hidden_rows])
    matches = index.match(spelled, match_weights, MAX_MATCHES)
    encoded = None
    encoded_names = None
    encoded_rows = None
    all_passages = passages_of(texts)
    passages = [all_passages[label] for label in hidden.tolist()]
    if encoder is not None and any(passages):
        text_vectors = encoder.stored_vectors(data.texts[hidden_rows].tolist(), report)
        encoded, encoded_names = _encoded_hidden(text_vectors, passages, encoder, report)
        encoded_rows = encoded.text_rows(text_vectors)
    compared_labels = ComparedLabels(word_map, texts, hidden, encoded_names)
    compared = compared_labels.compare(spelled, matches, encoded_rows)
    is_hit = hits(data.Y[hidden_rows], compared.labels) > 0
    is_true = is_hit[compared.is_compared]
    if is_true.sum() < FEWEST_HIDDEN_HITS:
        return None
    log_counts = np.log(np.maximum(n_examples, 1))
    typical = float(log_counts[is_typical].mean())
    used = compared.only_compared()
    weights = _similarity_weights(used, log_counts[used.labels] - typical, is_true)
    return Similarity(word_map, weights, encoded)


def _encoded_hidden(
    text_vectors: NDArray[np.float32],
    passages: list[str],
    encoder: TextVectors,
    report: Report,
) -> tuple[EncodedNames, NDArray[np.float32]]:
    """Return the centres of the vectors of texts and names, and the vectors of hidden labels."""
    is_named = np.array([passage != "" for passage in passages])
    named_passages = [passage for passage in passages if passage]
    of_named = encoder.stored_vectors(named_passages, report)
    encoded = EncodedNames.around(text_vectors, of_named)
    vectors = np.zeros((len(passages), encoder.width), dtype=np.float32)
    vectors[is_named] = encoded.name_rows(of_named)
    return encoded, vectors


def _similarity_weights(used: Compared, frequency: Array, is_true: Array) -> Array:
    """Learn the weights of compared labels, of which ``frequency`` is the logarithm, relative to
    that of a typical label.
    """
    features = similarity_features(used)
    ones = np.ones(len(features))
    design = np.column_stack([features, frequency, ones]).astype(np.float64)
    learned = newton(design, is_true.astype(np.float64))
    # Without that of the frequency, and as they are stored.
    weights = np.delete(learned, -2)
    return weights.astype(np.float32).astype(np.float64)


def _is_drawn(keys: NDArray[Any], one_of: int) -> NDArray[np.bool_]:
    """Return which of some numbers are drawn, whatever their order."""
    drawn: NDArray[np.bool_] = hashed(keys.astype(np.uint64), seed=1) % np.uint64(one_of) == 0
    return drawn
