"""Facts of a model: what is saved comes back, and anything else is refused."""

import json

import numpy as np
import pytest

from rembrandt import RembrandtClassifier, load
from rembrandt.errors import ModelError, StorageError
from rembrandt.model.facts import Facts, HeldOutMeasures, UpdateFacts
from rembrandt.model.folder import load_folder, save_folder
from tests.estimators.problems import blobs, settled

FACTS = Facts(
    version="1.2.3",
    memory_estimate=123_456,
    held_out=(
        HeldOutMeasures(("trees", "embedding"), 0.9, 0.5, 0.3, 0.8, 100),
        HeldOutMeasures(("trees",), 0.8, 0.4, 0.2, 0.7, 100),
        HeldOutMeasures(("embedding",), 0.7, 0.3, 0.1, 0.6, 100),
    ),
    calibration_error=0.01,
    updates=(
        UpdateFacts(2, 30, 0.25, ("the trees do not know the new labels",)),
        UpdateFacts(0, 5, 0.0, ()),
    ),
)


@pytest.mark.parametrize("facts", [FACTS, Facts(version="0.1")], ids=["all", "none"])
def test_they_come_back_from_json(facts):
    assert Facts.from_json(json.loads(json.dumps(facts.to_json(), allow_nan=False))) == facts


def test_an_update_is_added():
    update = UpdateFacts(1, 7, 0.5, ("something",))
    updated = FACTS.with_update(update)
    assert updated.updates == (*FACTS.updates, update)
    assert FACTS.n_updated == 35
    assert updated.n_updated == 42


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A model that was updated, in a folder."""
    X, y = blobs()
    classifier = RembrandtClassifier(**settled(growable=True)).fit(X, y)
    classifier.update(X[:30], y[:30])
    path = tmp_path_factory.mktemp("facts") / "model"
    classifier.save(path)
    return classifier, path


def test_those_of_a_model_are_saved_with_it(saved):
    classifier, path = saved
    facts = load(path).facts_
    assert facts == classifier.facts_
    assert facts.updates == (UpdateFacts(0, 30, facts.updates[0].outside, ()),)
    assert facts.held_out[0].parts == ("embedding",)
    assert facts.held_out[0].p1 > 0.9
    assert 0 <= facts.calibration_error < 0.2
    assert facts.memory_estimate > 0


MISSING = object()
DAMAGED = {
    "none": ((), None),
    "a list": ((), []),
    "no version": (("version",), MISSING),
    "a version that is a number": (("version",), 3),
    "no estimate": (("memory_estimate",), MISSING),
    "a negative estimate": (("memory_estimate",), -1),
    "an estimate in words": (("memory_estimate",), "much"),
    "no measures": (("held_out",), MISSING),
    "measures that are a number": (("held_out",), 7),
    "measures that are a text": (("held_out",), "good"),
    "measures that are a dictionary": (("held_out",), {"parts": []}),
    "measures without parts": (("held_out", 0, "parts"), MISSING),
    "parts that are a number": (("held_out", 0, "parts"), 4),
    "a measure in words": (("held_out", 0, "p@1"), "high"),
    "a measure that is none": (("held_out", 0, "quality"), None),
    "a negative number of examples": (("held_out", 0, "held_out"), -5),
    "a calibration error in words": (("calibration_error",), "small"),
    "no updates": (("updates",), MISSING),
    "updates that are a number": (("updates",), 1),
    "an update without examples": (("updates", 0, "n_examples"), MISSING),
    "a negative number of labels": (("updates", 0, "n_labels"), -1),
    "a share in words": (("updates", 0, "outside"), "half"),
    "nothing that was missed": (("updates", 0, "missed"), None),
}


def with_damage(facts, keys, value):
    """Return facts in which one entry is another value, or is missing."""
    if not keys:
        return value
    *path, last = keys
    damaged = json.loads(json.dumps(facts))
    entry = damaged
    for key in path:
        entry = entry[key]
    if value is MISSING:
        del entry[last]
    else:
        entry[last] = value
    return damaged


@pytest.mark.parametrize("damage", DAMAGED)
def test_damaged_facts_are_refused(saved, damage, tmp_path):
    _, path = saved
    arrays, metadata = load_folder(path)
    facts = with_damage(metadata["facts"], *DAMAGED[damage])
    save_folder(tmp_path / "other", arrays, metadata | {"facts": facts})
    with pytest.raises(ModelError, match="again") as refused:
        load(tmp_path / "other")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_numbers_that_are_not_finite_are_refused(value):
    for keys in (("calibration_error",), ("held_out", 0, "p@3"), ("updates", 0, "outside")):
        with pytest.raises(StorageError, match="not a number that is valid here"):
            Facts.from_json(with_damage(FACTS.to_json(), keys, value))
