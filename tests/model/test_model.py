"""Prediction: the best labels of blends are those of all scores, for whatever labels are allowed."""

from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from rembrandt.fitting import fit_model
from rembrandt.linalg.ranking import top_k
from rembrandt.recipe import SCORERS, EmbeddingSettings, Recipe, TreeSettings
from tests.devices import PLACES
from tests.estimators.problems import examples, words

TREES = TreeSettings(n_trees=2, pairs=4e3, cost=1.0, beam=1000)
SETTINGS = EmbeddingSettings(leave_out=0.0, kernel_scale=1.0, max_epochs=3)
BLENDS = [names for size in (2, 3) for names in combinations(SCORERS, size)]


def fitted(names, n_labels=60, **changes):
    """Fit a model with fixed weights."""
    data = examples(*words(600, n_labels, 5 * n_labels))
    recipe = Recipe(scorers=names, n_components=4, trees=TREES, embedding=SETTINGS, **changes)
    return fit_model(data, recipe), data.X[:100]


class TestTopK:
    @pytest.mark.parametrize("names", BLENDS, ids="-".join)
    @pytest.mark.parametrize("decoder", ["ridge", "logistic"])
    @pytest.mark.parametrize("n_labels", [60, 150])
    def test_it_is_the_top_of_all_scores(self, names, decoder, n_labels):
        """With many more labels than candidates, labels that no scorer lists may be missed."""
        model, X = fitted(names, n_labels, decoder=decoder)
        full = model.probabilities(X)
        labels, scores = model.top_k(X, 3)
        if n_labels == 60:
            assert_allclose(scores, top_k(full, 3)[1], rtol=1e-3, atol=1e-5)
        assert (labels[:, 0] == top_k(full, 1)[0][:, 0]).mean() > 0.95
        assert_allclose(np.take_along_axis(full, labels, axis=1), scores, rtol=1e-3, atol=1e-5)
        allowed = np.array([2, 5, 8])
        found, scores = model.top_k(X, 5, allowed)
        assert set(found[:, :3].ravel()) == set(allowed.tolist())
        assert (found[:, 3:] == -1).all() and (scores[:, 3:] == 0).all()
        assert_allclose(scores[:, :3], -np.sort(-full[:, allowed], axis=1), rtol=1e-3, atol=1e-5)

    @pytest.mark.parametrize("names", [("embedding",), ("trees",), *BLENDS], ids="-".join)
    def test_no_rows_no_allowed_labels_and_more_than_all(self, names):
        model, X = fitted(names)
        assert [part.shape for part in model.top_k(X[:0], 3)] == [(0, 3), (0, 3)]
        labels, scores = model.top_k(X[:4], 2, np.array([], dtype=np.int64))
        assert (labels == -1).all() and (scores == 0).all()
        labels, scores = model.top_k(X[:4], 70)
        assert (labels[:, 60:] == -1).all() and (scores[:, 60:] == 0).all()

    @pytest.mark.parametrize("place", PLACES)
    @pytest.mark.parametrize("names", [("embedding",), ("trees", "embedding")], ids="-".join)
    def test_it_is_the_same_on_a_device(self, names, place):
        model, X = fitted(names)
        there = model.on(place())
        for allowed in (None, np.array([1, 4, 11])):
            for worth in (None, model.worth()):
                expected, found = (one.top_k(X, 3, allowed, worth=worth) for one in (model, there))
                assert (found[0] == expected[0]).mean() > 0.99, "except where rounding decides"
                assert_allclose(found[1], expected[1], rtol=1e-4, atol=1e-5)


class TestRest:
    def test_what_only_updates_need_can_be_dropped(self):
        model, X = fitted(("embedding",), growable=True)
        smaller = model.for_prediction()
        assert model.embedding.moments is not None and smaller.embedding.moments is None
        assert_array_equal(smaller.probabilities(X), model.probabilities(X))

    def test_names_of_labels_and_their_columns(self):
        model, _ = fitted(("trees",))
        assert (model.n_labels, model.n_features) == (60, 300)
        assert model.labels.columns([5, 59, 60]).tolist() == [5, 59, -1]
