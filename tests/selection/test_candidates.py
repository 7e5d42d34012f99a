"""Candidates of a search: they differ only in what is open, the usual settings come first, and none comes twice."""

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from scipy import sparse

from rembrandt import RembrandtClassifier
from rembrandt.data.examples import Examples
from rembrandt.data.rows import as_rows
from rembrandt.recipe import EmbeddingSettings, Recipe, TreeSettings, resolve
from rembrandt.selection.candidates import MOST, candidates, is_open, usual
from tests.estimators.problems import blobs, examples, several, words
from tests.test_recipe import RECIPES

PARAMETERS = RembrandtClassifier(random_state=0).get_params(deep=False)
DATA = examples(*words(600, 30, 200))
EMBEDDING = {
    "n_components": 7,
    "ridge": 0.5,
    "normalize": False,
    "kernel": "matern3",
    "decoder": "logistic",
    "decoder_ridge": 0.25,
}
INNER = {"kernel_scale": 0.7, "leave_out": 0.25}


def listed(data=DATA, budget=True, **given):
    recipe = resolve(PARAMETERS | {"budget": 60.0 if budget else None} | given, data)
    return candidates(data, recipe, budget), recipe


class TestWithABudget:
    @pytest.mark.parametrize("name", EMBEDDING)
    def test_a_parameter_that_is_given_is_the_same_in_all(self, name):
        assert len({getattr(one, name) for one in listed()[0].embedding}) > 1
        found = listed(**{name: EMBEDDING[name]})[0].embedding
        assert {getattr(one, name) for one in found} == {EMBEDDING[name]}
        assert len(found) > 1

    @pytest.mark.parametrize("name", INNER)
    def test_a_setting_of_the_embedding_that_is_given_is_the_same_in_all(self, name):
        assert len({getattr(one.embedding, name) for one in listed()[0].embedding}) > 1
        found = listed(embedding=EmbeddingSettings(**{name: INNER[name]}))[0].embedding
        assert {getattr(one.embedding, name) for one in found} == {INNER[name]}
        assert len(found) > 1

    def test_scaled_labels_are_candidates_where_they_are_open(self):
        rows, more = several()
        data = examples(rows, np.where(more.sum(axis=1, keepdims=True) == 0, 1, more))  # some rows have all labels
        found = listed(data, embedding=EmbeddingSettings(label_power="auto", row_power="auto"))[0].embedding
        assert found[0].embedding.row_power == 0 and found[1] != found[0]
        assert {one.embedding.row_power for one in found} == {0.0, 0.5}
        assert {one.embedding.label_power for one in found} == {0.0}, "labels are equally frequent"

    def test_settings_of_the_trees_that_are_given_are_kept(self):
        assert len({one.trees.cost for one in listed()[0].trees}) > 1
        found = listed(trees=TreeSettings(cost=0.7))[0]
        assert [one.trees.cost for one in found.trees] == [0.7]
        assert listed(trees=TreeSettings(power=2.5))[0].powers == (2.5,)
        assert listed()[0].n_trees == (1, 2), "as many as the preset has, and one"

    def test_scorers_that_are_named_are_the_only_ones(self):
        assert listed(scorers="embedding")[0].trees == []
        assert listed(scorers="trees")[0].embedding == []
        found = listed(scorers=("trees", "centroids", "embedding"))[0]
        assert [one.scorers for one in found.others] == [("centroids",)]
        assert found.all == [*found.others, *found.trees, *found.embedding]

    def test_a_growable_model_has_a_ridge_decoder(self):
        found = listed(growable=True)[0]
        assert found.trees == [] and {one.decoder for one in found.embedding} == {"ridge"}

    def test_the_usual_settings_come_first_and_then_those_with_one_change(self):
        found = listed()[0].embedding
        first = found[0]
        names = ("n_components", "ridge", "normalize", "kernel", "decoder", "decoder_ridge")
        assert [getattr(first, name) for name in names] == [30, 1.0, True, None, "ridge", 0.1]
        assert (first.embedding.kernel_scale, first.embedding.leave_out) == (1.0, 0.5)

        def changes(one):
            own = [getattr(one, name) != getattr(first, name) for name in ("n_components", "ridge", "normalize")]
            decoder = [one.decoder, one.decoder_ridge, one.embedding.leave_out]
            usual_decoder = [first.decoder, first.decoder_ridge, first.embedding.leave_out]
            kernel = (one.kernel, one.embedding.kernel_scale) != (first.kernel, first.embedding.kernel_scale)
            return sum(own) + (decoder != usual_decoder) + kernel

        counted = [min(2, changes(one)) for one in found]
        assert counted == sorted(counted) and counted[:2] == [0, 1]

    def test_the_same_seed_gives_the_same_list(self):
        assert listed()[0] == listed()[0]
        assert listed(random_state=1)[0].embedding != listed()[0].embedding


@pytest.mark.parametrize("budget", [False, True])
class TestEveryList:
    @pytest.mark.parametrize("multiclass", [False, True])
    def test_no_candidate_comes_twice(self, budget, multiclass):
        data = replace(DATA, multiclass=multiclass)
        found = listed(data, budget, scorers=("trees", "centroids", "embedding"))[0].all
        assert len(set(found)) == len(found) and len(found) <= MOST + 4

    def test_a_candidate_is_one_scorer_without_open_settings(self, budget):
        found, recipe = listed(budget=budget, scorers=("trees", "centroids", "embedding"))
        for one in found.all:
            assert len(one.scorers) == 1 and one.blend == (1.0,) and not is_open(one)
            assert not budget or one.scorers != ("embedding",) or one.n_components != "auto"
            kept = {"method", "regressor", "growable", "calibrate", "threshold", "seed"}
            assert all(getattr(one, name) == getattr(recipe, name) for name in kept)

    def test_rows_of_unit_length_are_not_scaled(self, budget):
        X, y = blobs()
        unit = examples(X / np.linalg.norm(X, axis=1, keepdims=True), y)
        for data, scalings in ((examples(X, y), {True, False}), (unit, {False})):
            assert {one.normalize for one in listed(data, budget, scorers="embedding")[0].embedding} == scalings

    def test_logistic_decoders_are_tried_with_one_label_a_row_and_where_they_are_quick(self, budget):
        def has_logistic(data):
            given = {"scorers": "embedding", "normalize": False}
            return any(one.decoder == "logistic" for one in listed(data, budget, **given)[0].embedding)

        n = 10**6
        Y = sparse.csr_array((np.ones(n, np.float32), np.arange(n) % 1000, np.arange(n + 1)), shape=(n, 1000))
        X = as_rows(sparse.csr_array((n, 2000), dtype=np.float32))
        assert not has_logistic(Examples(X, Y, np.arange(1000), multiclass=True))
        assert has_logistic(examples(*blobs())) and not has_logistic(DATA)


class TestWithoutABudget:
    def test_the_rank_comes_from_the_spectrum(self):
        assert {one.n_components for one in listed(budget=False)[0].embedding} == {"auto"}

    def test_there_are_few_kernels_and_the_usual_ridge(self):
        found = listed(budget=False)[0].embedding
        assert {one.kernel for one in found} == {None, "gaussian"} and {one.ridge for one in found} == {1.0}

    def test_a_trial_has_one_tree(self):
        found = listed(budget=False, trees=TreeSettings(n_trees=3))[0]
        assert found.n_trees == (1,) and {one.trees.n_trees for one in found.trees} == {1}


SETTLED = Recipe(
    scorers=("trees", "embedding"),
    blend=(0.5, 0.5),
    embedding=EmbeddingSettings(kernel_scale=1.0, leave_out=0.0),
    trees=TreeSettings(n_trees=1, pairs=1e6, cost=1.0, power=3.0),
)


class TestOpen:
    @pytest.mark.parametrize("name", ["decoder", "kernel", "decoder_ridge", "normalize", "ridge", "blend"])
    def test_a_parameter_is(self, name):
        assert is_open(replace(SETTLED, **{name: "auto"}))

    @pytest.mark.parametrize("name", ["kernel_scale", "label_power", "row_power"])
    def test_a_setting_of_the_embedding_is_where_there_is_one(self, name):
        opened = SETTLED.with_embedding(**{name: "auto"})
        assert is_open(opened) and not is_open(replace(opened, scorers=("trees",), blend=(1.0,)))

    def test_what_is_left_out_is_not_by_itself(self):
        opened = SETTLED.with_embedding(leave_out="auto")
        assert not is_open(opened) and usual(opened).embedding.leave_out == 0

    @pytest.mark.parametrize("name", ["cost", "power"])
    def test_a_setting_of_the_trees_is_where_there_are_trees(self, name):
        opened = SETTLED.with_trees(**{name: "auto"})
        assert is_open(opened) and not is_open(replace(opened, scorers=("embedding",), blend=(1.0,)))

    def test_a_rank_from_the_spectrum_is_not(self):
        assert not is_open(SETTLED) and not is_open(replace(SETTLED, n_components="auto"))

    @given(RECIPES)
    def test_usual_values_leave_nothing_open_and_change_nothing_that_was_given(self, recipe):
        found = usual(recipe)
        assert not is_open(found) and usual(found) == found
        for field in fields(Recipe):
            if field.name not in ("embedding", "trees") and getattr(recipe, field.name) != "auto":
                assert getattr(found, field.name) == getattr(recipe, field.name)
        for part in ("embedding", "trees"):
            for field in fields(getattr(recipe, part)):
                given = getattr(getattr(recipe, part), field.name)
                assert given == "auto" or getattr(getattr(found, part), field.name) == given


class TestPenalties:
    def test_a_linear_decoder_has_one_and_a_kernel_several(self):
        found = [one for one in listed()[0].embedding if one.decoder == "ridge"]
        of = {
            kernel is None: {one.decoder_ridge for one in found if one.kernel == kernel}
            for kernel in (None, "gaussian")
        }
        assert of[True] == {0.1} and of[False] == {0.03, 0.1, 0.3, 1.0}
