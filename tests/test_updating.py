"""Examples that come after the fit: a model in a frozen embedding is that of ridge on all rows."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from rembrandt.growing import outside, refit_due
from scipy import sparse

from rembrandt import RembrandtClassifier, load
from rembrandt.data import Dataset
from rembrandt.decoders.moments import Moments, learn_rows
from rembrandt.decoders.ridge import fit_ridge
from rembrandt.engines.place import CPU
from rembrandt.errors import DataError, RembrandtWarning, SettingsError
from rembrandt.features.fourier import draw
from tests.estimators.problems import SETTLED

GROWABLE = SETTLED | {"growable": True}
KERNEL = {"kernel": "gaussian", "n_random_features": 60}


def problem(n=500, labels=12, d=16, seed=0, several=True):
    """Texts' rows in small: each label adds a direction of its own."""
    rng = np.random.default_rng(seed)
    Y = (
        (rng.random((n, labels)) < 0.12).astype(np.float32)
        if several
        else np.eye(labels, dtype=np.float32)[rng.integers(0, labels, n)]
    )
    return (Y @ np.random.default_rng(5).standard_normal((labels, d)) + 0.3 * rng.standard_normal((n, d))), Y


def dense_ridge(Phi, Y, strength, w):
    """Ridge with a free intercept by its equations, nothing shared with the code under test."""
    mu, nu = w @ Phi / w.sum(), w @ Y / w.sum()
    A = (Phi - mu).T * w @ (Phi - mu)
    A += strength * np.trace(A) / w.sum() * np.eye(len(A))
    Q = np.linalg.solve(A, (Phi - mu).T * w @ (Y - nu))
    return Q, nu - mu @ Q


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    parts=st.lists(st.integers(1, 40), min_size=1, max_size=4),
    labels=st.integers(1, 12),
    new=st.integers(0, 4),
    kernel=st.booleans(),
    weighted=st.booleans(),
    strength=st.sampled_from([1e-3, 0.1, 1.0]),
)
def test_any_number_of_parts_gives_the_decoder_of_all_rows(seed, parts, labels, new, kernel, weighted, strength):
    rng = np.random.default_rng(seed)
    n, k, c = 30 + sum(parts), 4, labels + new
    H = rng.standard_normal((n, k)) + 3 * rng.standard_normal(k)
    Y = (rng.random((n, c)) < 0.3).astype(float)
    Y[:30, labels:] = 0  # new labels come with the later rows
    w = rng.uniform(0.5, 2, n) if weighted else np.ones(n)
    fourier = draw("gaussian", H[:30], 7) if kernel else None
    first = sparse.csr_array(Y[:30, :labels])
    statistics = CPU.statistics(H[:30], first, fourier, w[:30])
    decoder, seen = fit_ridge(statistics, strength), Moments.of(statistics)
    start = 30
    for size in parts:
        rows = slice(start, start + size)
        found = learn_rows(decoder, H[rows], sparse.csr_array(Y[rows]), seen, strength, w[rows])
        decoder, seen = found.decoder, found.moments
        start += size
    Q, bias = dense_ridge(decoder.features(H), Y, strength, w)
    assert_allclose(decoder.weights, Q, rtol=1e-6, atol=1e-7 * np.abs(Q).max() + 1e-12)
    assert_allclose(decoder.bias, bias, rtol=1e-6, atol=1e-7)
    assert seen.total == pytest.approx(w.sum())


def lots():
    """Rows of ten labels, then more rows with these and two new ones."""
    X, Y = problem()
    old = Y.copy()
    old[:400, 10:] = 0
    return X, old


@pytest.mark.filterwarnings("ignore::rembrandt.errors.RembrandtWarning")
@pytest.mark.parametrize("more", [{}, KERNEL], ids=["linear", "kernel"])
def test_a_classifier_updated_is_ridge_on_the_rows_of_the_fit_and_the_new(more, tmp_path):
    X, Y = lots()
    classifier = RembrandtClassifier(**GROWABLE | more).fit(X[:400], sparse.csr_array(Y[:400, :10]))
    classifier.model_ = model = classifier.model_.with_shortlist()
    classifier.partial_fit(X[400:450], Y[400:450], classes=range(12))
    classifier.save(tmp_path / "model")
    again = load(tmp_path / "model")
    for one in (again, classifier):
        one.partial_fit(X[450:], [np.flatnonzero(row).tolist() for row in Y[450:]])
    Q, bias = dense_ridge(model.decoder.features(model.project(X)), Y, 0.01, np.ones(len(X)))
    for one in (again, classifier):
        assert_allclose(one.model_.decoder.weights, Q, rtol=1e-6, atol=1e-8)
        assert_allclose(one.model_.decoder.bias, bias, rtol=1e-6, atol=1e-8)
        assert one.n_train_ == 500 and one.classes_.tolist() == list(range(12))
        assert_array_equal(one.label_counts_, Y.sum(axis=0))
        assert [each["n_examples"] for each in one.settings_["updated"]] == [50, 50]
        assert_array_equal(one.embedding_[:10], model.embedding)
        assert not one.model_.has_shortlist, "it was of the weights that there were"
    assert_array_equal(classifier.projection_, model.projection)


@pytest.mark.filterwarnings("ignore::rembrandt.errors.RembrandtWarning")
def test_many_small_updates_in_float32_stay_with_one_large():
    X, Y = problem(n=900)
    X = X.astype(np.float32)
    start = RembrandtClassifier(**GROWABLE | KERNEL).fit(X[:300], sparse.csr_array(Y[:300]))
    scores = []
    for size in (600, 10):
        one = RembrandtClassifier(**start.get_params())
        one.__dict__ |= vars(start)
        for rows in range(300, 900, size):
            one.partial_fit(X[rows : rows + size], sparse.csr_array(Y[rows : rows + size]))
        scores.append(one.decision_function(X))
    assert_allclose(scores[1], scores[0], atol=2e-5)


def test_the_first_call_is_a_fit_and_more_examples_help():
    X, Y = problem(n=1500)
    classifier = RembrandtClassifier(random_state=0, **KERNEL)  # the decoder is open: ridge, for it can go on
    names = np.array([f"label {i}" for i in range(12)])
    lists = [[names[j] for j in np.flatnonzero(row)] for row in Y]
    classifier.partial_fit(X[:60], lists[:60])
    assert classifier.settings_["decoder"] == "ridge" and not classifier.growable
    before = classifier.score(X[1000:], lists[1000:])
    with pytest.warns(RembrandtWarning, match="900 of the 960 examples .* fit anew"):
        classifier.partial_fit(X[60:960], lists[60:960])
    assert classifier.score(X[1000:], lists[1000:]) > before
    assert "fit anew" in refit_due(classifier.model_)


def test_classes_may_come_before_their_examples():
    X, y = problem(several=False)
    y = y.argmax(axis=1)
    classifier = RembrandtClassifier(**SETTLED | KERNEL).partial_fit(X[:40], 1 * (X[:40, 0] > 0), range(12))
    assert classifier.classes_.tolist() == list(range(12))
    with pytest.warns(RembrandtWarning, match="outside the embedding"):
        classifier.partial_fit(X, y)
    assert classifier.score(X, y) > 0.3
    other = RembrandtClassifier(**SETTLED).partial_fit(X[:99], np.eye(12)[y[:99]], [f"c{i}" for i in range(12)])
    assert other.classes_[0] == "c0" and other.predict(X[:2]).shape == (2, 12)
    assert other.predict(X[:2]).dtype == np.float64


def test_texts_go_through_the_words_of_the_fit():
    texts = ["red apple", "green apple", "red car", "fast car"] * 10
    tags = [["fruit"], ["fruit"], ["vehicle"], ["vehicle"]] * 10
    classifier = RembrandtClassifier(**SETTLED | KERNEL).partial_fit(texts, tags)
    words = classifier.n_features_in_
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", RembrandtWarning)
        classifier.partial_fit(["fast boat", "red boat"] * 5, [["vehicle", "boat"]] * 10)
    assert any("fit anew" in str(each.message) for each in said), "half of what came is a label without a direction"
    assert classifier.n_features_in_ == words and set(classifier.classes_) == {"fruit", "vehicle", "boat"}
    assert classifier.predict_topk(["fast"], k=2)[0][0, 0] == "vehicle"


def test_what_lies_outside_is_what_the_embedding_lacks():
    X, Y = problem()
    model = RembrandtClassifier(**GROWABLE).fit(X, sparse.csr_array(Y)).model_
    assert outside(model, model.label_counts) == pytest.approx(0, abs=1e-12)
    new = np.append(np.zeros(12, int), 7)
    assert outside(model, new) == 1
    half = np.append(model.label_counts, model.label_counts.sum())
    assert outside(model, half) == pytest.approx(0.5)
    assert refit_due(model) is None


def test_what_cannot_go_on_says_so():
    X, Y = problem()
    Y = sparse.csr_array(Y)
    refused = {
        "fit it with growable=True": RembrandtClassifier(**SETTLED).fit(X, Y),
        "'logistic', which new": RembrandtClassifier(**GROWABLE | {"decoder": "logistic", "max_epochs": 1}).fit(X, Y),
        "decoder='logistic' does not keep; use decoder='ridge'": RembrandtClassifier(decoder="logistic"),
        "sparse=True does not keep; use": RembrandtClassifier(sparse=True),
    }
    for reason, classifier in refused.items():
        assert not hasattr(classifier, "partial_fit"), "scikit-learn asks in this way"
        with pytest.raises(AttributeError) as error:
            classifier.partial_fit(X, Y)
        assert isinstance(error.value.__cause__, SettingsError) and reason in str(error.value.__cause__)
        if hasattr(classifier, "model_"):
            with pytest.raises(SettingsError, match=reason):
                classifier.update_dataset(Dataset.from_arrays(X, Y))


@pytest.mark.parametrize(
    ("rows", "y", "more", "message"),
    [
        (3, np.ones((3, 2)), {}, "give classes"),
        (3, np.ones((3, 2)), {"classes": [1, 1]}, "twice"),
        (3, ["a", "b", "c"], {}, "same type"),
        (3, [1, 2], {}, "one label entry"),
        (3, [[], [], []], {}, "no example has a label"),
        (3, [1, 2, 3], {"sample_weight": np.zeros(3)}, "non-zero"),
        (3, [1, 2, 3], {"sample_weight": -np.ones(3)}, "negative"),
    ],
)
def test_what_is_given_is_checked(rows, y, more, message):
    X, Y = problem()
    classifier = RembrandtClassifier(**GROWABLE).fit(X, sparse.csr_array(Y))
    with pytest.raises(ValueError, match=message):
        classifier.partial_fit(X[:rows], y, **more)


def test_one_class_a_row_stays_so():
    X, Y = problem(several=False)
    classifier = RembrandtClassifier(**GROWABLE).fit(X, Y.argmax(axis=1))
    with pytest.raises(DataError, match="several labels"):
        classifier.partial_fit(X[:2], [[1, 2], [3]])
