"""The verbs that look into a model, as a user types them."""

from pathlib import Path

import pytest

from tests.cli.conftest import Run


def test_explain_says_what_each_word_adds(data: Path, model: Path, run: Run) -> None:
    answer = run("explain", model, data / "test.tsv", "-k", 2, "--rows", 3, "--json").json["explanations"]
    assert [len(each) for each in answer] == [2, 2, 2]
    predicted = run("predict", model, data / "test.tsv", "-k", 2, "--json").json["predictions"]
    for explained, wanted in zip(answer, predicted, strict=False):
        for entry, label in zip(explained, wanted, strict=True):
            assert entry["label"] == label["label"] and entry["score"] == pytest.approx(label["score"], abs=1e-4)
            total = entry["base"] + entry["rest"] + sum(word["contribution"] for word in entry["words"])
            assert total == pytest.approx(entry["score"], abs=1e-9)


def test_explain_takes_a_label_and_standard_input(data: Path, model: Path, run: Run) -> None:
    text = (data / "test.tsv").read_text().splitlines()[1].split("\t")[1]
    said = run("explain", model, "-", "--label", "topic-00/label-000", input=text + "\n").out
    assert "topic-00/label-000: " in said and text.split()[0].lower() in said and "the rest" in said
    assert "knows no label" in run("explain", model, "-", "--label", "no such", input="x\n", code=1).err


def test_explain_names_features_by_number(data: Path, feature_model: Path, run: Run) -> None:
    answer = run("explain", feature_model, data / "test.txt", "--rows", 1, "--json").json["explanations"][0][0]
    first = (data / "test.txt").read_text().splitlines()[1].split(" ", 1)[1]
    numbers = {part.split(":")[0] for part in first.split()}
    assert {word["word"] for word in answer["words"]} <= numbers


def test_confusions_come_with_counts_and_examples(data: Path, model: Path, run: Run) -> None:
    answer = run("confusions", model, data / "test.tsv", "--json", "--pairs", 5, "--examples", 2).json
    assert answer["top_k"] == 5 and 0 < len(answer["confusions"]) <= 5
    for pair in answer["confusions"]:
        assert pair["true"] != pair["predicted"] and pair["count"] >= pair["reverse"] >= 0 and 0 < pair["rate"] <= 1
        assert 1 <= len(pair["texts"]) == len(pair["examples"]) <= 2
    said = run("confusions", model, data / "test.tsv", "--top-k", 3).out
    assert "predicted instead" in said and "taken for" in said
