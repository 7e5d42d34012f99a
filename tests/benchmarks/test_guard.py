"""The guard: identical versions are identical, and every kind of difference is reported."""

import inspect
import shutil
from dataclasses import replace

import numpy as np
import pytest
from benchmarks.guard_record import (
    CONFIGURATIONS,
    Record,
    classifier_of,
    common_settings,
    load_examples,
    record,
)

from benchmarks import guard

ROWS = 120


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("guard")
    guard.write_data(folder, ROWS)
    return folder


@pytest.fixture(scope="module")
def recorded(data):
    kind, params = CONFIGURATIONS["ridge"]
    return record(load_examples(data, kind), params, "memory", "cpu")


def test_the_same_fit_is_identical(data, recorded):
    kind, params = CONFIGURATIONS["ridge"]
    again = record(load_examples(data, kind), params, "memory", "cpu")
    assert again.error is None
    assert again.labels.shape == (ROWS // 5, 5)
    assert again.arrays
    assert again.settings["parts"] == ["embedding"]
    assert again.settings["embedding.decoder"] == "ridge"
    assert guard.compare(recorded, again) == []


@pytest.mark.parametrize(
    ("configuration", "storage", "device"),
    [
        ("trees", "store", "cpu"),
        ("softmax", "store", "cpu"),
        ("candidates", "torch", "cpu,cpu"),
        ("growable", "memory", "cpu"),
        ("fast-features", "torch", "cpu,cpu"),
    ],
)
def test_other_configurations_are_recorded(data, configuration, storage, device):
    if storage == "torch":
        pytest.importorskip("torch")
    kind, params = CONFIGURATIONS[configuration]
    case = record(load_examples(data, kind), params, storage, device)
    assert case.error is None
    assert np.isfinite(case.probabilities).all()
    assert case.log_odds.shape[0] == ROWS // 5


def test_a_record_is_read_as_it_was_written(recorded, tmp_path):
    recorded.write(tmp_path / "ridge_memory")
    [(case, read)] = guard.read_records(tmp_path).items()
    assert case == ("ridge", "memory")
    assert guard.compare(recorded, read) == []


def test_a_changed_number_is_reported(recorded):
    log_odds = recorded.log_odds.copy()
    log_odds[3, 2] = np.nextafter(log_odds[3, 2], np.inf, dtype=log_odds.dtype)
    [difference] = guard.compare(recorded, replace(recorded, log_odds=log_odds))
    assert difference.startswith("log-odds by up to ")
    probabilities = recorded.probabilities + np.float32(0.25)
    changed = replace(recorded, probabilities=probabilities)
    assert guard.compare(recorded, changed) == ["probabilities by up to 2.5e-01"]


def test_a_changed_label_array_or_setting_is_reported(recorded):
    labels = recorded.labels.copy()
    labels[0, :2] = "another"
    name = next(iter(recorded.arrays))
    changed = replace(
        recorded,
        labels=labels,
        arrays=recorded.arrays | {name: "0"},
        settings=recorded.settings | {"embedding.ridge": 7},
    )
    assert guard.compare(recorded, changed) == [
        f"2 of {labels.size} labels",
        f"arrays: {name}",
        "settings: embedding.ridge",
    ]


def test_arrays_may_change_their_names():
    before = {"W": "1", "Q": "2", "b": "3"}
    assert guard.changed_arrays(before, {"projection": "1", "Q": "2", "bias": "3"}) == []
    assert guard.changed_arrays(before, {"projection": "1", "Q": "4", "bias": "5"}) == [
        "Q",
        "-b",
        "+bias",
    ]


def test_settings_of_all_versions_have_the_newest_names():
    older = {
        "scorers": ["trees"],
        "trees": {"cost": 1.0, "pairs": 9.0},
        "decoder": "ridge",
        "seconds": 2.0,
    }
    newest = {
        "parts": {
            "trees": {
                "kind": "trees",
                "view": "features",
                "settings": {"cost": 1.0, "max_example_node_pairs": 9.0},
            }
        },
    }
    expected = {"parts": ["trees"], "trees.cost": 1.0, "trees.max_example_node_pairs": 9.0}
    assert common_settings(older) == expected | {"embedding.decoder": "ridge"}
    assert common_settings(newest) == expected


@pytest.mark.parametrize("name", ["parts", "scorers"])
def test_a_parameter_has_the_name_that_the_package_offers(monkeypatch, name):
    class Classifier:
        def __init__(self, **params):
            self.params = params

    parameters = [
        inspect.Parameter(offered, inspect.Parameter.KEYWORD_ONLY)
        for offered in (name, "random_state", "device")
    ]
    Classifier.__init__.__signature__ = inspect.Signature(parameters)
    monkeypatch.setattr("rembrandt.RembrandtClassifier", Classifier)
    classifier = classifier_of({"parts": ("trees",)}, "cpu")
    assert classifier.params == {name: ("trees",), "random_state": 0, "device": "cpu"}


def test_errors_are_reported(data, recorded):
    failed = record(load_examples(data, "texts"), {"decoder": "none"}, "memory", "cpu")
    assert failed.error.startswith("SettingsError")
    assert guard.compare(failed, failed) == [f"both fail: {failed.error}"]
    assert guard.compare(recorded, failed)[0] == "before: no error"
    assert isinstance(failed, Record)


def test_a_commit_against_itself(monkeypatch, tmp_path, capsys):
    if shutil.which("git") is None or not (guard.ROOT / ".git").exists():
        pytest.skip("there is no git repository here")
    monkeypatch.setattr(guard, "CACHE", tmp_path)
    monkeypatch.setattr(guard, "QUICK_ROWS", ROWS)
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")  # the kernels of a new commit are not compiled
    assert guard.main(["HEAD", "HEAD", "--quick", "--only", "centroids,memory"]) == 0
    assert "centroids       memory    identical" in capsys.readouterr().out
    assert not list(tmp_path.glob("*/tree"))


def test_an_unknown_name_is_refused(capsys):
    with pytest.raises(SystemExit):
        guard.main(["HEAD", "--only", "everything"])
    assert "there is no everything; choose from fast, balanced" in capsys.readouterr().err
