"""Probabilities: they sum to one with one label a row, and do not depend on what else was asked for."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from rembrandt import RembrandtClassifier
from rembrandt.fitting import fit_model
from rembrandt.recipe import EmbeddingSettings, Recipe, TreeSettings
from rembrandt.selection import choose
from tests.estimators.problems import blobs, examples, settled, several, skewed, words

RECIPE = Recipe(
    n_components=8,
    embedding=EmbeddingSettings(leave_out=0.0, kernel_scale=1.0, max_epochs=3),
    trees=TreeSettings(n_trees=2, pairs=4e3, cost=1.0),
)
CASES = [
    {"scorers": ("embedding",), "decoder": "ridge"},
    {"scorers": ("embedding",), "decoder": "logistic"},
    {"scorers": ("trees",)},
    {"scorers": ("centroids",)},
    {"scorers": ("trees", "centroids", "embedding")},
]


@pytest.fixture(scope="module", params=CASES, ids=lambda case: "-".join((*case["scorers"], case.get("decoder", ""))))
def recipe(request):
    return replace(RECIPE, **request.param)


@pytest.fixture(scope="module", params=[False, True], ids=["several labels", "one label"])
def model(request, recipe):
    """A model of 150 labels, more than a scorer lists, with a blend that was learned."""
    train = replace(examples(*words(600, 150, 700)), multiclass=request.param)
    found = choose(train, recipe)
    return fit_model(train, found.recipe, found.blend, found.threshold)


X = words(50, 150, 700, seed=2)[0]


class TestWhatWasAsked:
    def test_neither_k_nor_allowed_labels_change_a_probability(self, model):
        every, listed = model.probabilities(X), model.features_at(X, np.arange(150)).listed
        for k, allowed in ((1, None), (7, None), (150, None), (7, np.arange(0, 150, 3)), (7, np.array([4]))):
            labels, found = model.top_k(X, k, allowed)
            expected = np.take_along_axis(every, np.maximum(labels, 0), axis=1)
            # With one label a row, those that are not listed share what is left so that all sum to one.
            known = np.take_along_axis(listed, np.maximum(labels, 0), axis=1) | (not model.multiclass)
            assert_allclose(found[known & (labels >= 0)], expected[known & (labels >= 0)], rtol=1e-3, atol=1e-6)
            assert (found[labels < 0] == 0).all()
            assert (np.diff(found, axis=1) <= 0).all()

    def test_they_are_probabilities(self, model):
        P = model.probabilities(X)
        assert P.shape == (50, 150) and ((P >= 0) & (P <= 1)).all()
        assert not model.multiclass or np.allclose(P.sum(axis=1), 1, atol=1e-5)

    def test_no_rows(self, model):
        assert model.probabilities(X[:0]).shape == (0, 150)
        assert [part.shape for part in model.top_k(X[:0], 3)] == [(0, 3)] * 2
        assert model.label_sets(X[:0]).shape == (0, 150)


class TestThresholds:
    def test_label_sets_hold_what_reaches_the_threshold(self, recipe):
        data = examples(*skewed())
        model = fit_model(data, recipe)
        P = model.probabilities(data.X[:])
        for threshold in (0.2, 0.5, np.linspace(0.1, 0.9, 30)):
            found = replace(model, threshold=threshold).label_sets(data.X[:])
            assert found.dtype == np.int8
            assert_array_equal(found.toarray() == 1, threshold <= P)


class TestClassifier:
    @pytest.mark.parametrize("decoder", ["ridge", "logistic", "transpose"])
    @pytest.mark.parametrize("noise", [0.2, 2.0])
    def test_with_one_class_a_row_the_most_probable_is_predicted(self, decoder, noise):
        X, y = blobs(noise=noise)
        fitted = RembrandtClassifier(**settled(decoder=decoder)).fit(X, y)
        P = fitted.predict_proba(X)
        assert P.shape == (len(X), 6) and (P >= 0).all()
        assert_allclose(P.sum(axis=1), 1, atol=1e-5)
        assert_allclose(np.take_along_axis(P, fitted.predict(X)[:, None], axis=1)[:, 0], P.max(axis=1), rtol=1e-5)

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
