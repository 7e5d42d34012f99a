"""The gain of a search, and the worth of the constants, on generated data."""

import json
from dataclasses import replace

import pytest
from benchmarks.search_gains import Change, applied, changes_of, left_out_gains

from benchmarks import search_gains
from rembrandt import candidates
from rembrandt.data.generated import labelled_documents
from rembrandt.linalg import logistic
from rembrandt.parts.allowance import ALLOWANCES
from rembrandt.parts.embedding import kind as embedding_kind
from rembrandt.search import holdout, trial

SETS = ("cooking", "bibtex")
ROWS = 300


@pytest.fixture
def generated(monkeypatch, tmp_path):
    """Two sets of generated documents in place of the files."""
    documents = {
        name: labelled_documents(500, n_topics=4, labels_per_topic=4, seed=seed)[0]
        for seed, name in enumerate(SETS)
    }
    monkeypatch.setattr(search_gains, "load_part", lambda name, part: documents[name])
    monkeypatch.setattr(embedding_kind, "FEWEST_RANDOM_FEATURES", 50)
    monkeypatch.setattr(embedding_kind, "MOST_RANDOM_FEATURES", 100)
    present = tmp_path / "train.tsv.gz"
    present.touch()
    monkeypatch.setattr(search_gains, "file_of", lambda name, part: (present, {}))
    return tmp_path


def test_every_alternative_is_blended_and_the_search_is_compared(generated, capsys):
    search_gains.gains(SETS, ROWS, "balanced", generated)
    document = json.loads((generated / "search_gains.json").read_text())
    assert [result["set"] for result in document["sets"]] == list(SETS)
    for result in document["sets"]:
        assert result["examples"] < ROWS
        assert {choice["part"] for choice in result["choices"]} == {"trees", "embedding"}
        for choice in result["choices"]:
            assert choice["figures"]["usual"] == result["usual"] > 30
            assert choice["figures"].keys() - {"usual"} <= choice["values"].keys()
            assert choice["searched"] == choice["figures"][choice["chosen"]]
    for row in document["gains"]:
        mean = sum(facts["gain"] for facts in row["sets"].values()) / len(row["sets"])
        assert row["gain"] == pytest.approx(mean)
    printed = capsys.readouterr().out
    assert "trees: cost" in printed
    assert "searched" not in printed.splitlines()[0]


def choice_of(chosen, **figures):
    return {
        "part": "trees",
        "names": ["cost"],
        "figures": figures,
        "chosen": chosen,
        "searched": figures[chosen],
    }


def test_a_search_is_compared_with_the_value_that_is_best_on_the_other_sets():
    results = [
        {"set": "a", "choices": [choice_of("0", usual=50.0, **{"0": 52.0, "1": 49.0})]},
        {"set": "b", "choices": [choice_of("usual", usual=40.0, **{"0": 41.0, "1": 44.0})]},
        # Here one value was too costly.
        {"set": "c", "choices": [choice_of("usual", usual=30.0, **{"0": 30.5})]},
    ]
    [row] = left_out_gains(results)
    assert row["sets"]["a"] == {"left_out": "0", "chosen": "0", "gain": 0.0}
    assert row["sets"]["b"] == {"left_out": "0", "chosen": "usual", "gain": -1.0}
    assert row["sets"]["c"] == {"left_out": "0", "chosen": "usual", "gain": -0.5}
    assert row["gain"] == pytest.approx(-0.5)


def test_without_other_sets_the_usual_settings_are_the_measure():
    [row] = left_out_gains([{"set": "a", "choices": [choice_of("0", usual=50.0, **{"0": 52.0})]}])
    assert row["sets"]["a"] == {"left_out": "usual", "chosen": "0", "gain": 2.0}


def test_constants_are_changed_one_at_a_time(generated, monkeypatch, capsys):
    some = [
        Change("n_trees", 2.0, 8),
        Change("rank", 0.5, 4),
        Change("PENALTY", 2.0, 2.0, logistic),
        Change("HELD_OUT_SHARE", 2.0, 1 / 3, holdout),
    ]
    monkeypatch.setattr(search_gains, "changes_of", lambda preset: some)
    search_gains.constants(SETS, ROWS, "balanced", generated)
    document = json.loads((generated / "search_constants.json").read_text())
    assert [row["name"] for row in document["constants"]] == [change.name for change in some]
    assert document["usual"].keys() == set(SETS)
    changes = {row["name"]: row["sets"] for row in document["constants"]}
    assert any(changes["rank"].values())
    assert any(changes["HELD_OUT_SHARE"].values())
    assert "rank × 0.5 = 4" in capsys.readouterr().out


def test_every_number_is_halved_and_doubled():
    by_name = {}
    for change in changes_of("balanced"):
        by_name.setdefault(change.name, []).append(change.value)
    allowance = ALLOWANCES["balanced"]
    assert by_name["n_trees"] == [round(allowance.n_trees / 2), 2 * allowance.n_trees]
    assert by_name["seconds"] == [allowance.seconds / 2, 2 * allowance.seconds]
    assert by_name["LIST_LENGTH"] == [5, 20]
    assert {name for _, name in search_gains.CONSTANTS} <= by_name.keys()
    assert "varies_settings" not in by_name


def test_a_number_that_is_0_is_left_as_it_is(monkeypatch):
    monkeypatch.setitem(ALLOWANCES, "fast", replace(ALLOWANCES["fast"], multiple=0.0))
    assert "multiple" not in {change.name for change in changes_of("fast")}


def test_a_changed_number_has_its_value_everywhere_and_only_then():
    before = ALLOWANCES["fast"]
    with applied(Change("LIST_LENGTH", 2.0, 20, candidates), "fast"):
        assert (candidates.LIST_LENGTH, trial.LIST_LENGTH) == (20, 20)
    assert (candidates.LIST_LENGTH, trial.LIST_LENGTH) == (10, 10)
    with applied(Change("rank", 0.5, 50), "fast"):
        assert ALLOWANCES["fast"].rank == 50
    assert ALLOWANCES["fast"] == before
