"""Label sets by threshold are those of all probabilities, whatever the size of the blocks."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import softmax

from rembrandt import RembrandtClassifier, predict
from rembrandt.predict import Request, answer, indicator
from rembrandt.probabilities import _shares


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    Y = rng.random((150, 40)) < 0.15
    X = Y @ rng.standard_normal((40, 20)) + 0.1 * rng.standard_normal((150, 20))
    settings = {
        "parts": ("embedding",),
        "decoder": "ridge",
        "decoder_ridge": 0.01,
        "kernel": None,
    }
    return RembrandtClassifier(**settings, normalize=False, n_components=15, random_state=0).fit(
        X, Y.astype(int)
    ), X


@pytest.mark.parametrize("threshold", [0.0, 0.05, 0.5, 2.0, "each"])
@pytest.mark.parametrize("block_scores", [7 * 40, 1 << 22])
def test_sets_are_those_of_all_probabilities(fitted, threshold, block_scores, monkeypatch):
    monkeypatch.setattr(predict, "BLOCK_SCORES", block_scores)
    classifier, X = fitted
    least = np.linspace(0.01, 0.9, 40) if threshold == "each" else threshold
    sets = answer(classifier.model_, Request(X, threshold=least))
    P = classifier.predict_proba(X)
    expected = least <= P
    matrix = indicator(sets.labels, 40)
    assert matrix.dtype == np.int8
    assert_array_equal(matrix.toarray() == 1, expected)
    assert sets.labels.shape[1] == expected.sum(axis=1).max()
    for row, labels, values in zip(P, sets.labels, sets.probabilities, strict=True):
        is_label = labels >= 0
        assert_array_equal(values[is_label], row[labels[is_label]])
        assert (np.diff(values[is_label]) <= 0).all() and (values[~is_label] == 0).all()


def test_no_rows_and_no_labels(fitted):
    classifier, X = fitted
    model = classifier.model_
    assert answer(model, Request(X[:0], threshold=0.5)).labels.shape == (0, 0)
    nothing = answer(model, Request(X[:2], 5, allowed=np.empty(0, np.int64)))
    assert nothing.labels.shape == nothing.probabilities.shape == (2, 0)
    assert classifier.predict_labels(X[:2], k=1, min_probability=0)[0] is not None
    assert indicator(np.empty((2, 0), np.int64), 40).shape == (2, 40)


def test_places_without_a_label_are_not_counted_as_labels(fitted):
    """A list of all labels but one, and a place after the last, does not answer for all labels."""
    classifier, X = fitted
    query = predict._query(classifier.model_, Request(X[:2], k=40))
    labels = np.tile(np.arange(40), (2, 1))
    labels[1, 39] = -1
    probabilities = np.where(labels < 0, 0, 0.5).astype(np.float32)
    ranked = query.ranked(labels, probabilities)
    assert query.is_complete(labels, np.full(2, 0.5), ranked).tolist() == [True, False]
    assert (ranked.labels >= 0).sum(axis=1).tolist() == [40, 39]


@pytest.mark.parametrize("seed", range(3))
def test_what_is_left_is_divided_by_the_odds_up_to_the_cap(seed):
    rng = np.random.default_rng(seed)
    odds = 2 * rng.standard_normal((200, 12))
    is_unlisted = rng.random((200, 12)) < 0.7
    is_unlisted[:, 0] = True
    rest = rng.uniform(0, 1, 200)
    cap = rng.uniform(1, 6, 200) * rest / is_unlisted.sum(axis=1)
    shares = np.where(is_unlisted, _shares(odds, is_unlisted, rest, cap), 0)
    assert_allclose(shares.sum(axis=1), rest)
    by_odds = rest[:, None] * softmax(np.where(is_unlisted, odds, -np.inf), axis=1)
    fits = by_odds.max(axis=1) <= cap
    assert 20 < fits.sum() < 180
    assert_allclose(shares[fits], by_odds[fits])
    assert_allclose(shares[~fits].max(axis=1), cap[~fits])
    order = np.where(is_unlisted, odds, -np.inf).argmax(axis=1)
    assert_array_equal(shares.argmax(axis=1), order)
