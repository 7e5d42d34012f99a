"""Label sets by threshold are those of all probabilities, whatever the size of the blocks."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from rembrandt import RembrandtClassifier, predict
from rembrandt.predict import Request, answer, indicator


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
