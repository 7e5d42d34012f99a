"""What `describe` says of a model: numbers as they are in it, and nothing of a part that it does
not have.
"""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from rembrandt import RembrandtClassifier, load
from rembrandt.fitting import fit_model
from rembrandt.model.description import describe, why
from rembrandt.model.facts import HeldOutMeasures
from tests.estimators.problems import directions, examples, settings_for, settled


@pytest.fixture(scope="module")
def fitted():
    X, Y = directions()
    given = settled(parts=("trees", "centroids", "embedding"), threshold="macro")
    return RembrandtClassifier(**given).fit(X, sparse.csr_array(Y))


def test_every_number_is_that_of_the_model(fitted, tmp_path):
    description = fitted.describe()
    model = fitted.model_
    json.dumps(description, allow_nan=False)
    facts = description["trained_on"]
    assert (facts["n_examples"], facts["n_labels"], facts["n_features"]) == (500, 12, 16)
    assert facts["labels_per_example"] == model.label_counts.sum() / 500
    assert "500 examples (features, 16 columns); 12 labels" in facts["words"]
    together = model.facts.held_out[0]
    assert together.parts == tuple(model.parts)
    assert description["quality"]["p@1"] == together.p1
    assert description["quality"]["held_out"] == together.n_examples > 0
    assert description["quality"]["calibration_error"] == model.facts.calibration_error
    assert description["threshold"]["value"]["smallest"] == model.threshold.min()
    assert "of its own" in description["threshold"]["words"]
    assert description["versions"]["fitted_with"] == description["versions"]["this"]
    sizes = {entry["name"]: entry["bytes"] for entry in description["parts"]}
    assert sizes["labels"] > 0
    assert len(sizes) == len(model.parts) + 1
    assert description["chosen"]["facts"]["embedding"]["rank"] == fitted.embedding_.shape[1]
    fitted.save(
        tmp_path / "model",
        extra={"reading": {"text": ["a"], "labels": "b", "label_separator": "|"}},
    )
    again = load(tmp_path / "model").describe()
    assert "labels are in b, separated by '|'" in again["reading"]["words"]
    assert again["blends"] == description["blends"]
    assert again["parts"] == description["parts"]
    assert again["chosen"] == description["chosen"]


def test_the_blend_is_marked_and_followed_by_each_part_alone(fitted):
    description = fitted.describe()
    names = list(fitted.model_.parts)
    blends = description["blends"]
    assert [blend["parts"] for blend in blends if blend["chosen"]] == [names]
    assert [blend["parts"] for blend in blends] == [names, *([name] for name in names)]
    assert description["candidates"] == [], "nothing was searched"


def test_the_trials_of_a_search_are_candidates():
    X, Y = directions(n=200)
    params = settled(parts=("trees", "centroids"), preset="best")
    classifier = RembrandtClassifier(**params).fit(X, sparse.csr_array(Y))
    candidates = classifier.describe()["candidates"]
    assert len(candidates) == len(classifier.selection_) > 1
    chosen = [candidate["words"] for candidate in candidates if candidate["chosen"]]
    assert len(chosen) == len({words.split(" ")[0] for words in chosen})
    assert any(words.startswith("trees (") for words in chosen)


@pytest.mark.parametrize(
    "names", [("trees",), ("centroids",), ("embedding",), ("trees", "centroids")]
)
def test_nothing_is_said_of_parts_that_the_model_does_not_have(names):
    X, Y = directions(n=80)
    data = examples(X, sparse.csr_array(Y))
    model = fit_model(data, settings_for(data, parts=names, n_components=4))
    description = describe(model)
    sections = [description["chosen"]["words"], description["parts"], description["settings"]]
    text = json.dumps(sections)
    for name, word in (("trees", "cost"), ("embedding", "rank"), ("embedding", "ridge")):
        assert (word in text) == (name in names)


def with_measures(model, *measures):
    """Return the model with held-out measures: names of parts, and what they reached."""
    held_out = tuple(HeldOutMeasures(parts, q, q, q, q, 1200) for parts, q in measures)
    return replace(model, facts=replace(model.facts, held_out=held_out))


def test_the_reasons_compare_the_blend_with_each_part_alone():
    X, Y = directions(n=80)
    data = examples(X, sparse.csr_array(Y))
    model = fit_model(data, settings_for(data, parts=("trees", "embedding"), n_components=4))
    measured = with_measures(
        model, (("trees", "embedding"), 0.7), (("trees",), 0.5), (("embedding",), 0.6)
    )
    first, second = why(replace(measured, multiclass=True))
    assert first == (
        "Trees and label embedding: the first label is right for 70.0 % of 1,200 held-out examples."
    )
    assert second == "P@1: 70.00 % together, 50.00 % trees alone, 60.00 % label embedding alone."
    _, second = why(measured)
    assert second.startswith("Mean of P@1 and nDCG@5: 70.00 % together, ")
    alone = with_measures(model, (("embedding",), 0.6), (("embedding",), 0.6))
    assert why(alone) == [
        "Label embedding: the first label is right for 60.0 % of 1,200 held-out examples."
    ]


def test_few_examples_say_that_nothing_was_compared():
    X, Y = directions(n=60)
    description = RembrandtClassifier(**settled()).fit(X, sparse.csr_array(Y)).describe()
    assert description["quality"] is None
    assert description["blends"] == []
    assert "too few examples" in description["chosen"]["why"][0]
    assert "too few examples to learn it" in description["threshold"]["words"]


def test_with_one_label_a_row_there_is_no_threshold():
    X, Y = directions(multiclass=True)
    description = RembrandtClassifier(**settled()).fit(X, np.argmax(Y, axis=1)).describe()
    assert description["threshold"]["words"] == "The most probable label is predicted."
