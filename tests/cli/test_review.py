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


def test_examples_like_those_with_labels_come_late(
    model: Path, data: Path, run: Run, tmp_path: Path, texts: list[str]
) -> None:
    plain = run("suggest", model, data / "test.tsv", "--rows", 3, "--json").json["suggested"]
    first = plain[0]["text"]
    header = "title\tbody\ttags"
    (tmp_path / "old.tsv").write_text(f"{header}\n{first}\t\t{LABEL}\n", encoding="utf-8")
    options = ("--history", tmp_path / "old.tsv", "--rows", len(texts), "--json")
    rest = run("suggest", model, data / "test.tsv", *options).json["suggested"]
    order = [each["text"] for each in rest]
    assert sorted(order) == sorted(texts) and order.index(first) > len(texts) // 2
    rows = rows_of(load(model), texts)
    labelled = rows_of(load(model), [f"{first} "])
    expected = suggest(prediction_model(load(model)), as_views(rows), 9, labelled=labelled).rows
    assert order[:9] == [texts[row] for row in expected]


def test_features_like_those_with_labels_come_late(
    feature_model: Path, data: Path, run: Run
) -> None:
    options = ("--history", data / "test.txt", "--rows", 2, "--json")
    answer = run("suggest", feature_model, data / "test.txt", *options).json
    assert len(answer["suggested"]) == 2  # everything is covered, and still there is an order
    vectors = ("--vectors", data / "vectors.npy", "--history", data / "test.txt")
    assert "leave out" in run("suggest", feature_model, data / "test.txt", *vectors, code=1).err


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


def test_an_update_learns_each_answer_once(
    model: Path, data: Path, run: Run, tmp_path: Path, texts: list[str]
) -> None:
    first = (texts[0], ["a new label"], [LABEL])
    answers = write_corrections(tmp_path / "answers.jsonl", first, (texts[1], [LABEL], []))
    updated = tmp_path / "updated"
    assert run("update", model, answers, "-o", updated, "--json").json["n_examples"] == 2
    before = {path.name: path.read_bytes() for path in updated.iterdir()}
    said = run("update", updated, answers).out
    assert "learned them before: 2 answers of" in said and "nothing to learn" in said
    weights = "weights.safetensors"
    assert (updated / weights).read_bytes() == before[weights]
    n_train = load(updated).n_train_

    # The file grows, and an answer changes.
    changed = (texts[1], ["a new label"], [LABEL])
    write_corrections(answers, first, (texts[1], [LABEL], []), (texts[2], [LABEL], []), changed)
    grown = run("update", updated, answers, "--json").json
    assert grown["n_examples"] == 2 and grown["left_out"] == 1
    assert load(updated).n_train_ == n_train + 2
    write_corrections(answers, (texts[1], [LABEL], []))
    assert (
        "Changed since the model learned them: 1 answer of" in run("update", updated, answers).out
    )
    assert "learned them before: 1 answer of" in run("update", updated, answers).out
    assert run("update", updated, answers, "--again", "--json").json["n_examples"] == 1


def test_answers_of_a_fit_are_not_learned_again(
    data: Path, run: Run, tmp_path: Path, texts: list[str]
) -> None:
    answers = write_corrections(tmp_path / "answers.jsonl", (texts[0], [LABEL], []))
    fit = ("fit", data / "train.tsv", "-o", tmp_path / "fitted", *TABLE, *FAST)
    run(*fit, "--corrections", answers)
    unchanged = run("update", tmp_path / "fitted", answers, "--json").json
    assert (unchanged["n_examples"], unchanged["left_out"], unchanged["updates"]) == (0, 1, [])
    run(*fit, "--force")
    assert run("update", tmp_path / "fitted", answers, "--json").json["n_examples"] == 1


def test_a_file_is_learned_once(model: Path, feature_model: Path, data: Path, run: Run) -> None:
    for fitted, suffix in ((model, "tsv"), (feature_model, "txt")):
        target = data / f"once-{suffix}"
        file = data / f"test.{suffix}"
        learned = run("update", fitted, file, "-o", target, "--json").json
        assert learned["left_out"] == 0
        header, *lines = file.read_text().splitlines(keepends=True)
        shuffled = data / f"shuffled.{suffix}"
        shuffled.write_text("".join([header, *reversed(lines)]))
        again = run("update", target, shuffled, "--json").json
        assert again["n_examples"] == 0 and again["n_train"] == learned["n_train"]
        fewer = data / f"fewer.{suffix}"
        n_fewer = len(lines) - 1
        if suffix == "txt":
            header = " ".join([str(n_fewer), *header.split()[1:]]) + "\n"
        fewer.write_text("".join([header, *lines[:-1]]))
        assert run("update", target, fewer, "--json").json["n_examples"] == n_fewer


def test_suggestions_for_other_tools(
    model: Path, data: Path, run: Run, tmp_path: Path, feature_model: Path
) -> None:
    suggest = ("suggest", model, data / "test.tsv", "--rows", 30)
    expected = run(*suggest, "--json").json["suggested"]
    threshold = load(model).threshold_
    tasks = tmp_path / "tasks.json"
    run(*suggest, "--for", "label-studio", "--output", tasks)
    records = tmp_path / "records.json"
    run(*suggest, "--for", "argilla", "--output", records)
    n_assigned = 0
    rows = zip(
        expected, json.loads(tasks.read_text()), json.loads(records.read_text()), strict=True
    )
    for document, task, record in rows:
        assigned = [label for label in document["suggested"] if label["probability"] >= threshold]
        labels = [label["label"] for label in assigned]
        n_assigned += len(labels)
        assert task["data"] | {"text": ""} == {
            "text": "",
            "id": document["id"],
            "rank": document["rank"],
        }
        assert task["data"]["text"] == record["fields"]["text"] == document["text"]
        assert record["id"] == str(document["id"])
        if not labels:
            assert "predictions" not in task and record["suggestions"] == {}
            continue
        [prediction] = task["predictions"]
        [choices] = prediction["result"]
        assert (choices["from_name"], choices["to_name"]) == ("labels", "text")
        assert choices["type"] == "choices"
        assert choices["value"]["choices"][: len(labels)] == labels
        suggestion = record["suggestions"]["labels"]
        assert suggestion["agent"] == prediction["model_version"] == model.name
        assert suggestion["value"] == choices["value"]["choices"]
        assert prediction["score"] == min(suggestion["score"]) >= threshold
    assert n_assigned > 0
    assert "name it with --output" in run(*suggest, "--for", "argilla", code=1).err
    wrong = run(*suggest, "--for", "argilla", "--output", tmp_path / "a.csv", code=2)
    assert ".json" in wrong.err
    features = ("suggest", feature_model, data / "test.txt", "--for", "argilla")
    assert "features" in run(*features, "--output", tmp_path / "f.json", code=1).err
