"""Parameters, presets and what they resolve to; refusals name the parameter; JSON both ways."""

import inspect
import json
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.linear_model import Ridge

from rembrandt import Dataset, LabelEmbedder, RembrandtClassifier, recipe
from rembrandt.data.convert import convert, write_store
from rembrandt.data.rows import as_rows, label_feature_pairs
from rembrandt.errors import SettingsError
from rembrandt.recipe import (
    DECODERS,
    EMBEDDING_PARAMETERS,
    METHODS,
    PRESETS,
    SCORERS,
    EmbeddingSettings,
    Recipe,
    TreeSettings,
    resolve,
)
from rembrandt.settings import merged, with_defaults
from tests.estimators.problems import blobs, examples, several

PARAMETERS = RembrandtClassifier(random_state=0).get_params(deep=False)
GIVEN = {
    "n_components": 3,
    "method": "plst",
    "ridge": 2.0,
    "decoder": "logistic",
    "decoder_ridge": 0.2,
    "kernel": "laplacian",
    "embedding": EmbeddingSettings(
        n_iter=2, leave_out=0.25, kernel_scale=0.5, n_random_features=50, proposes=True
    ),
}


def resolved(data=None, **given):
    X, Y = several()
    return resolve(PARAMETERS | given, examples(sparse.csr_array(X), Y) if data is None else data)


class TestParameters:
    def test_there_are_at_most_20(self):
        assert len(inspect.signature(RembrandtClassifier).parameters) <= 20

    def test_the_recipe_has_the_names_of_the_parameters(self):
        known = {field.name for field in fields(Recipe)} - {"seed"}
        assert known < PARAMETERS.keys()

    def test_the_defaults_of_the_embedding_are_those_of_the_classifier(self):
        assert {name: PARAMETERS[name] for name in EMBEDDING_PARAMETERS} == EMBEDDING_PARAMETERS


class TestPresets:
    def test_each_has_its_scorers(self):
        found = {preset: resolved(preset=preset).scorers for preset in PRESETS}
        assert found == {"fast": ("trees", "centroids"), "balanced": SCORERS, "best": SCORERS}
        assert resolved(examples(*several()), preset="fast").scorers == (
            "centroids",
            "embedding",
        )  # dense features

    def test_fast_has_the_embedding_where_features_are_few_and_trees_take_long(self, monkeypatch):
        monkeypatch.setattr(recipe, "CHEAP_TREES", 0)
        X, Y = several()
        assert resolved(preset="fast").scorers == ("centroids", "embedding")
        wide = sparse.csr_array(sparse.hstack([X, sparse.csr_array((len(X), 100))], format="csr"))
        assert resolved(examples(wide, Y), preset="fast").scorers == ("trees", "centroids")

    def test_long_rows_have_fewer_pairs_on_the_first_level_of_a_fast_tree(self, monkeypatch):
        X, Y = several()
        monkeypatch.setattr(recipe, "FAST_ENTRIES", 1e6)
        data = examples(sparse.csr_array(X), Y)
        assert resolved(data, preset="fast").trees.pairs == 1e6 * data.n / data.X.nnz
        assert resolved(data, preset="balanced").trees.pairs == PRESETS["balanced"].trees.pairs
        assert resolved(data, preset="fast", trees=TreeSettings(pairs=5e6)).trees.pairs == 5e6

    @pytest.mark.parametrize("preset", PRESETS)
    @pytest.mark.parametrize("budget", [None, 60.0])
    def test_what_is_given_stands(self, preset, budget):
        expected = GIVEN | {"embedding": merged(PRESETS[preset].embedding, GIVEN["embedding"])}
        for name, value in GIVEN.items():
            recipe = resolved(preset=preset, budget=budget, **{name: value})
            assert getattr(recipe, name) == expected[name]
        everything = resolved(preset=preset, budget=budget, **GIVEN)
        assert {name: getattr(everything, name) for name in GIVEN} == expected
        trees = TreeSettings(n_trees=7, pairs=1e4, cost=0.7, power=2.5, beam=4, passes=3)
        recipe = resolved(preset=preset, budget=budget, trees=trees)
        assert recipe.trees == with_defaults(trees)

    def test_trees_are_filled_in_field_by_field(self):
        found = resolved(preset="fast", trees=TreeSettings(n_trees=5)).trees
        assert found == replace(resolved(preset="fast").trees, n_trees=5)
        assert "auto" not in (found.n_trees, found.pairs)

    def test_fewer_trees_for_a_large_store(self, tmp_path, monkeypatch):
        X, Y = several()
        names = [str(label) for label in range(Y.shape[1])]
        parts = [
            Dataset.build(
                sparse.csr_array(Y[rows].astype("f4")), sparse.csr_array(X[rows]), label_names=names
            )
            for rows in (slice(100), slice(100, None))
        ]
        stored = write_store(parts, tmp_path / "store").dataset()
        monkeypatch.setattr(
            recipe, "STORED_WEIGHTS", 3 * label_feature_pairs(as_rows(stored.X), stored.Y)
        )
        assert resolved(examples(stored.X, stored.Y)).trees.n_trees == 3
        assert (
            resolved(examples(stored.X, stored.Y), trees=TreeSettings(n_trees=4)).trees.n_trees == 4
        )
        assert (
            resolved(examples(stored.X, stored.Y), trees=TreeSettings(cost=1.0)).trees.n_trees == 3
        )
        monkeypatch.setattr(recipe, "STORED_WEIGHTS", 0)
        assert resolved(examples(stored.X, stored.Y)).trees.n_trees == 1
        assert resolved().trees.n_trees == 5

    def test_better_ones_have_more_of_everything(self):
        fast, balanced, best = (resolved(preset=preset) for preset in PRESETS)
        assert fast.trees.n_trees <= balanced.trees.n_trees <= best.trees.n_trees
        assert fast.trees.pairs <= balanced.trees.pairs <= best.trees.pairs
        assert set(fast.scorers) <= set(balanced.scorers) <= set(best.scorers)

    @pytest.mark.parametrize("preset", PRESETS)
    def test_held_out_rows_choose_the_cost_and_the_settings_of_the_embedding(self, preset):
        found = resolved(preset=preset, n_components="auto")
        own = ("n_components", "ridge", "decoder", "decoder_ridge", "kernel", "normalize")
        assert [getattr(found, name) for name in own] == ["auto"] * 6
        assert (
            found.trees.cost == found.embedding.leave_out == found.embedding.label_power == "auto"
        )

    def test_more_rows_have_fewer_random_features(self):
        def features(n, preset):
            Y = sparse.csr_array(
                (np.ones(n, np.float32), np.zeros(n, int), np.arange(n + 1)), shape=(n, 3)
            )
            found = resolved(examples(np.zeros((n, 1)), Y), preset=preset)
            assert found.kernel == (None if n > 10_000 else "auto")  # a kernel would take too long
            return found.embedding.n_random_features

        assert [features(n, "balanced") for n in (100, 10_000, 10**6)] == [4000, 1224, 1000]
        assert features(10_000, "best") > features(10_000, "balanced")
        given = resolved(embedding=EmbeddingSettings(n_random_features=70)).embedding
        assert given.n_random_features == 70


class TestProposals:
    def many(self):
        Y = sparse.csr_array(
            (np.ones(20, np.float32), np.arange(20), np.arange(21)), shape=(20, 10**6)
        )
        return examples(np.eye(20), Y)

    def test_the_embedding_searches_few_labels_or_where_no_other_scorer_does(self):
        assert resolved().embedding.proposes is True
        assert resolved(self.many()).embedding.proposes is False
        assert resolved(self.many(), scorers="embedding").embedding.proposes is True

    def test_what_is_given_stands(self):
        for proposes in (True, False):
            settings = EmbeddingSettings(proposes=proposes)
            assert resolved(embedding=settings).embedding.proposes is proposes
            assert resolved(self.many(), embedding=settings).embedding.proposes is proposes

    def test_a_model_needs_a_scorer_that_does(self):
        with pytest.raises(SettingsError, match="another scorer") as refused:
            resolved(scorers="embedding", embedding=EmbeddingSettings(proposes=False))
        assert refused.value.parameters == ("proposes",)


class TestScorers:
    @pytest.mark.parametrize("preset", PRESETS)
    @pytest.mark.parametrize("name", GIVEN)
    def test_a_parameter_of_the_embedding_adds_it_and_drops_nothing(self, preset, name):
        found = resolved(preset=preset, **{name: GIVEN[name]}).scorers
        assert set(found) == {*PRESETS[preset].scorers, "embedding"}

    @pytest.mark.parametrize("preset", PRESETS)
    def test_settings_of_the_trees_add_them_and_drop_nothing(self, preset):
        assert set(resolved(preset=preset, trees=TreeSettings(beam=20)).scorers) == {
            *PRESETS[preset].scorers,
            "trees",
        }

    @pytest.mark.parametrize("preset", PRESETS)
    def test_settings_without_a_value_add_nothing(self, preset):
        data = examples(*several())  # dense features, for which the preset fast has no trees
        plain = resolved(data, preset=preset)
        assert resolved(data, preset=preset, trees=TreeSettings()) == plain
        assert resolved(data, preset=preset, embedding=EmbeddingSettings()) == plain

    def test_a_regressor_adds_the_embedding(self):
        assert resolved(preset="fast", regressor=Ridge()).scorers == SCORERS

    @given(st.lists(st.sampled_from(SCORERS), min_size=1, max_size=5))
    def test_those_that_are_named_come_in_the_order_of_fitting(self, names):
        expected = tuple(name for name in SCORERS if name in names)
        for several_names in (tuple(names), list(names), set(names)):
            found = resolved(
                preset="fast", kernel="gaussian", trees=TreeSettings(), scorers=several_names
            )
            assert found.scorers == expected
        assert resolved(scorers=names[0]).scorers == (names[0],)

    @pytest.mark.parametrize("preset", PRESETS)
    def test_a_growable_model_has_an_embedding_with_a_ridge_decoder(self, preset):
        found = resolved(preset=preset, growable=True)
        assert (found.scorers, found.decoder, found.growable) == (("embedding",), "ridge", True)

    def test_rows_on_disk_have_the_same(self, tmp_path):
        (tmp_path / "rows.svm").write_text("".join(f"{i % 3} {i % 3}:1\n" for i in range(30)))
        X = convert([tmp_path / "rows.svm"], tmp_path / "store", rows=9).dataset().X
        data = replace(examples(np.eye(30, 3), np.arange(30) % 3), X=X)
        for preset in PRESETS:
            assert resolved(data, preset=preset).scorers == PRESETS[preset].scorers
        assert resolved(data, scorers="trees").scorers == ("trees",)


class TestRest:
    def test_the_transpose_has_no_kernel(self):
        assert resolved(decoder="transpose").kernel is None

    def test_with_one_label_a_row_there_is_no_threshold_to_choose(self):
        assert resolved(examples(*blobs()), threshold="macro").threshold == 0.5
        assert resolved(threshold="macro").threshold == "macro"
        assert resolved(threshold=1).threshold == 1.0

    def test_a_number_is_the_seed_and_a_generator_gives_one(self):
        assert resolved(random_state=17).seed == resolved(random_state=np.int64(17)).seed == 17
        first, second = (resolved(random_state=np.random.RandomState(0)).seed for _ in range(2))
        assert first == second and isinstance(first, int)


REFUSED = [
    {"preset": "quick"},
    {"scorers": "sparse"},
    {"scorers": ()},
    {"scorers": ("trees", 3)},
    {"n_components": 0},
    {"n_components": 2.5},
    {"n_components": True},
    {"method": "svd"},
    {"ridge": -1.0},
    {"ridge": float("nan")},
    {"decoder": "greedy"},
    {"decoder_ridge": "strong"},
    {"decoder_ridge": -1.0},
    {"kernel": "rbf"},
    {"decoder": "transpose", "kernel": "gaussian"},
    {"normalize": "l1"},
    {"regressor": 3},
    {"regressor": Ridge},
    {"method": "pca", "regressor": Ridge()},
    {"embedding": {"n_iter": 1}},
    {"trees": 3},
    {"growable": "yes"},
    {"scorers": ("trees",), "growable": True},
    {"trees": TreeSettings(beam=20), "growable": True},
    {"threshold": "best"},
    {"threshold": -0.5},
    {"threshold": 7},
    {"threshold": "auto"},
    {"method": "auto"},
    {"growable": "auto"},
    {"random_state": -1},
    {"random_state": "zero"},
    {"device": 3},
    {"budget": 0},
    {"budget": -1.0},
    {"budget": float("inf")},
    {"budget": "5m"},
]


class TestRefusals:
    @pytest.mark.parametrize(
        "given", REFUSED, ids=lambda given: "-".join(f"{k}={v}" for k, v in given.items())
    )
    def test_the_error_names_the_parameter(self, given):
        with pytest.raises(SettingsError) as refused:
            resolved(**given)
        *_, last = given
        assert refused.value.parameters == (last,)
        assert last in str(refused.value)

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("kernel_scale", 0.0),
            ("n_random_features", 0),
            ("leave_out", 1.5),
            ("leave_out", "half"),
            ("label_power", -0.5),
            ("row_power", 1.5),
            ("label_ridge", -1.0),
            ("projection_ridge", "none"),
            ("n_oversamples", -1),
            ("n_iter", 0.5),
            ("solver", "lu"),
            ("tol", -0.1),
            ("max_iter", 0),
            ("center", "yes"),
            ("proposes", "sometimes"),
            ("max_epochs", 0),
        ],
    )
    def test_settings_of_the_embedding_are_checked(self, name, value):
        with pytest.raises(SettingsError, match=name) as refused:
            resolved(embedding=EmbeddingSettings(**{name: value}))
        assert refused.value.parameters == (name,)

    @pytest.mark.parametrize("name", ["label_power", "row_power"])
    def test_labels_are_not_scaled_where_features_are_embedded(self, name):
        with pytest.raises(SettingsError, match="embeds the features") as refused:
            resolved(method="pca", embedding=EmbeddingSettings(**{name: 0.5}))
        assert refused.value.parameters == (name,)
        with pytest.raises(SettingsError, match="embeds the features"):
            LabelEmbedder(2, method="pca", **{name: 0.5}).fit(*blobs())
        LabelEmbedder(2, method="pca", **{name: 0}).fit(*blobs())

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("n_trees", 0),
            ("pairs", 0.0),
            ("cost", -1.0),
            ("power", "high"),
            ("threshold", -0.1),
            ("tolerance", 0),
            ("passes", 0),
            ("beam", 1.5),
        ],
    )
    def test_settings_of_the_trees_are_checked(self, name, value):
        with pytest.raises(SettingsError, match=name) as refused:
            resolved(trees=TreeSettings(**{name: value}))
        assert refused.value.parameters == (name,)


positive = st.floats(1e-6, 1e6)
auto = st.just("auto")
whole = st.integers(1, 10**6)
RECIPES = st.builds(
    Recipe,
    scorers=st.lists(st.sampled_from(SCORERS), min_size=1, unique=True).map(tuple),
    n_components=auto | whole,
    method=st.sampled_from(METHODS),
    ridge=auto | positive,
    decoder=st.sampled_from(("auto", *DECODERS)),
    decoder_ridge=auto | positive,
    kernel=st.sampled_from(("auto", None, "gaussian", "matern3")),
    normalize=auto | st.booleans(),
    embedding=st.builds(
        EmbeddingSettings,
        kernel_scale=auto | positive,
        n_random_features=st.none() | whole,
        leave_out=auto | st.floats(0, 1),
        label_power=auto | st.floats(0, 1),
        row_power=auto | st.floats(0, 1),
        proposes=auto | st.booleans(),
        solver=st.sampled_from(("auto", "cholesky", "pcg")),
        tol=positive,
        center=st.booleans(),
    ),
    trees=st.builds(
        TreeSettings, n_trees=auto | whole, pairs=auto | positive, cost=auto | positive, beam=whole
    ),
    growable=st.booleans(),
    threshold=st.sampled_from(("micro", "macro")) | st.floats(0, 1),
    seed=st.integers(0, 2**31 - 1),
)


class TestJson:
    @given(RECIPES)
    def test_there_and_back(self, recipe):
        facts = json.loads(json.dumps(recipe.to_json()))
        assert Recipe.from_json(facts) == recipe
        assert Recipe.from_json(facts | {"rank": 3, "quality": 0.5}) == recipe, (
            "facts about a fit are ignored"
        )

    def test_a_regressor_is_named_and_cannot_be_rebuilt(self):
        facts = Recipe(regressor=Ridge(alpha=3.0)).to_json()
        assert facts["regressor"] == "Ridge(alpha=3.0)"
        with pytest.raises(SettingsError, match="pass the object") as refused:
            Recipe.from_json(facts)
        assert refused.value.parameters == ("regressor",)

    @pytest.mark.parametrize("part", [None, "embedding", "trees"])
    @pytest.mark.parametrize(
        "value", [-1, 1e999, "x", [], [[]], {"a": 1}, "9" * 5000], ids=range(7)
    )
    def test_values_of_a_wrong_type_are_refused(self, part, value):
        """JSON from a checkpoint is not trusted: a setting has a possible value, or the recipe is
        refused.
        """
        facts = json.loads(json.dumps(PRESETS["best"].to_json()))
        inner = facts if part is None else facts[part]
        names = set(inner) - {"regressor"}
        for name in names:
            changed = {**inner, name: value}
            with pytest.raises(SettingsError) as refused:
                Recipe.from_json(changed if part is None else {**facts, part: changed})
            assert len(str(refused.value)) < 2500

    @pytest.mark.parametrize(
        "facts", [{}, [], "recipe", {"embedding": {}, "trees": {}, "scorers": 3}], ids=repr
    )
    def test_what_is_no_recipe_is_refused(self, facts):
        with pytest.raises(SettingsError):
            Recipe.from_json(facts)
