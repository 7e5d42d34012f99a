"""Label sets by threshold are those of all probabilities, whatever the size of the blocks."""

import numpy as np
import pytest

from rembrandt import RembrandtClassifier
from rembrandt.model import ranked


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    Y = rng.random((150, 40)) < 0.15
    X = Y @ rng.standard_normal((40, 20)) + 0.1 * rng.standard_normal((150, 20))
    settings = {
        "scorers": ("embedding",),
        "decoder": "ridge",
        "decoder_ridge": 0.01,
        "kernel": None,
    }
    return RembrandtClassifier(**settings, normalize=False, n_components=15, random_state=0).fit(
        X, Y.astype(int)
    ), X


@pytest.mark.parametrize("threshold", [0.0, 0.05, 0.5, 2.0, "each"])
@pytest.mark.parametrize("rows", [7, 1 << 14])
def test_sets_are_those_of_all_probabilities(fitted, threshold, rows, monkeypatch):
    monkeypatch.setattr(ranked, "_ROWS", rows)
    classifier, X = fitted
    least = np.linspace(0.01, 0.9, 40) if threshold == "each" else threshold
    labels, probabilities = ranked.predicted_sets(classifier.model_, X, least)
    P = classifier.predict_proba(X)
    expected = least <= P
    assert (ranked.indicator(labels, 40).toarray() == expected).all()
    assert labels.shape[1] == expected.sum(axis=1).max()
    for row, found, values in zip(P, labels, probabilities, strict=True):
        np.testing.assert_allclose(values[found >= 0], row[found[found >= 0]], rtol=1e-5)
        assert (np.diff(values[found >= 0]) <= 1e-6).all() and (values[found < 0] == 0).all()


def test_no_rows_and_no_labels(fitted):
    classifier, X = fitted
    assert ranked.predicted_sets(classifier.model_, X[:0])[0].shape == (0, 0)
    assert ranked.ranked_labels(classifier.model_, X[:2], 5, np.empty(0, np.int64))[0].shape == (
        2,
        0,
    )
    assert classifier.predict_labels(X[:2], k=1, min_probability=0)[0] is not None
