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
from rembrandt.fitting import fit_model
from rembrandt.metrics.hits import hits
from rembrandt.model.ranked import indicator, predicted_sets
from rembrandt.recipe import EmbeddingSettings, Recipe, TreeSettings
from rembrandt.scorers.blend import collect, fit_blend
from tests.estimators.problems import blobs, examples, settled, several, skewed, words

RECIPE = Recipe(
    n_components=8,
    embedding=EmbeddingSettings(leave_out=0.0, kernel_scale=1.0, max_epochs=3, proposes=True),
    trees=TreeSettings(n_trees=2, pairs=4e3, cost=1.0, passes=10),
)
CASES = {
    "ridge": replace(RECIPE, decoder="ridge"),
    "logistic": replace(RECIPE, decoder="logistic"),
    "discriminant": replace(RECIPE, decoder="discriminant"),
    "trees": replace(RECIPE, scorers=("trees",)),
    "centroids": replace(RECIPE, scorers=("centroids",)),
    "all": replace(RECIPE, scorers=("trees", "centroids", "embedding")),
    "embedding proposes nothing": replace(RECIPE, scorers=("trees", "embedding")).with_embedding(
        proposes=False
    ),
}


@pytest.fixture(scope="module", params=CASES)
def recipe(request):
    return CASES[request.param]


@pytest.fixture(scope="module", params=[False, True], ids=["several labels", "one label"])
def model(request, recipe):
    """A model of 150 labels, more than a scorer lists, with a blend that was learned on held-out
    rows.
    """
    data, held = (
        replace(examples(*words(600, 150, 700, seed)), multiclass=request.param) for seed in (0, 1)
    )
    fitted = fit_model(data, recipe)
    rows = {name: scorer.prepare(held.X[:]) for name, scorer in fitted.scorers.items()}
    found = collect(fitted.scorers, rows, fitted.log_counts)
    return replace(fitted, blend=fit_blend(found, hits(held.Y, found.labels), request.param))


X = words(50, 150, 700, seed=2)[0]
EVERY = np.arange(150)


def listed(model):
    """Which labels a scorer lists, n × c."""
    return model.features_at(X, EVERY).listed


class TestWhatWasAsked:
    @settings(
        max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
    )
    @given(
        k=st.integers(1, 160),
        include=st.none() | st.lists(st.integers(0, 149), min_size=1, unique=True),
        exclude=st.lists(st.integers(0, 149), unique=True, max_size=100),
    )
    def test_neither_k_nor_allowed_labels_change_a_probability(self, model, k, include, exclude):
        allowed = np.setdiff1d(EVERY if include is None else include, exclude)
        labels, found = model.top_k(X, k, allowed)
        z = model.features_at(X, EVERY)
        expected = np.take_along_axis(model._probabilities(z), np.maximum(labels, 0), axis=1)
        assert_allclose(found, np.where(labels < 0, 0, expected), rtol=2e-3, atol=1e-6)
        assert np.isin(labels, [*allowed, -1]).all()
        assert (np.diff(found, axis=1) <= 0).all()

    def test_they_are_those_of_all_labels(self, model):
        """With one label a row, labels that no scorer lists share what is left only where all
        labels are scored.
        """
        every, among = model.probabilities(X), listed(model)
        for k, allowed in ((5, None), (150, None), (7, np.arange(0, 150, 3))):
            labels, found = model.top_k(X, k, allowed)
            expected = np.take_along_axis(every, np.maximum(labels, 0), axis=1)
            compared = labels >= 0
            if model.multiclass:
                compared &= np.take_along_axis(among, np.maximum(labels, 0), axis=1)
            assert compared[:, :5].any()
            assert_allclose(found[compared], expected[compared], rtol=2e-3, atol=1e-6)

    def test_they_are_probabilities(self, model):
        P = model.probabilities(X)
        assert P.shape == (50, 150) and ((P >= 0) & (P <= 1)).all()
        assert not model.multiclass or np.allclose(P.sum(axis=1), 1, atol=1e-5)

    def test_they_rise_with_the_log_odds(self, model):
        z, P = model.log_odds(X), model.probabilities(X)
        for part in (listed(model), ~listed(model)):
            for row in range(50):
                order = np.argsort(z[row, part[row]])
                assert (np.diff(P[row, part[row]][order]) >= -1e-6).all()

    def test_no_rows(self, model):
        assert model.probabilities(X[:0]).shape == model.log_odds(X[:0]).shape == (0, 150)
        assert [part.shape for part in model.top_k(X[:0], 3)] == [(0, 3)] * 2
        assert predicted_sets(model, X[:0])[0].shape == (0, 0)


class TestThresholds:
    def test_label_sets_hold_what_reaches_the_threshold(self, recipe):
        data = examples(*skewed())
        model = fit_model(data, recipe)
        P = model.probabilities(data.X[:])
        for threshold in (0.2, 0.5, np.linspace(0.1, 0.9, 30)):
            found = indicator(
                predicted_sets(replace(model, threshold=threshold), data.X[:])[0], model.n_labels
            )
            near = np.abs(P - threshold) < 1e-5  # where rounding decides
            assert found.dtype == np.int8
            if (
                "trees" not in model.scorers
            ):  # all labels are candidates; the trees visit some clusters
                assert_array_equal((found.toarray() == 1) | near, (threshold <= P) | near)
            assert not (((found.toarray() == 1) & (threshold > P)) & ~near).any()


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
