"""``rembrandt suggest``, and corrections that ``fit`` and ``update`` read."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rembrandt import load, read
from rembrandt.data.views import as_views
from rembrandt.estimators.requests import prediction_model, rows_of
from rembrandt.suggesting import suggest

from .conftest import FAST, TABLE, Run

LABEL = "topic-00/label-000"


def write_corrections(path: Path, *answers: tuple[str, list[str], list[str]]) -> Path:
    lines = []
    for text, labels, rejected in answers:
        lines.append(json.dumps({"text": text, "labels": labels, "rejected": rejected}))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def texts(data: Path) -> list[str]:
    return read(data / "test.tsv", text=["title", "body"], unlabelled=True).texts or []


def test_texts_are_suggested(model: Path, data: Path, texts: list[str], run: Run) -> None:
    answer = run("suggest", model, data / "test.tsv", "--rows", 6, "--json").json["suggested"]
    assert [each["rank"] for each in answer] == [1, 2, 3, 4, 5, 6]
    classifier = load(model)
    rows = rows_of(classifier, texts)
    expected = suggest(prediction_model(classifier), as_views(rows), 6).rows
    assert [each["id"] for each in answer] == (expected + 1).tolist()
    assert [each["text"] for each in answer] == [texts[row] for row in expected]
    assert answer[0]["suggested"][0].keys() == {"label", "name", "probability"}
    again = run("suggest", model, data / "test.tsv", "--rows", 6, "--json").json["suggested"]
    assert again == answer
    shown = run("suggest", model, data / "test.tsv", "--rows", 2).out
    assert texts[expected[0]][:30] in shown and texts[expected[1]][:30] in shown


def test_corrected_texts_are_left_out(
    model: Path, data: Path, run: Run, tmp_path: Path, texts: list[str]
) -> None:
    first = run("suggest", model, data / "test.tsv", "--rows", 5, "--json").json["suggested"]
    answers = write_corrections(
        tmp_path / "answers.jsonl", *((each["text"], [LABEL], []) for each in first)
    )
    options = ("--corrections", answers, "--rows", len(texts), "--json")
    rest = run("suggest", model, data / "test.tsv", *options).json["suggested"]
    assert not {each["text"] for each in first} & {each["text"] for each in rest}
    for each in rest[:5]:
        assert texts[each["id"] - 1] == each["text"]
    everything = write_corrections(tmp_path / "all.jsonl", *((text, [LABEL], []) for text in texts))
    said = run("suggest", model, data / "test.tsv", "--corrections", everything, code=1).err
    assert "all examples were corrected" in said


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".txt"])
def test_suggestions_are_written(
    model: Path, data: Path, run: Run, tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / f"next{suffix}"
    said = run("suggest", model, data / "test.tsv", "--rows", 3, "--output", path).out
    assert f"Wrote 3 examples to {path}" in said
    content = path.read_text(encoding="utf-8")
    if suffix == ".csv":
        with path.open(newline="", encoding="utf-8") as file:
            table = list(csv.DictReader(file))
        assert [row["rank"] for row in table] == ["1", "2", "3"] and table[0]["text"]
    elif suffix == ".jsonl":
        first = json.loads(content.split("\n")[0])
        assert first.keys() == {"rank", "id", "text", "suggested"}
    assert content.count("\n") == 3 + (suffix == ".csv")
    assert (
        "already exists" in run("suggest", model, data / "test.tsv", "--output", path, code=1).err
    )


def test_features_are_suggested_by_number(feature_model: Path, data: Path, run: Run) -> None:
    answer = run("suggest", feature_model, data / "test.txt", "--rows", 2, "--json").json
    assert all("text" not in each and each["id"] >= 1 for each in answer["suggested"])


def test_fit_and_update_learn_corrections(
    model: Path, data: Path, run: Run, tmp_path: Path, texts: list[str]
) -> None:
    train = read(data / "train.tsv", text=["title", "body"], labels="tags", label_separator="|")
    old_text = (train.texts or [""])[0]
    answers = write_corrections(
        tmp_path / "answers.jsonl",
        (old_text, ["a new label"], [LABEL]),
        (texts[0], ["a new label", LABEL], []),
    )
    said = run(
        "fit",
        data / "train.tsv",
        "-o",
        tmp_path / "fitted",
        *TABLE,
        *FAST,
        "--corrections",
        answers,
    ).out
    assert "2 corrected texts with 3 accepted labels and 1 rejected label; 1 " in said
    fitted = load(tmp_path / "fitted")
    assert fitted.n_train_ == train.n_examples + 1
    column = fitted.classes_.tolist().index("a new label")
    assert fitted.label_counts_[column] == 2
    # The model was fitted to a table; a file of corrections is recognized all the same.
    updated = run("update", model, answers, "-o", tmp_path / "updated", "--json").json
    assert updated["added"] == ["a new label"] and updated["n_examples"] == 2
    measured: Any = run("evaluate", tmp_path / "fitted", answers, "--json").json
    assert 0 <= measured["p@1"] <= 1
    assert np.isin("a new label", load(tmp_path / "updated").classes_)
    refused = run(
        "fit", data / "train.txt", "-o", tmp_path / "no", "--corrections", answers, code=1
    ).err
    assert "corrections need examples that are texts" in refused and "--corrections" in refused
