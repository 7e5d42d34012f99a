"""Texts and names are compared as a computation with dense matrices compares them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from rembrandt.parts.names import similarity as similarity_module
from rembrandt.parts.names import word_map as word_map_module
from rembrandt.parts.names.index import FIRST_WEIGHTS, NameIndex
from rembrandt.parts.names.similarity import (
    ComparedLabels,
    Similarity,
    distinct,
    most_similar,
    similarity_features,
)
from rembrandt.parts.names.terms import spell
from rembrandt.parts.names.word_map import (
    FEWEST_TEXTS,
    LENGTH_POWER,
    MAP_RIDGE,
    WORD_POWER,
    WordMap,
    unit_rows,
)

from .texts import STEMS, UNKNOWN, WORDS, Counted, random_labels, random_texts, stems_in

N_LABELS = 9
N_TEXTS = 80


class Problem:
    """Texts with labels, a map that was learned from them, and the same as dense matrices."""

    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        self.labels = random_labels(rng, N_LABELS)
        self.texts = [f"{text} {WORDS[0]}" for text in random_texts(rng, N_TEXTS, 8)]
        self.texts[0] = f"{self.texts[0]} oncex"  # of a stem that one text has
        self.counted = Counted(self.texts)
        self.Y = (rng.random((N_TEXTS, N_LABELS)) < 0.3).astype(np.float32)
        frequencies = self.counted.frequencies
        spelled = spell(self.texts)
        self.map = WordMap.of(spelled, sparse.csr_array(self.Y), self.labels, frequencies)
        self.rarity = np.array([self.counted.rarity(stem) for stem in STEMS])

    def counts(self, text):
        """Return the logarithmic counts of the known stems."""
        stems = stems_in(text)
        counts = np.array([stems.count(stem) for stem in STEMS], dtype=float)
        return np.where(counts > 0, 1 + np.log(np.maximum(counts, 1)), 0)

    def label_counts(self):
        """Return those of the names and descriptions of each label."""
        rows = []
        for label in range(N_LABELS):
            chosen = np.flatnonzero(self.labels.labels == label)
            names = [self.labels.names[number] for number in chosen]
            rows.append(self.counts(" ".join([self.labels.descriptions[label], *names])))
        return np.array(rows)

    def keys(self):
        """Return the keys of the stems."""
        spelled = spell(STEMS)
        return spelled.keys[::2]  # of each word a stem and a word


@pytest.fixture(params=range(3))
def problem(request):
    return Problem(request.param)


@pytest.mark.parametrize("number", range(3))
def test_products_of_the_map_are_those_of_a_dense_regression(number, monkeypatch):
    """With a rank as large as the names and enough iterations, it is the ridge regression of their
    words.
    """
    monkeypatch.setattr(word_map_module, "MAP_ITERATIONS", 8)
    problem = Problem(number)
    X = np.array([problem.counts(text) for text in problem.texts]) * problem.rarity
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    # A stem that one text has is in no map, and makes a row shorter by nothing.
    assert len(problem.map.text_keys) == len(STEMS)
    assert FEWEST_TEXTS == 2

    counts = problem.label_counts()
    n_examples = problem.Y.sum(axis=0)
    occurrences = (counts > 0).T @ n_examples
    rarity = np.log1p(N_TEXTS / (1 + occurrences))
    weights = rarity * np.maximum(occurrences, 1) ** WORD_POWER
    names = counts * weights
    lengths = np.linalg.norm(names, axis=1, keepdims=True)
    names *= np.where(lengths > 0, lengths, 1) ** LENGTH_POWER
    words = problem.Y @ names
    strength = MAP_RIDGE * np.trace(X.T @ X) / len(STEMS)
    regression = np.linalg.solve(X.T @ X + strength * np.eye(len(STEMS)), X.T @ words)
    expected = problem.rarity[:, None] * regression * weights

    keys = problem.keys()
    text_places = [problem.map.text_keys.tolist().index(key) for key in keys]
    known = [at for at, key in enumerate(keys) if key in problem.map.name_keys]
    name_places = [problem.map.name_keys.tolist().index(keys[at]) for at in known]
    assert len(known) == len(problem.map.name_keys) >= 6
    products = problem.map.text_vectors[text_places] @ problem.map.name_vectors[name_places].T
    expected = expected[:, known]
    scale = (products * expected).sum() / (expected**2).sum()
    assert scale > 0
    assert_allclose(products, scale * expected, atol=0.02 * np.abs(products).max())


def test_vectors_are_stored_at_one_scale(problem):
    for vectors in (problem.map.text_vectors, problem.map.name_vectors):
        assert np.abs(vectors).max() == 1
        assert_array_equal(vectors, vectors.astype(np.float16))
    again = WordMap.from_arrays(problem.map.arrays())
    assert_array_equal(again.text_vectors, problem.map.text_vectors)
    assert_array_equal(again.name_keys, problem.map.name_keys)


def test_rows_are_sums_over_stems(problem):
    texts = [*problem.texts[:20], "", "neverseen", f"alphax alphay {UNKNOWN[0]}"]
    keys = problem.keys()
    places = [problem.map.text_keys.tolist().index(key) for key in keys]
    sums = np.array([problem.counts(text) for text in texts]) @ problem.map.text_vectors[places]
    lengths = np.linalg.norm(sums, axis=1, keepdims=True)
    rows = problem.map.text_rows(spell(texts))
    assert_allclose(rows, sums / np.where(lengths > 0, lengths, 1), atol=1e-5)
    assert not rows[20:22].any()

    name_vectors = np.zeros((len(STEMS), problem.map.name_vectors.shape[1]))
    for at, key in enumerate(keys):
        if key in problem.map.name_keys:
            place = problem.map.name_keys.tolist().index(key)
            name_vectors[at] = problem.map.name_vectors[place]
    sums = problem.label_counts() @ name_vectors
    lengths = np.linalg.norm(sums, axis=1, keepdims=True)
    expected = sums / np.where(lengths > 0, lengths, 1)
    assert_allclose(problem.map.label_rows(problem.labels), expected, atol=1e-5)


def test_unit_rows_have_length_one():
    vectors = np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32)
    vectors[2] = 0
    lengths = np.linalg.norm(unit_rows(vectors), axis=1)
    assert_allclose(lengths, [1, 1, 0, 1, 1], rtol=1e-6)
    assert_allclose(unit_rows(vectors)[0], vectors[0] / np.linalg.norm(vectors[0]), rtol=1e-6)


@pytest.mark.parametrize("n_most", [3, 50])
def test_the_most_similar_labels_have_the_largest_cosines(n_most, monkeypatch):
    monkeypatch.setattr(similarity_module, "MAX_SIMILAR", n_most)
    monkeypatch.setattr(similarity_module, "BLOCK_SIMILARITIES", 40)
    rng = np.random.default_rng(1)
    rows = unit_rows(rng.standard_normal((17, 4)).astype(np.float32))
    rows[[3, 16]] = 0
    vectors = unit_rows(rng.standard_normal((8, 4)).astype(np.float32))
    best = most_similar(rows, vectors)
    n_best = min(n_most, 8)
    expected = np.argsort(-(rows @ vectors.T), axis=1)[:, :n_best]
    expected[[3, 16]] = -1
    assert_array_equal(best, expected)


def test_labels_of_two_lists_once():
    rng = np.random.default_rng(2)
    first = np.where(rng.random((50, 5)) < 0.3, -1, rng.integers(0, 9, (50, 5)))
    second = np.where(rng.random((50, 4)) < 0.3, -1, rng.integers(0, 9, (50, 4)))
    joined = distinct(first, second)
    assert joined.shape == (50, 9)
    for row, a, b in zip(joined, first, second, strict=True):
        labels = sorted((set(a.tolist()) | set(b.tolist())) - {-1})
        assert row.tolist() == labels + [-1] * (9 - len(labels))


@pytest.mark.parametrize("is_encoded", [False, True])
def test_labels_that_match_or_are_similar_are_compared(problem, is_encoded, monkeypatch):
    monkeypatch.setattr(similarity_module, "MAX_SIMILAR", 2)
    rng = np.random.default_rng(3)
    added = np.array([1, 4, 5, 8])
    index = NameIndex.of(problem.labels, problem.counted.frequencies)
    texts = [*problem.texts[:25], "", "neverseen"]
    spelled = spell(texts)
    matches = index.match(spelled, FIRST_WEIGHTS, 3)
    encoded_names = encoded_rows = None
    if is_encoded:
        encoded_names = unit_rows(rng.standard_normal((len(added), 5)).astype(np.float32))
        encoded_rows = unit_rows(rng.standard_normal((len(texts), 5)).astype(np.float32))
        encoded_rows[-1] = 0
    compared_labels = ComparedLabels(problem.map, problem.labels, added, encoded_names)
    compared = compared_labels.compare(spelled, matches, encoded_rows)

    rows = problem.map.text_rows(spelled)
    cosines = np.zeros((len(texts), N_LABELS))
    cosines[:, added] = rows @ problem.map.label_rows(problem.labels)[added].T
    encoded_cosines = np.zeros((len(texts), N_LABELS))
    if is_encoded:
        encoded_cosines[:, added] = encoded_rows @ encoded_names.T
    for row in range(len(texts)):
        labels = compared.labels[row]
        labels = labels[labels >= 0]
        matched = matches.labels[row][matches.labels[row] >= 0]
        expected = set(matched.tolist())
        has_vector = rows[row].any() or (is_encoded and encoded_rows[row].any())
        if rows[row].any():
            expected |= set(added[np.argsort(-cosines[row, added])[:2]].tolist())
        if is_encoded and encoded_rows[row].any():
            expected |= set(added[np.argsort(-encoded_cosines[row, added])[:2]].tolist())
        assert labels.tolist() == sorted(expected)
        n = len(labels)
        is_compared = np.isin(labels, added) & has_vector
        assert_array_equal(compared.is_compared[row, :n], is_compared)
        assert not compared.is_compared[row, n:].any()
        assert_allclose(compared.cosines[row, :n], cosines[row, labels] * is_compared, atol=1e-5)
        if is_encoded:
            values = encoded_cosines[row, labels] * is_compared
            assert_allclose(compared.encoded_cosines[row, :n], values, atol=1e-5)
        of_match = dict(zip(matched.tolist(), matches.log_odds[row].tolist(), strict=False))
        log_odds = [of_match.get(label, np.nan) for label in labels.tolist()]
        assert_allclose(compared.match_log_odds[row, :n], log_odds, rtol=1e-5)

    features = similarity_features(compared)
    weights = rng.standard_normal(features.shape[-1] + 1)
    similarity = Similarity(problem.map, weights)
    assert_allclose(
        similarity.log_odds(compared), features @ weights[:-1] + weights[-1], rtol=1e-6, atol=1e-6
    )
    is_matched = ~np.isnan(compared.match_log_odds)
    c = compared.cosines
    m = np.where(is_matched, compared.match_log_odds, 0)
    columns = [m, ~is_matched, c, c * abs(c), m * c, ~is_matched * c, ~is_matched * c * abs(c)]
    if is_encoded:
        e = compared.encoded_cosines
        columns += [e, e * abs(e), m * e, ~is_matched * e, ~is_matched * e * abs(e), c * e]
    assert_allclose(features, np.stack(columns, axis=-1), rtol=1e-5, atol=1e-6)
