"""Probabilities: they sum to one with one label a row, and do not depend on what else was asked
for.
"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from rembrandt import RembrandtClassifier
from rembrandt.blend import fit_blend
from rembrandt.candidates import collect, sample_unlisted
from rembrandt.estimators.requests import rows_of
from rembrandt.fitting import fit_model
from rembrandt.linalg.ranking import top_k
from rembrandt.metrics.hits import hits
from rembrandt.parts.trees.settings import TreeSettings
from rembrandt.predict import Request, all_probabilities, answer, indicator
from rembrandt.probabilities import is_blank, log_odds
from tests.estimators.problems import blobs, examples, settings_for, settled, several, skewed, words

COMMON = {
    "n_components": 8,
    "max_epochs": 3,
    "retrieves_labels": True,
    "trees": TreeSettings(n_trees=2, max_example_node_pairs=4e3, cost=1.0, passes=10),
}
CASES = {
    "ridge": {"decoder": "ridge"},
    "logistic": {"decoder": "logistic"},
    "discriminant": {"decoder": "discriminant"},
    "trees": {"parts": ("trees",)},
    "centroids": {"parts": ("centroids",)},
    "all": {"parts": ("trees", "centroids", "embedding")},
    "embedding retrieves no labels": {
        "parts": ("trees", "embedding"),
        "retrieves_labels": False,
    },
}


@pytest.fixture(scope="module", params=CASES)
def options(request):
    return COMMON | CASES[request.param]


@pytest.fixture(scope="module", params=[False, True], ids=["several labels", "one label"])
def model(request, options):
    """A model of 150 labels, more than a part lists, with a blend that was learned on held-out
    rows.
    """
    data, held = (
        replace(examples(*words(600, 150, 700, seed)), multiclass=request.param) for seed in (0, 1)
    )
    fitted = fit_model(data, settings_for(data, **options))
    rows = {name: part.prepare(held.X[:]) for name, part in fitted.parts.items()}
    candidates = collect(fitted.parts, rows, fitted.log_frequencies)
    true = hits(held.Y, candidates.labels).astype(bool)
    true_labels = held.Y.indices.reshape(-1, 1).astype(np.int64)
    unlisted = sample_unlisted(
        fitted.parts,
        rows,
        candidates,
        true_labels,
        fitted.log_frequencies,
        np.random.default_rng(0),
    )
    blend = fit_blend(candidates, true, unlisted, multiclass=request.param)
    return replace(fitted, blend=blend)


@pytest.fixture(scope="module")
def P(model):
    return all_probabilities(model, X)


X = words(50, 150, 700, seed=2)[0]
EVERY = np.arange(150)


def listed(model):
    """Which labels a part lists, n × c."""
    rows = {name: part.prepare(X) for name, part in model.parts.items()}
    candidates = collect(model.parts, rows, model.log_frequencies)
    is_listed = np.zeros((50, 151), dtype=bool)
    np.put_along_axis(is_listed, candidates.labels, True, axis=1)
    return is_listed[:, :150]


def assert_is_the_best_of(P, ranked, k, threshold, allowed):
    """Compare an answer with the ranking of all probabilities, bit by bit."""
    hidden = np.full(P.shape, -np.inf, dtype=np.float32)
    hidden[:, allowed] = P[:, allowed]
    labels, best = top_k(np.where(threshold <= P, hidden, -np.inf), max(1, min(k, 150)))
    width = (labels >= 0).sum(axis=1).max()
    assert_array_equal(ranked.labels, labels[:, :width])
    expected = np.where(labels < 0, 0, best)[:, :width]
    assert_array_equal(ranked.probabilities, expected)
    assert ranked.probabilities.dtype == np.float32


class TestWhatWasAsked:
    @settings(
        max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
    )
    @given(
        k=st.integers(1, 160),
        threshold=st.sampled_from([0.0, 1e-4, 0.01, 0.3]),
        include=st.none() | st.lists(st.integers(0, 149), min_size=1, unique=True),
        exclude=st.lists(st.integers(0, 149), unique=True, max_size=100),
    )
    def test_neither_k_nor_allowed_labels_change_a_probability(
        self, model, P, k, threshold, include, exclude
    ):
        allowed = np.setdiff1d(EVERY if include is None else include, exclude)
        ranked = answer(model, Request(X, k, threshold, allowed))
        assert_is_the_best_of(P, ranked, k, threshold, allowed)

    def test_they_are_those_of_all_labels(self, model, P):
        for k, allowed in ((5, EVERY), (150, EVERY), (7, np.arange(0, 150, 3))):
            ranked = answer(model, Request(X, k, allowed=allowed))
            assert ranked.labels.shape == (50, k)
            assert_is_the_best_of(P, ranked, k, 0.0, allowed)

    def test_the_best_few_are_the_first_of_more(self, model):
        more = answer(model, Request(X, 60))
        for k in (1, 2, 5, 10, 11, 30):
            few = answer(model, Request(X, k))
            assert_array_equal(few.labels, more.labels[:, :k])
            assert_array_equal(few.probabilities, more.probabilities[:, :k])

    def test_they_are_probabilities(self, model, P):
        assert P.shape == (50, 150) and ((P > 0) & (P < 1)).all()
        assert not model.multiclass or np.allclose(P.sum(axis=1), 1, atol=1e-5)
        assert model.blend.competing or not model.multiclass

    def test_labels_that_no_part_lists_are_less_likely_than_all_others(self, model, P):
        is_listed = listed(model)
        smallest = np.where(is_listed, P, np.inf).min(axis=1)
        largest_other = np.where(is_listed, 0, P).max(axis=1)
        assert (largest_other < smallest).all()

    def test_they_rise_with_the_log_odds(self, model, P):
        z = log_odds(P)
        assert z.dtype == np.float32 and np.isfinite(z).all()
        for row in range(50):
            order = np.argsort(P[row])
            assert (np.diff(z[row, order]) >= 0).all()
        inside = (P > 1e-6) & (P < 0.999)
        p = P.astype(np.float64)[inside]
        assert_allclose(z[inside], np.log(p / (1 - p)), rtol=1e-4, atol=1e-5)

    def test_log_odds_of_zero_and_one_are_finite(self):
        z = log_odds(np.float32([0, 1e-30, 0.5, 1]))
        assert np.isfinite(z).all() and (np.diff(z) > 0).all() and z[2] == 0

    def test_no_rows(self, model):
        assert all_probabilities(model, X[:0]).shape == (0, 150)
        assert log_odds(all_probabilities(model, X[:0])).shape == (0, 150)
        for request in (Request(X[:0], 3), Request(X[:0], threshold=0.5)):
            ranked = answer(model, request)
            assert ranked.labels.shape == ranked.probabilities.shape == (0, 0)


class TestThresholds:
    def test_label_sets_hold_what_reaches_the_threshold(self, options):
        data = examples(*skewed())
        model = fit_model(data, settings_for(data, **options))
        P = all_probabilities(model, data.X[:])
        for threshold in (0.2, 0.5, np.linspace(0.1, 0.9, 30)):
            sets = indicator(
                answer(model, Request(data.X[:], threshold=threshold)).labels, model.n_labels
            )
            assert sets.dtype == np.int8
            assert_array_equal(sets.toarray() == 1, threshold <= P)

    def test_all_labels_that_reach_it_however_many(self, options):
        """More than are listed, too."""
        data = examples(*words(600, 150, 700))
        model = fit_model(data, settings_for(data, **options))
        P = all_probabilities(model, X)
        for threshold in (0.0, 1e-3, np.linspace(0, 0.2, 150)):
            ranked = answer(model, Request(X, threshold=threshold))
            assert_array_equal(indicator(ranked.labels, 150).toarray() == 1, threshold <= P)
        assert answer(model, Request(X)).labels.shape == (50, 150)


class TestBlankTexts:
    @pytest.fixture(scope="class", params=[False, True], ids=["several labels", "one label"])
    @classmethod
    def classifier(cls, request):
        texts = ["red apple", "green pear", "fast car", "slow train"] * 12
        labels = np.array(["fruit", "fruit", "vehicle", "vehicle"] * 12)
        y = labels if request.param else [[label, "thing"] for label in labels]
        return RembrandtClassifier(**settled(n_components=2)).fit(texts, y)

    def test_they_have_no_labels_and_probabilities_of_zero(self, classifier):
        model = classifier.model_
        rows = rows_of(classifier, ["red apple", "xyzzy", "", "slow car"])
        assert is_blank(model, rows).tolist() == [False, True, True, False]
        P = all_probabilities(model, rows)
        assert not P[1:3].any() and (P[[0, 3]] > 0).all()
        for request in (
            Request(rows, 2),
            Request(rows),
            Request(rows, threshold=0.1),
            Request(rows, 2, tail=(0.55, 1.5)),
        ):
            ranked = answer(model, request)
            assert (ranked.labels[1:3] == -1).all() and not ranked.probabilities[1:3].any()
            assert (ranked.labels[[0, 3], 0] >= 0).all()

    def test_rows_of_features_are_never_blank(self):
        X, y = blobs()
        fitted = RembrandtClassifier(**settled()).fit(X, y)
        assert not is_blank(fitted.model_, np.zeros((2, 8))).any()
        assert_allclose(fitted.predict_proba(np.zeros((2, 8))).sum(axis=1), 1, atol=1e-5)


class TestClassifier:
    @pytest.mark.parametrize("decoder", ["ridge", "logistic", "transpose"])
    @pytest.mark.parametrize("noise", [0.2, 2.0])
    def test_with_one_class_a_row_the_most_probable_is_predicted(self, decoder, noise):
        X, y = blobs(noise=noise)
        fitted = RembrandtClassifier(**settled(decoder=decoder)).fit(X, y)
        P = fitted.predict_proba(X)
        assert P.shape == (len(X), 6) and (P >= 0).all()
        assert_allclose(P.sum(axis=1), 1, atol=1e-5)
        assert_allclose(
            np.take_along_axis(P, fitted.predict(X)[:, None], axis=1)[:, 0],
            P.max(axis=1),
            rtol=1e-5,
        )

    @pytest.mark.parametrize("decoder", ["ridge", "logistic"])
    def test_with_several_labels_a_row_they_are_right_on_average(self, decoder):
        X, Y = several()
        P = RembrandtClassifier(**settled(decoder=decoder)).fit(X, Y).predict_proba(X)
        assert ((P >= 0) & (P <= 1)).all()
        assert_allclose(P.mean(axis=0), Y.mean(axis=0), atol=0.05)

    def test_with_two_classes_the_score_is_the_margin_of_the_second(self):
        X, y = blobs(classes=2)
        fitted = RembrandtClassifier(**settled()).fit(X, np.array(["no", "yes"])[y])
        margin = fitted.decision_function(X)
        assert margin.shape == (len(X),)
        assert_array_equal(margin > 0, fitted.predict(X) == "yes")
        assert_array_equal(fitted.predict_proba(X)[:, 1] > 0.5, margin > 0)
