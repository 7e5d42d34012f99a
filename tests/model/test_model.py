"""Prediction: the best labels of blends are those of all probabilities, for whatever labels are
allowed.
"""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from rembrandt.fitting import fit_model
from rembrandt.linalg.ranking import top_k
from rembrandt.model.ranked import predicted_sets
from rembrandt.recipe import SCORERS, EmbeddingSettings, Recipe, TreeSettings
from rembrandt.scorers.blend import Blend
from tests.devices import PLACES
from tests.estimators.problems import examples, words

TREES = TreeSettings(n_trees=2, pairs=4e3, cost=1.0, passes=10, beam=1000)
SETTINGS = EmbeddingSettings(leave_out=0.0, kernel_scale=1.0, max_epochs=3)
BLENDS = [names for size in (2, 3) for names in combinations(SCORERS, size)]
SUBSETS = [("embedding",), ("trees",), *BLENDS]


def blend_of(names):
    """Weights of the kind that are learned: a label is more probable where a scorer lists it."""
    return Blend({name: (0.5 + at, 0.4, -0.3, 1.5) for at, name in enumerate(names)}, 0.1, -3.0)


def fitted(names, n_labels=60, multiclass=False, **changes):
    data = replace(examples(*words(600, n_labels, 5 * n_labels)), multiclass=multiclass)
    recipe = Recipe(scorers=names, n_components=4, trees=TREES, embedding=SETTINGS, **changes)
    return fit_model(data, recipe, blend_of(names)), data.X[:100]


class TestTopK:
    @pytest.mark.parametrize("names", SUBSETS, ids="-".join)
    @pytest.mark.parametrize("decoder", ["ridge", "logistic"])
    @pytest.mark.parametrize("n_labels", [60, 150])
    def test_it_is_the_top_of_all_probabilities(self, names, decoder, n_labels):
        """Of more labels than are listed too: a label that no scorer lists is not among the best
        here.
        """
        model, X = fitted(names, n_labels, decoder=decoder)
        full = model.probabilities(X)
        labels, likely = model.top_k(X, 3)
        assert_allclose(likely, top_k(full, 3)[1], rtol=1e-3, atol=1e-5)
        assert_allclose(np.take_along_axis(full, labels, axis=1), likely, rtol=1e-3, atol=1e-5)
        every, likely = model.top_k(X, n_labels)
        assert_array_equal(np.sort(every, axis=1), np.tile(np.arange(n_labels), (100, 1)))
        assert_allclose(likely, -np.sort(-full, axis=1), rtol=1e-3, atol=1e-5)
        allowed = np.array([2, 5, 8])
        found, likely = model.top_k(X, 5, allowed)
        assert set(found[:, :3].ravel()) == set(allowed.tolist())
        assert (found[:, 3:] == -1).all() and (likely[:, 3:] == 0).all()
        assert_allclose(likely[:, :3], -np.sort(-full[:, allowed], axis=1), rtol=1e-3, atol=1e-5)

    @pytest.mark.parametrize("names", SUBSETS, ids="-".join)
    @pytest.mark.parametrize("multiclass", [False, True])
    def test_no_rows_no_allowed_labels_and_more_than_all(self, names, multiclass):
        model, X = fitted(names, multiclass=multiclass)
        assert [part.shape for part in model.top_k(X[:0], 3)] == [(0, 3), (0, 3)]
        labels, likely = model.top_k(X[:4], 2, np.array([], dtype=np.int64))
        assert (labels == -1).all() and (likely == 0).all()
        labels, likely = model.top_k(X[:4], 70)
        assert (labels[:, 60:] == -1).all() and (likely[:, 60:] == 0).all()

    @pytest.mark.parametrize("names", SUBSETS, ids="-".join)
    def test_rows_are_scored_in_blocks(self, names, monkeypatch):
        model, X = fitted(names, multiclass=True)
        for scorer in model.scorers.values():
            monkeypatch.setattr(type(scorer), "block_rows", 7)
        blocks = (
            model.top_k(X, 4),
            model.probabilities(X),
            model.log_odds(X),
            predicted_sets(model, X)[0],
        )
        monkeypatch.undo()
        whole = (
            model.top_k(X, 4),
            model.probabilities(X),
            model.log_odds(X),
            predicted_sets(model, X)[0],
        )
        assert_array_equal(blocks[0][0], whole[0][0])
        assert_allclose(blocks[0][1], whole[0][1], rtol=1e-4)
        for found, expected in zip(blocks[1:], whole[1:], strict=True):
            assert_allclose(found, expected, rtol=1e-3, atol=1e-4)

    def test_an_embedding_that_proposes_nothing_ranks_what_the_trees_list(self):
        model, X = fitted(("trees", "embedding"))
        silent = replace(
            model, scorers=model.scorers | {"embedding": replace(model.embedding, proposes=False)}
        )
        trees = model.scorers["trees"]
        labels, _ = silent.top_k(X, 5)
        proposed = trees.top(trees.prepare(X), 10)[0]
        assert all(
            set(own) <= set(listed)
            for own, listed in zip(labels.tolist(), proposed.tolist(), strict=True)
        )
        expected = np.take_along_axis(silent.probabilities(X), labels, axis=1)
        assert_allclose(silent.top_k(X, 5)[1], expected, rtol=1e-3, atol=1e-5)

    @pytest.mark.parametrize("place", PLACES)
    @pytest.mark.parametrize("names", [("embedding",), ("trees", "embedding")], ids="-".join)
    def test_it_is_the_same_on_a_device(self, names, place):
        model, X = fitted(names)
        there = model.on(place())
        for allowed in (None, np.array([1, 4, 11])):
            for worth in (None, model.worth()):
                expected, found = (one.top_k(X, 3, allowed, worth=worth) for one in (model, there))
                assert (found[0] == expected[0]).mean() > 0.99, "except where rounding decides"
                assert_allclose(found[1], expected[1], rtol=1e-3, atol=1e-5)


class TestRest:
    def test_what_only_updates_need_can_be_dropped(self):
        model, X = fitted(("embedding",), growable=True)
        smaller = model.for_prediction()
        assert model.embedding.moments is not None and smaller.embedding.moments is None
        assert_array_equal(smaller.log_odds(X), model.log_odds(X))

    def test_names_of_labels_and_their_columns(self):
        model, _ = fitted(("trees",))
        assert (model.n_labels, model.n_features) == (60, 300)
        assert model.labels.columns([5, 59, 60]).tolist() == [5, 59, -1]
