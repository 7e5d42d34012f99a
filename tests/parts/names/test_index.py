"""Matches of names and texts agree with a computation text by text and name by name."""

import warnings
from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from rembrandt.parts.names import index as index_module
from rembrandt.parts.names.index import FIRST_WEIGHTS, MAX_MATCHES, N_FEATURES, NameIndex
from rembrandt.parts.names.label_texts import LabelTexts

from .texts import UNKNOWN, WORDS, Counted, random_labels, random_texts, spell, stems_in

N_LABELS = 12


class Reference:
    """The features of a match, from the words themselves."""

    def __init__(self, labels, counted):
        self.labels = labels
        self.rarity = counted.rarity
        self.vectors = [self.label_vector(label) for label in range(labels.n_labels)]
        self.known = {stem for vector in self.vectors for stem in vector}

    def names_of(self, label):
        pairs = zip(self.labels.names, self.labels.labels.tolist(), strict=True)
        return [name for name, number in pairs if number == label]

    def weighted(self, stems):
        """Return the weights of stems in a text, and their length."""
        weights = {stem: (1 + np.log(stems.count(stem))) * self.rarity(stem) for stem in set(stems)}
        return weights, np.sqrt(sum(weight**2 for weight in weights.values())) or 1.0

    def label_vector(self, label):
        stems = stems_in(self.labels.descriptions[label])
        for name in self.names_of(label):
            stems += stems_in(name)
        weights, length = self.weighted(stems)
        return {stem: weight / length for stem, weight in weights.items()}

    def cosine(self, text, label):
        known = [stem for stem in stems_in(text) if stem in self.known]
        weights, length = self.weighted(known)
        vector = self.vectors[label]
        return sum(weight * vector.get(stem, 0) for stem, weight in weights.items()) / length

    def features(self, text, name, label):
        """Return the features in the order of `FEATURE_NAMES`; ``name`` may be None."""
        cosine = self.cosine(text, label)
        values = np.zeros(N_FEATURES)
        values[10:] = cosine, cosine**2
        if name is None:
            return values
        words, stems = text.split(), stems_in(text)
        name_words, name_stems = name.split(), stems_in(name)
        pairs = list(pairwise(stems))
        name_pairs = set(pairwise(name_stems))
        total = sum(self.rarity(stem) for stem in set(name_stems))
        matched = set(name_stems) & set(stems)
        values[0] = sum(self.rarity(stem) for stem in matched) / total
        of_words = {word: self.rarity(word[:5]) for word in name_words}
        in_text = sum(rarity for word, rarity in of_words.items() if word in words)
        values[1] = in_text / sum(of_words.values())
        values[2] = values[0]
        if name_pairs:
            values[2] = len(name_pairs & set(pairs)) / len(name_pairs)
        values[3] = matched == set(name_stems)
        values[4] = values[0] * total / 10
        n_names = len(self.labels.names)
        for stem in matched:
            n_with = sum(stem in stems_in(other) for other in self.labels.names)
            values[5] += np.log1p(n_names / n_with) / 10
        values[6] = np.log1p(len(set(name_stems)))
        values[7] = max((1 / (1 + stems.index(stem)) for stem in matched), default=0)
        same = {
            number
            for other, number in zip(self.labels.names, self.labels.labels, strict=True)
            if stems_in(other) == name_stems
        }
        values[8] = np.log(len(same))
        values[9] = values[3] * values[4]
        return values

    def best_name(self, text, label, weights):
        """Return the features of the best name of a label, and its log-odds."""
        of_names = [self.features(text, name, label) for name in self.names_of(label)]
        of_names = of_names or [self.features(text, None, label)]
        log_odds = [features @ weights[:-1] + weights[-1] for features in of_names]
        best = int(np.argmax(log_odds))
        return of_names[best], log_odds[best]

    def is_touched(self, text, label):
        return bool(set(stems_in(text)) & set(self.vectors[label]))


@pytest.fixture(params=range(4))
def problem(request):
    rng = np.random.default_rng(request.param)
    labels = random_labels(rng, N_LABELS)
    # One stem occurs in all texts, so that the vector of a label that has it alone is short.
    read = random_texts(rng, 30, 8, [*WORDS[:12], *UNKNOWN])
    counted = Counted([f"{text} alphax" for text in read])
    texts = [*random_texts(rng, 40, 7, [*WORDS, *UNKNOWN]), "", "neverseen"]
    weights = rng.standard_normal(N_FEATURES + 1)
    return NameIndex.of(labels, counted.frequencies), Reference(labels, counted), texts, weights


def test_features_and_log_odds_are_those_of_each_name(problem):
    index, reference, texts, weights = problem
    matches = index.match(spell(texts), weights, MAX_MATCHES, with_features=True)
    assert matches.labels.shape == (len(texts), N_LABELS)
    n_matched = 0
    for text, labels, log_odds, features in zip(texts, *matches, strict=True):
        touched = [label for label in range(N_LABELS) if reference.is_touched(text, label)]
        n = len(touched)
        assert labels.tolist() == touched + [-1] * (N_LABELS - n)
        for at, label in enumerate(touched):
            expected, expected_log_odds = reference.best_name(text, label, weights)
            assert_allclose(features[at], expected, rtol=1e-4, atol=1e-5)
            assert_allclose(log_odds[at], expected_log_odds, rtol=1e-4, atol=1e-4)
        assert (log_odds[n:] == -np.inf).all()
        n_matched += n
    assert n_matched > 100


def test_names_of_one_word_and_labels_without_a_name_cause_no_warning():
    labels = LabelTexts(["alphax", "bravoy charlz"], np.array([0, 1]), ["", "", ""])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        index = NameIndex.of(labels, Counted(["alphax bravoy"]).frequencies)
        matches = index.match(spell(["alphax", "charlz", ""]), FIRST_WEIGHTS, 1)
    assert matches.labels.tolist() == [[0], [1], [-1]]


@pytest.mark.parametrize("n_matches", [1, 2, 5])
def test_few_matches_are_the_best_of_all(problem, n_matches):
    index, _, texts, weights = problem
    every = index.match(spell(texts), weights, MAX_MATCHES)
    best = index.match(spell(texts), weights, n_matches)
    assert best.features.shape == (len(texts), n_matches, 0)
    for row in range(len(texts)):
        ranked = np.lexsort([every.labels[row], -every.log_odds[row]])
        ranked = ranked[every.labels[row, ranked] >= 0][:n_matches]
        kept = np.sort(every.labels[row, ranked])
        n = len(kept)
        assert best.labels[row].tolist() == kept.tolist() + [-1] * (n_matches - n)
        of_all = dict(zip(every.labels[row].tolist(), every.log_odds[row].tolist(), strict=True))
        assert best.log_odds[row, :n].tolist() == [of_all[label] for label in kept.tolist()]


def test_of_equal_matches_the_smaller_labels_are_kept():
    labels = LabelTexts(["alphax"] * 6, np.arange(6), [""] * 6)
    index = NameIndex.of(labels, Counted(["alphax", "bravox"]).frequencies)
    for n_matches in (1, 3, 6):
        matches = index.match(spell(["alphax bravox"]), FIRST_WEIGHTS, n_matches)
        assert matches.labels.tolist() == [list(range(n_matches))]


def test_texts_do_not_change_the_matches_of_others(problem, monkeypatch):
    index, _, texts, weights = problem
    together = index.match(spell(texts), weights, MAX_MATCHES, with_features=True)
    monkeypatch.setattr(index_module, "CALL_ROWS", 3)
    for matches in (
        index.match(spell(texts), weights, MAX_MATCHES, with_features=True),
        index.match(spell(texts * 2), weights, MAX_MATCHES, with_features=True),
    ):
        for expected, result in zip(together, matches, strict=True):
            assert_array_equal(result[: len(texts)], expected)
