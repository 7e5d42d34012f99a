"""What a search may change: the usual settings come first, and what is given stays."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from rembrandt import RembrandtClassifier
from rembrandt.data.examples import Examples
from rembrandt.data.rows import as_rows
from rembrandt.recipe import EmbeddingSettings, Recipe, TreeSettings, resolve
from rembrandt.selection.candidates import Axis, axes, usual
from tests.estimators.problems import blobs, examples, several, words

PARAMETERS = RembrandtClassifier(random_state=0).get_params(deep=False)
DATA = examples(*words(600, 30, 200))
GIVEN = {
    "n_components": 7,
    "ridge": 0.5,
    "normalize": False,
    "kernel": "matern3",
    "decoder": "logistic",
    "decoder_ridge": 0.25,
}
INNER = {"kernel_scale": 0.7, "leave_out": 0.25, "label_power": 0.3}


def listed(data=DATA, effort=2, **given):
    recipe = resolve(PARAMETERS | given, data)
    return axes(data, recipe, effort), recipe


def values_of(found, name):
    [axis] = [axis for axis in found if name in axis.names]
    return {values[axis.names.index(name)] for values in axis.values}


@pytest.mark.parametrize("effort", [0, 1, 2])
class TestAxes:
    @pytest.mark.parametrize("name", GIVEN)
    def test_a_parameter_that_is_given_is_the_same_in_all(self, name, effort):
        assert values_of(listed(effort=effort, **{name: GIVEN[name]})[0], name) == {GIVEN[name]}

    @pytest.mark.parametrize("name", INNER)
    def test_a_setting_of_the_embedding_that_is_given_is_the_same_in_all(self, name, effort):
        found = listed(effort=effort, embedding=EmbeddingSettings(**{name: INNER[name]}))[0]
        assert values_of(found, name) == {INNER[name]}

    def test_settings_of_the_trees_that_are_given_are_kept(self, effort):
        assert len(values_of(listed(effort=effort)[0], "cost")) > 1
        assert values_of(listed(effort=effort, trees=TreeSettings(cost=0.7))[0], "cost") == {0.7}

    def test_no_value_comes_twice_and_nothing_is_open(self, effort):
        for axis in listed(effort=effort)[0]:
            assert len(set(axis.values)) == len(axis.values)
            assert not any("auto" in values for values in axis.values)

    def test_usual_values_leave_nothing_open_and_change_nothing_that_was_given(self, effort):
        found, recipe = listed(effort=effort, decoder_ridge=0.25)
        settled = usual(recipe, found)
        assert usual(settled, [axis.open_in(settled) for axis in found]) == settled
        open_fields = [f"{value}" for value in (vars(settled) | vars(settled.trees)).values()]
        open_fields += [f"{value}" for name, value in vars(settled.embedding).items() if name != "solver"]
        assert "auto" not in open_fields
        assert settled.decoder_ridge == 0.25 and settled.trees.n_trees == recipe.trees.n_trees

    def test_rows_of_unit_length_are_not_scaled(self, effort):
        X, y = blobs()
        unit = examples(X / np.linalg.norm(X, axis=1, keepdims=True), y)
        for data, scalings in ((examples(X, y), {True, False}), (unit, {False})):
            assert values_of(listed(data, effort)[0], "normalize") == scalings


class TestOpenIn:
    AXIS = Axis("embedding", ("decoder", "kernel"), (("ridge", None), ("ridge", "gaussian"), ("transpose", None)))

    def test_what_is_open_takes_each_value_once(self):
        assert self.AXIS.open_in(Recipe(decoder="auto", kernel="auto")) == self.AXIS
        found = self.AXIS.open_in(Recipe(decoder="auto", kernel=None))
        assert found.values == (("ridge", None), ("transpose", None))

    @given(st.sampled_from(["ridge", "logistic"]), st.sampled_from([None, "laplacian"]))
    def test_what_is_given_is_the_only_value(self, decoder, kernel):
        recipe = Recipe(decoder=decoder, kernel=kernel)
        [values] = self.AXIS.open_in(recipe).values
        assert self.AXIS.applied(recipe, values) == recipe

    def test_values_are_applied_where_they_belong(self):
        axis = Axis("embedding", ("ridge", "leave_out", "cost"), ((0.5, 0.25, 0.1),))
        found = axis.applied(Recipe(), axis.values[0])
        assert (found.ridge, found.embedding.leave_out, found.trees.cost) == (0.5, 0.25, 0.1)


def test_powers_of_equal_counts_are_not_tried():
    rows, more = several()
    data = examples(rows, np.where(more.sum(axis=1, keepdims=True) == 0, 1, more))
    found = listed(data, embedding=EmbeddingSettings(label_power="auto", row_power="auto"))[0]
    assert values_of(found, "row_power") == {0.0, 0.5}
    found = listed(embedding=EmbeddingSettings(label_power="auto", row_power="auto"))[0]
    assert values_of(found, "row_power") == {0.0} and len(values_of(found, "label_power")) == 3
    assert values_of(listed(method="pca")[0], "label_power") == {0.0}


def test_logistic_decoders_are_tried_with_one_label_a_row_and_where_they_are_quick():
    n = 10**6
    Y = sparse.csr_array((np.ones(n, np.float32), np.arange(n) % 1000, np.arange(n + 1)), shape=(n, 1000))
    large = Examples(as_rows(sparse.csr_array((n, 2000), dtype=np.float32)), Y, np.arange(1000), multiclass=True)
    quick = examples(*blobs())
    for data, tried in ((large, False), (quick, True), (replace(quick, multiclass=False), False)):
        assert ("logistic" in values_of(listed(data)[0], "decoder")) == tried
    assert "logistic" not in values_of(listed(quick, effort=0)[0], "decoder")


def test_ranks_are_at_most_what_the_data_have():
    assert values_of(listed()[0], "n_components") == {30}
