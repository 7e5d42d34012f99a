"""What `describe` says of a model: numbers as they are in it, and nothing of a part that it does
not have.
"""

import json

import numpy as np
import pytest
from scipy import sparse

from rembrandt import RembrandtClassifier, load
from rembrandt.fitting import fit_model
from rembrandt.model.description import describe, used_settings, why
from rembrandt.recipe import Recipe
from tests.estimators.problems import directions, examples, settled


@pytest.fixture(scope="module")
def fitted():
    X, Y = directions()
    given = settled(scorers=("trees", "centroids", "embedding"), threshold="macro")
    return RembrandtClassifier(**given).fit(X, sparse.csr_array(Y))


def test_every_number_is_that_of_the_model(fitted, tmp_path):
    found, model = fitted.describe(), fitted.model_
    json.dumps(found, allow_nan=False)
    facts = found["trained_on"]
    assert (facts["n_examples"], facts["n_labels"], facts["n_features"]) == (500, 12, 16)
    assert facts["labels_per_example"] == model.label_counts.sum() / 500
    assert "500 examples (features, 16 columns); 12 labels" in facts["words"]
    together = model.settings["blends"][0]
    assert together["scorers"] == list(model.scorers)
    assert found["quality"]["p@1"] == together["p@1"]
    assert found["quality"]["held_out"] == together["held_out"] > 0
    assert (
        found["threshold"]["value"]["smallest"] == model.threshold.min()
        and "of its own" in found["threshold"]["words"]
    )
    assert found["versions"]["fitted_with"] == found["versions"]["this"]
    sizes = {part["name"]: part["bytes"] for part in found["parts"]}
    assert sizes["labels"] > 0 and len(sizes) == len(model.scorers) + 1
    fitted.save(
        tmp_path / "model",
        extra={"reading": {"text": ["a"], "labels": "b", "label_separator": "|"}},
    )
    again = load(tmp_path / "model").describe()
    assert "labels in b, separated by '|'" in again["reading"]["words"]
    assert again["blends"] == found["blends"] and again["parts"] == found["parts"]


def test_the_blend_is_marked_and_one_candidate_for_each_scorer(fitted):
    found = fitted.describe()
    names = list(fitted.model_.scorers)
    assert [each["scorers"] for each in found["blends"] if each["chosen"]] == [names]
    assert [each["scorers"] for each in found["blends"]] == [names, *([name] for name in names)]
    won = [each for each in found["candidates"] if each["chosen"]]
    assert len(won) <= len(names)


@pytest.mark.parametrize(
    "names", [("trees",), ("centroids",), ("embedding",), ("trees", "centroids")]
)
def test_nothing_is_said_of_parts_that_the_model_does_not_have(names):
    X, Y = directions(n=80)
    recipe = Recipe(names, 4, kernel=None).with_trees(n_trees=2, pairs=3e7, cost=1.0, passes=10)
    model = fit_model(
        examples(X, sparse.csr_array(Y)), recipe.with_embedding(kernel_scale=1.0, leave_out=0.0)
    )
    found, scorers = describe(model), model.scorers
    said = json.dumps([found["chosen"]["words"], found["parts"], found["settings"]])
    for name, words in (("trees", "cost"), ("embedding", "rank"), ("embedding", "ridge")):
        assert (words in said) == (name in scorers)
    assert not {"trees"} - scorers.keys() & used_settings(model).keys()


def test_the_reasons_compare_the_blend_with_each_scorer_alone():
    reached = {("trees", "embedding"): 0.7, ("trees",): 0.5, ("embedding",): 0.6}
    blends = [
        {"scorers": list(s), "p@1": q, "quality": q, "held_out": 1200} for s, q in reached.items()
    ]
    settings = {"scorers": ["trees", "embedding"], "blends": blends}
    first, second = why(settings | {"multiclass": True})
    assert first == (
        "Trees and label embedding: the first label is right for 70.0 % of 1,200 held-out examples."
    )
    assert second == "P@1: 70.00 % together, 50.00 % trees alone, 60.00 % label embedding alone."
    _, second = why(settings)
    assert second.startswith("Mean of P@1 and nDCG@5: 70.00 % together, ")
    only = [blends[2], blends[2]]
    assert why({"scorers": ["embedding"], "blends": only}) == [
        "Label embedding alone: the first label is right for 60.0 % of 1,200 held-out examples."
    ]


def test_few_examples_say_that_nothing_was_compared():
    X, Y = directions(n=60)
    found = RembrandtClassifier(**settled()).fit(X, sparse.csr_array(Y)).describe()
    assert (
        found["quality"] is None
        and found["blends"] == []
        and "too few examples" in found["chosen"]["why"][0]
    )
    assert "too few examples to learn it" in found["threshold"]["words"]
    X, Y = directions(multiclass=True)
    found = RembrandtClassifier(**settled()).fit(X, np.argmax(Y, axis=1)).describe()
    assert found["threshold"]["words"] == "The most probable label is predicted."
