"""Labels that come after the fit: exact for ridge, near for logistic, and no old score changed by a bit."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from rembrandt import RembrandtClassifier, load
from rembrandt.decoders.forest import fit_forest
from rembrandt.decoders.ridge import RidgeStatistics
from rembrandt.decoders.tree import TreeSettings
from rembrandt.errors import DataError, SettingsError
from rembrandt.explore.explain import explain
from tests.estimators.problems import SETTLED

KERNEL = {"kernel": "gaussian", "n_random_features": 60}
DECODERS = [
    {"decoder": "ridge"},
    {"decoder": "ridge"} | KERNEL,
    {"decoder": "transpose"},
    {"decoder": "logistic"},
    {"decoder": "logistic"} | KERNEL,
]


def problem(n=500, labels=12, d=16, seed=0, several=True):
    """Texts' rows in small: each label adds a direction of its own."""
    rng = np.random.default_rng(seed)
    Y = (
        (rng.random((n, labels)) < 0.12).astype(np.float32)
        if several
        else np.eye(labels, dtype=np.float32)[rng.integers(0, labels, n)]
    )
    return (Y @ np.random.default_rng(5).standard_normal((labels, d)) + 0.3 * rng.standard_normal((n, d))), Y


def split(several=True):
    """Rows of the first ten labels, and rows with one of the last two."""
    X, Y = problem(several=several)
    new = Y[:, 10:].any(axis=1)
    return X[~new], Y[~new][:, :10], X[new], Y[new]


def fitted(settings, several=True, dtype=np.float64, **more):
    X, Y, *_ = split(several)
    y = sparse.csr_array(Y) if several else Y.argmax(axis=1)
    return RembrandtClassifier(**SETTLED | {"growable": True} | settings | more).fit(X.astype(dtype), y)


@pytest.mark.parametrize("settings", DECODERS[:3])
def test_a_ridge_column_is_that_of_a_fit_to_all_rows(settings):
    X, _, X_new, Y_new = split()
    classifier = fitted(settings)
    model = classifier.model_
    strength = 0.01 if settings["decoder"] == "ridge" else 0.1
    H = model.project(np.vstack([X, X_new]))
    Y = sparse.csr_array(np.vstack([np.zeros((len(X), 2)), Y_new[:, 10:]]))
    expected = RidgeStatistics(H, Y, model.decoder.fourier).solve(strength)
    classifier.add_labels(X_new, Y_new[:, 10:], classes=[10, 11])
    found = classifier.model_.decoder
    assert_allclose(found.columns(slice(10, 12)), expected.weights, rtol=1e-6, atol=1e-9)
    assert_allclose(found.bias[10:], expected.bias, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("settings", DECODERS)
@pytest.mark.parametrize("several", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_scores_of_old_labels_keep_every_bit(settings, several, dtype):
    classifier = fitted(settings, several, dtype, max_epochs=2)
    _, _, X_new, Y_new = split(several)
    X = problem(seed=1, several=several)[0].astype(dtype)
    for rows in (X, X[:1]):
        before = classifier.model_.scores(rows), classifier.model_.top_k(rows, 10)
        grown = another(classifier).add_labels(X_new, Y_new[:, 10:], [10, 11]).add_labels(X_new[:5], [12] * 5)
        assert_array_equal(grown.model_.scores(rows)[:, :10], before[0])
        some = np.array([1, 3, 8])
        assert_array_equal(grown.model_.top_k(rows, 3, some)[1], classifier.model_.top_k(rows, 3, some)[1])
        best, values = grown.model_.top_k(rows, 13)
        old = best < 10
        assert_array_equal(best[old].reshape(-1, 10), before[1][0])
        assert_array_equal(values[old].reshape(-1, 10), before[1][1])
    assert_array_equal(grown.model_.worth()[:10], classifier.model_.worth())


def another(classifier):
    """Another classifier of the same model."""
    other = RembrandtClassifier(**classifier.get_params())
    other.__dict__ |= vars(classifier)
    return other


@pytest.mark.parametrize("settings", DECODERS)
@pytest.mark.parametrize("several", [True, False])
def test_new_labels_are_found_and_old_ones_still(settings, several, tmp_path):
    classifier = fitted(settings, several)
    _, _, X_new, Y_new = split(several)
    X, Y = problem(seed=1, several=several)
    old = ~Y[:, 10:].any(axis=1)

    def found(rows):
        return np.take_along_axis(Y[rows], classifier.model_topk(X[rows], 1)[0], axis=1).mean()

    before = found(old)
    classifier.add_labels(X_new, [np.flatnonzero(row).tolist() for row in Y_new])  # with the old ones among them
    assert classifier.classes_.tolist() == list(range(12))
    # A frozen embedding has no direction for new labels: what the old ones share has to do.
    assert found(old) > before - 0.05 and found(~old) > 0.4
    right = np.asarray(classifier.predict_proba(X))[:, 10:]
    assert right[Y[:, 10:] == 1].mean() > 3 * right[Y[:, 10:] == 0].mean()
    assert classifier.embedding_.shape[0] == 12
    # A new label's vector brings projected rows near to it, as the vectors of the fit do.
    scores = classifier.model_.project(X) @ classifier.embedding_.T
    assert scores[:, 10][Y[:, 10] == 1].mean() > scores[:, 10][Y[:, 10] == 0].mean() + 0.3

    classifier.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert_array_equal(again.model_.decoder.columns(slice(8, 12)), classifier.model_.decoder.columns(slice(8, 12)))
    assert_array_equal(again.model_.moments.scatter, classifier.model_.moments.scatter)
    assert again.settings_["added"] == [{"n_labels": 2, "n_examples": len(X_new)}]
    for one in (again, classifier):
        one.add_labels(X[:9], [99] * 9)
    assert_allclose(again.model_.scores(X), classifier.model_.scores(X), rtol=1e-6, atol=1e-8)
    if several:
        exact = explain(again, X[:4], [99, 3, 11])
        scores = [[each.score for each in row] for row in exact]
        assert_allclose(scores, again.model_.scores(X[:4])[:, [12, 3, 11]], atol=1e-6)


def test_rows_added_before_count_against_later_labels():
    X, _, X_new, Y_new = split()
    classifier = fitted({"decoder": "ridge"})
    first, second = Y_new[:, 10] == 1, Y_new[:, 10] == 0
    classifier.add_labels(X_new[first], [10] * first.sum()).add_labels(X_new[second], [11] * second.sum())
    model = classifier.model_
    H = model.project(np.vstack([X, X_new[first], X_new[second]]))
    y = sparse.csr_array(np.arange(len(H))[:, None] >= len(X) + first.sum(), dtype=np.float32)
    expected = RidgeStatistics(H, y, None).solve(0.01)
    assert_allclose(model.decoder.columns([11]), expected.weights, rtol=1e-6, atol=1e-9)
    assert_allclose(model.moments.gram(), RidgeStatistics(H, y, None).gram, rtol=1e-9, atol=1e-9)


def test_on_a_device_the_answers_are_the_same():
    pytest.importorskip("torch")
    from rembrandt.engines.torch_place import torch_place

    classifier = fitted({"decoder": "ridge"} | KERNEL, dtype=np.float32)
    _, _, X_new, Y_new = split()
    classifier.add_labels(X_new, Y_new[:, 10:], [10, 11])
    here, there = classifier.model_, classifier.model_.on(torch_place("cpu,cpu"))
    for allowed in (None, np.array([1, 4, 11])):
        for worth in (None, here.worth()):
            expected, found = (m.top_k(X_new, 3, allowed, worth=worth) for m in (here, there))
            assert_array_equal(found[0], expected[0])
            assert_allclose(found[1], expected[1], rtol=1e-4, atol=1e-5)


def test_what_cannot_grow_says_so():
    X, Y, X_new, Y_new = split()
    plain = RembrandtClassifier(**SETTLED).fit(X, sparse.csr_array(Y))
    with pytest.raises(SettingsError, match="growable=True"):
        plain.add_labels(X_new, Y_new[:, 10:], [10, 11])
    with pytest.raises(SettingsError, match="sparse=False"):
        RembrandtClassifier(sparse=True, growable=True).fit(X, sparse.csr_array(Y))
    trees = RembrandtClassifier(**SETTLED)
    trees.__dict__ |= vars(plain)
    trees.model_ = replace(plain.model_, forest=fit_forest(X, sparse.csr_array(Y), TreeSettings(cost=1.0)), blend=0.5)
    with pytest.raises(SettingsError, match="sparse=False"):
        trees.add_labels(X_new, Y_new[:, 10:], [10, 11])


@pytest.mark.parametrize(
    ("y", "classes", "message"),
    [
        (np.ones((3, 1)), None, "names of its columns"),
        (np.ones((3, 1)), [3], "already"),
        (np.ones((3, 1)), [10, 11], "name each column"),
        (np.zeros((3, 1)), [10], "no example has"),
        (np.ones((3, 2)), [10, 10], "twice"),
        ([3, 4, 5], None, "nothing to add"),
        (["a", "b", "c"], None, "same type"),
        ([10, 10], None, "one label entry"),
    ],
)
def test_what_is_given_is_checked(y, classes, message):
    classifier = fitted({"decoder": "ridge"})
    with pytest.raises(DataError, match=message):
        classifier.add_labels(split()[2][:3], y, classes)
