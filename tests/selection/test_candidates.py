"""What a search may change: only what is open, and the usual value of everything first."""

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from scipy import sparse

from rembrandt import RembrandtClassifier
from rembrandt.data.examples import Examples
from rembrandt.data.rows import as_rows
from rembrandt.recipe import EmbeddingSettings, Recipe, TreeSettings, resolve
from rembrandt.selection.candidates import RANK, Axis, axes, usual
from tests.estimators.problems import blobs, examples, several, words
from tests.test_recipe import RECIPES

PARAMETERS = RembrandtClassifier(random_state=0).get_params(deep=False)
DATA = examples(*words(600, 30, 200))
WIDE = examples(*words(600, 400, 1000))
EFFORTS = (0, 1, 2)
OPEN = {
    "n_components": 7,
    "ridge": 0.5,
    "normalize": False,
    "kernel": "matern3",
    "decoder": "logistic",
    "decoder_ridge": 0.25,
}
INNER = {"kernel_scale": 0.7, "leave_out": 0.25, "label_power": 0.3, "row_power": 0.2}


def listed(effort=2, data=DATA, **given):
    recipe = resolve(PARAMETERS | given, data)
    return axes(data, recipe, effort), recipe


def values(found, name):
    """All values of a setting."""
    return [
        value[axis.names.index(name)]
        for axis in found
        if name in axis.names
        for value in axis.values
    ]


def open_settings(recipe):
    own = [getattr(recipe, field.name) for field in fields(Recipe)]
    inner = [*vars(replace(recipe.embedding, solver="pcg")).values(), *vars(recipe.trees).values()]
    return [value for value in own + inner if isinstance(value, str) and value == "auto"]


class TestAxis:
    AXIS = Axis(
        "embedding",
        ("decoder", "kernel"),
        (("ridge", None), ("ridge", "gaussian"), ("logistic", None)),
    )

    def test_values_go_where_their_names_are(self):
        found = Axis("trees", ("cost", "n_trees"), ()).applied(Recipe(), (3.0, 2))
        assert found == Recipe(trees=TreeSettings(cost=3.0, n_trees=2))
        found = Axis("embedding", ("kernel", "kernel_scale"), ()).applied(
            Recipe(), ("gaussian", 0.5)
        )
        assert found == Recipe(kernel="gaussian", embedding=EmbeddingSettings(kernel_scale=0.5))

    def test_alternatives_agree_with_what_is_given(self):
        recipe = Recipe(decoder="auto", kernel="auto")
        assert self.AXIS.open_in(recipe) == self.AXIS
        assert self.AXIS.open_in(replace(recipe, kernel="matern3")).values == (
            ("ridge", "matern3"),
            ("logistic", "matern3"),
        )
        assert self.AXIS.open_in(replace(recipe, decoder="transpose", kernel=None)).values == (
            ("transpose", None),
        )


class TestAxes:
    @pytest.mark.parametrize("name", OPEN)
    def test_a_parameter_that_is_given_has_no_alternative(self, name):
        data = replace(WIDE, multiclass=True)
        assert len(set(values(listed(data=data)[0], name))) > 1
        assert set(values(listed(data=data, **{name: OPEN[name]})[0], name)) == {OPEN[name]}

    @pytest.mark.parametrize("name", INNER)
    def test_a_setting_of_the_embedding_that_is_given_has_no_alternative(self, name):
        given = EmbeddingSettings(
            **{"label_power": "auto", "row_power": "auto"} | {name: INNER[name]}
        )
        assert set(values(listed(embedding=given)[0], name)) == {INNER[name]}

    def test_a_cost_that_is_given_has_no_alternative(self):
        assert len(values(listed()[0], "cost")) > 1
        assert values(listed(trees=TreeSettings(cost=0.7))[0], "cost") == [0.7]

    @pytest.mark.parametrize("effort", EFFORTS)
    @pytest.mark.parametrize("multiclass", [False, True])
    def test_no_alternative_comes_twice_and_the_usual_one_is_the_same(self, effort, multiclass):
        found, recipe = listed(effort, replace(DATA, multiclass=multiclass))
        for axis in found:
            assert len(set(axis.values)) == len(axis.values) >= 1
            assert all(len(value) == len(axis.names) for value in axis.values)
        assert usual(recipe, found) == usual(
            recipe, listed(0, replace(DATA, multiclass=multiclass))[0]
        )

    def test_more_effort_is_more_alternatives(self):
        n = 2000
        Y = sparse.csr_array(
            (np.ones(n, np.float32), np.arange(n) % 1500, np.arange(n + 1)), shape=(n, 1500)
        )
        data = Examples(
            as_rows(sparse.csr_array((n, 2000), dtype=np.float32)),
            Y,
            np.arange(1500),
            multiclass=True,
        )
        sizes = [[len(axis.values) for axis in listed(effort, data)[0]] for effort in EFFORTS]
        assert (
            all(a <= b <= c for a, b, c in zip(*sizes, strict=True))
            and sizes[0] != sizes[1] != sizes[2]
        )

    @pytest.mark.parametrize("effort", EFFORTS)
    def test_rows_of_unit_length_are_not_scaled(self, effort):
        X, y = blobs()
        unit = examples(X / np.linalg.norm(X, axis=1, keepdims=True), y)
        for data, scalings in ((examples(X, y), [True, False]), (unit, [False])):
            assert values(listed(effort, data)[0], "normalize") == scalings

    def test_logistic_decoders_are_tried_with_one_label_a_row_and_where_they_are_quick(self):
        def has_logistic(data, effort=2):
            return "logistic" in values(listed(effort, data)[0], "decoder")

        n = 10**6
        Y = sparse.csr_array(
            (np.ones(n, np.float32), np.arange(n) % 1000, np.arange(n + 1)), shape=(n, 1000)
        )
        X = as_rows(sparse.csr_array((n, 2000), dtype=np.float32))
        assert not has_logistic(Examples(X, Y, np.arange(1000), multiclass=True))
        one = examples(*blobs())
        assert has_logistic(one) and not has_logistic(one, 0) and not has_logistic(DATA)

    @pytest.mark.parametrize("effort", EFFORTS)
    def test_an_embedding_of_features_is_not_transposed_and_labels_are_not_scaled(self, effort):
        found = listed(effort, method="pca")[0]
        assert "transpose" not in values(found, "decoder") and values(found, "label_power") == [0.0]

    def test_labels_are_scaled_where_that_makes_a_difference(self):
        rows, more = several()
        data = examples(rows, np.where(more.sum(axis=1, keepdims=True) == 0, 1, more))
        assert set(values(listed(data=data)[0], "row_power")) == {0.0, 0.5}
        alike = examples(np.eye(12), np.arange(12) % 4)
        assert (
            values(listed(data=alike)[0], "label_power")
            == values(listed(data=alike)[0], "row_power")
            == [0.0]
        )
        growable = listed(data=data, growable=True)[0]
        assert values(growable, "row_power") == [0.0] and set(values(growable, "decoder")) == {
            "ridge"
        }

    def test_no_rank_is_larger_than_the_data_allow(self):
        for effort in EFFORTS:
            assert values(listed(effort)[0], "n_components") == [30]
        assert max(values(listed(2, examples(*words(3000, 2000, 5000)))[0], "n_components")) == 1000

    def test_all_directions_are_tried_where_labels_are_few(self):
        few, many = (examples(*words(6000, labels, 5000)) for labels in (800, 1200))
        assert values(listed(1, few)[0], "n_components") == [RANK, few.n_labels]
        assert (
            values(listed(0, few)[0], "n_components")
            == values(listed(1, many)[0], "n_components")
            == [RANK]
        )


class TestUsual:
    @settings(deadline=None)
    @given(RECIPES)
    def test_usual_values_leave_nothing_open_and_change_nothing_that_was_given(self, recipe):
        if recipe.trees.n_trees == "auto" or recipe.trees.pairs == "auto":
            recipe = recipe.with_trees(n_trees=3, pairs=1e4)  # presets give these
        recipe = recipe.with_embedding(proposes=True)
        for effort in EFFORTS:
            found = usual(recipe, axes(DATA, recipe, effort))
            assert open_settings(found) == []
            for field in fields(Recipe):
                if (
                    field.name not in ("embedding", "trees")
                    and getattr(recipe, field.name) != "auto"
                ):
                    assert getattr(found, field.name) == getattr(recipe, field.name)
            for part in ("embedding", "trees"):
                for field in fields(getattr(recipe, part)):
                    given = getattr(getattr(recipe, part), field.name)
                    assert given == "auto" or getattr(getattr(found, part), field.name) == given


class TestPromising:
    axis = Axis("trees", ("cost",), ((1.0,), (0.3,), (0.1,), (3.0,)))

    @pytest.mark.parametrize(
        ("best", "tried", "expected"),
        [
            (1.0, [], [0.3, 0.1, 3.0]),
            (1.0, [0.3], [0.3, 3.0]),
            (0.3, [0.3], [0.3, 0.1]),
            (0.3, [0.3, 0.1], [0.3, 0.1]),
            (3.0, [0.3, 3.0], [3.0]),
        ],
    )
    def test_one_peak_is_assumed(self, best, tried, expected):
        known = [(value,) for value in tried]
        found = {
            value
            for (value,) in self.axis.values[1:]
            if self.axis.promising((value,), (best,), known)
        }
        assert found == set(expected)

    def test_pairs_of_settings_are_all_tried(self):
        pairs = Axis(
            "embedding", ("label_power", "row_power"), ((0.25, 0.5), (0.0, 0.0), (0.5, 0.5))
        )
        assert all(pairs.promising(values, (0.0, 0.0), [(0.0, 0.0)]) for values in pairs.values)
