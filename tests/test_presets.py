"""Presets: values for what is open, and nothing else; a sparse part that answers alone, asked for by name."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone

from rembrandt import RembrandtClassifier, load
from rembrandt.blending import RARE_COST, USUAL_COST
from rembrandt.data.convert import convert
from rembrandt.errors import SettingsError
from rembrandt.presets import LOW_RANK, PRESETS, SPARSE, filled, values_of
from tests.scorers.test_trees import words

PARAMETERS = RembrandtClassifier().get_params(deep=False)
GIVEN = {
    "ridge": 2.0,
    "kernel_scale": 0.5,
    "sparse": True,
    "sparse_trees": 5,
    "sparse_pairs": 1e6,
    "sparse_cost": 0.7,
    "sparse_power": 2.5,
    "n_components": 3,
    "decoder": "transpose",
    "kernel": "laplacian",
    "decoder_ridge": 0.2,
    "normalize": True,
    "leave_out": 0.25,
    "sparse_share": 0.4,
}


def data(seed=0, n=400):
    return words(n, 30, 200, seed=seed)


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_fills_what_is_open_and_nothing_that_was_given(preset):
    values = values_of(preset, 30)
    assert values.keys() <= PARAMETERS.keys()
    assert all(PARAMETERS[name] == "auto" for name in values), "a preset can only fill what can be open"
    found = filled(preset, PARAMETERS | {"preset": preset}, 30)
    assert {name: found[name] for name in values} == values
    assert {name: found[name] for name in PARAMETERS if name not in values} == {
        name: value for name, value in (PARAMETERS | {"preset": preset}).items() if name not in values
    }
    for name, value in GIVEN.items():
        assert filled(preset, PARAMETERS | {name: value}, 30)[name] == value
    assert {name: filled(preset, PARAMETERS | GIVEN, 30)[name] for name in GIVEN} == GIVEN


def test_what_is_given_is_not_made_idle_by_a_preset():
    for name in LOW_RANK:
        assert filled("fast", PARAMETERS | {name: GIVEN[name]}, 30)["sparse"] is False
    for name in SPARSE:
        assert filled("balanced", PARAMETERS | {name: GIVEN[name]}, 30)["sparse"] is True
        assert filled("fast", PARAMETERS | {name: GIVEN[name]}, 30)["sparse"] == "alone"
        assert filled("fast", PARAMETERS | {name: GIVEN[name], "decoder": "ridge"}, 30)["sparse"] is True
    assert filled("best", PARAMETERS | {"growable": True}, 30)["sparse"] is False


def test_the_parameters_of_an_estimator_stay_as_they_were_given():
    X, Y = data()
    classifier = RembrandtClassifier(preset="fast", sparse_trees=2, random_state=0)
    before = classifier.get_params()
    classifier.fit(X, Y)
    assert classifier.get_params() == before
    again = clone(classifier).fit(X, Y)
    assert again.get_params() == before
    assert_array_equal(again.decision_function(X), classifier.decision_function(X))


def test_a_preset_is_the_fit_with_its_values():
    X, Y = data(n=150)
    quick = {"n_random_features": 20, "max_epochs": 2, "normalize": False, "random_state": 0}
    for preset in PRESETS:
        values = values_of(preset, Y.nnz / Y.shape[1])
        named = RembrandtClassifier(preset=preset, **quick).fit(X, Y)
        spelled = RembrandtClassifier(**values, **quick).fit(X, Y)
        assert_array_equal(named.decision_function(X), spelled.decision_function(X))
        assert named.settings_ == spelled.settings_
        assert named.selection_ == spelled.selection_ and named.blends_ == spelled.blends_


def test_where_labels_are_rare_examples_are_trusted_more():
    costs = [values_of("fast", per_label)["sparse_cost"] for per_label in (300.0, 40.0, 20.0, 8.0, 4.0, 0.5)]
    assert costs == sorted(costs) and costs[0] == costs[1] == USUAL_COST and costs[-1] == costs[-2] == RARE_COST


def test_fast_tries_nothing_and_finds_rare_labels(tmp_path):
    X, Y = data()
    fast = RembrandtClassifier(preset="fast", random_state=0).fit(X, Y)
    assert fast.selection_ == fast.blends_ == []
    assert fast.model_.blend == 1 and fast.model_.decoder.link == "identity"
    assert fast.score(X, Y) > 0.9
    fast.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.preset == "fast"
    assert_array_equal(again.predict_topk(X)[0], fast.predict_topk(X)[0])


def test_the_sparse_part_alone_is_a_share_of_one():
    X, Y = data()
    settled = {"sparse_trees": 1, "sparse_cost": 1.0, "sparse_power": 3.0, "random_state": 0}
    alone = RembrandtClassifier(sparse="alone", **settled).fit(X, Y)
    share = RembrandtClassifier(sparse=True, sparse_share=1.0, **settled).fit(X, Y)
    assert alone.settings_ == share.settings_
    assert_array_equal(alone.decision_function(X), share.decision_function(X))
    # Its cost is a choice like any other, and low rank has no part in it.
    chosen = RembrandtClassifier(sparse="alone", random_state=0).fit(X, Y)
    assert chosen.selection_ == [] and {trial["blend"] for trial in chosen.blends_} == {1.0}
    best = max(chosen.blends_, key=lambda trial: trial["quality"])
    tree = chosen.settings_["tree"]
    assert (tree["cost"], tree["power"]) == (best["cost"], best["power"])


def test_the_settings_that_were_chosen_give_the_same_model_without_a_search():
    X, Y = data()
    found = RembrandtClassifier(sparse=True, random_state=0, n_random_features=100).fit(X, Y)
    assert found.selection_ and found.blends_
    names = ("decoder", "decoder_ridge", "kernel", "kernel_scale", "normalize", "leave_out", "n_random_features")
    settings = {name: found.settings_[name] for name in names}
    tree = found.settings_["tree"]
    settings |= {"sparse_trees": tree["trees"], "sparse_pairs": tree["pairs"], "sparse_share": found.settings_["blend"]}
    settings |= {"sparse_cost": tree["cost"], "sparse_power": tree["power"]}
    again = RembrandtClassifier(**settings, random_state=0).fit(X, Y)
    assert again.selection_ == again.blends_ == []
    assert_array_equal(again.decision_function(X), found.decision_function(X))


@pytest.mark.parametrize(
    "wrong",
    [
        {"preset": "quick"},
        {"sparse": "only"},
        {"sparse": "alone", "sparse_share": 0.5},
        {"sparse": True, "sparse_share": 1.5},
        {"sparse": True, "sparse_cost": 0.0},
        {"sparse": True, "sparse_power": "high"},
        {"leave_out": 2.0},
        {"sparse": "alone", "growable": True},
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(SettingsError, match=next(iter(reversed(wrong)))):
        RembrandtClassifier(**wrong).fit(*data(n=120))


def test_a_store_has_the_sparse_part_of_its_rows(tmp_path):
    (tmp_path / "rows.svm").write_text("".join(f"{i % 3} {i % 3}:1 {3 + i % 5}:1\n" for i in range(30)))
    stored = convert([tmp_path / "rows.svm"], tmp_path / "store", rows=9).dataset()
    whole = replace(stored, X=stored.X[:])
    for settings in ({"preset": "fast"}, {"sparse": True}):
        found, expected = (
            RembrandtClassifier(**settings, random_state=0).fit_dataset(data).model_.forest for data in (stored, whole)
        )
        assert found.packed()[0].keys() == expected.packed()[0].keys()
        for name, array in expected.packed()[0].items():
            assert_array_equal(found.packed()[0][name], array)


def test_features_that_are_embedded_have_a_sparse_part_too():
    X, Y = data()
    fitted = RembrandtClassifier(preset="fast", method="pca", random_state=0).fit(X, Y)
    assert np.isfinite(fitted.decision_function(X)).all() and fitted.score(X, Y) > 0.9
