"""Commands that explain a model: explain, confusions, map and report."""

import math
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import TABLE, Run


def test_explain_prints_what_each_word_adds(data: Path, model: Path, run: Run) -> None:
    answer = run("explain", model, data / "test.tsv", "-k", 2, "--rows", 3, "--json").json[
        "explanations"
    ]
    assert [len(labels) for labels in answer] == [2, 2, 2]
    predicted = run("predict", model, data / "test.tsv", "-k", 2, "--json").rows
    for explained, wanted in zip(answer, predicted, strict=False):
        for entry, label in zip(explained, wanted["labels"], strict=True):
            assert entry["label"] == label["label"]
            assert 1 / (1 + math.exp(-entry["log_odds"])) == pytest.approx(
                label["probability"], abs=1e-4
            )
            words = sum(word["contribution"] for word in entry["words"])
            total = entry["base"] + words + entry["rest"] + entry["comparison"]
            assert total == pytest.approx(entry["log_odds"], abs=1e-9)


def test_explain_takes_a_label_and_standard_input(data: Path, model: Path, run: Run) -> None:
    text = (data / "test.tsv").read_text().splitlines()[1].split("\t")[1]
    said = run("explain", model, "-", "--label", "topic-00/label-000", input=text + "\n").out
    assert "topic-00/label-000: " in said and text.split()[0].lower() in said and "the rest" in said
    assert (
        "has no label" in run("explain", model, "-", "--label", "no such", input="x\n", code=1).err
    )


def test_explain_names_features_by_number(data: Path, feature_model: Path, run: Run) -> None:
    answer = run("explain", feature_model, data / "test.txt", "--rows", 1, "--json").json[
        "explanations"
    ][0][0]
    first = (data / "test.txt").read_text().splitlines()[1].split(" ", 1)[1]
    numbers = {pair.split(":")[0] for pair in first.split()}
    assert {word["word"] for word in answer["words"]} <= numbers


def test_confusions_come_with_counts_and_examples(data: Path, model: Path, run: Run) -> None:
    answer = run(
        "confusions", model, data / "test.tsv", "--json", "--pairs", 5, "--examples", 2
    ).json
    assert answer["top_k"] == 5 and 0 < len(answer["confusions"]) <= 5
    for pair in answer["confusions"]:
        assert (
            pair["true"] != pair["predicted"]
            and pair["count"] >= pair["reverse"] >= 0
            and 0 < pair["rate"] <= 1
        )
        assert 1 <= len(pair["texts"]) == len(pair["examples"]) <= 2
    said = run("confusions", model, data / "test.tsv", "--top-k", 3).out
    assert "predicted instead" in said and "predicted as" in said


def test_map_writes_positions_and_a_picture(model: Path, run: Run, tmp_path: Path) -> None:
    files = [tmp_path / f"map.{suffix}" for suffix in ("csv", "npz", "png")]
    said = run("map", model, *(word for file in files for word in ("-o", file)), "--labels", 30).out
    assert said.count("positions of 30 labels") == 3 and all(file.stat().st_size for file in files)
    assert len(files[0].read_text().splitlines()) == 31
    assert "already exists" in run("map", model, "-o", files[0], code=1).err
    assert "does not end in .csv" in run("map", model, "-o", tmp_path / "map.gif", code=2).err


@pytest.mark.parametrize(("kind", "file"), [("model", "test.tsv"), ("feature_model", "test.txt")])
def test_report_writes_one_small_page(
    kind: str, file: str, data: Path, run: Run, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    page = tmp_path / "report.html"
    folder = request.getfixturevalue(kind)
    answer = run("report", folder, data / file, "-o", page, "--title", "A <test>", "--json").json
    assert answer["bytes"] == page.stat().st_size < 5_000_000
    measured = run("evaluate", folder, data / file, "--json").json
    assert {m["name"]: m["value"] for m in answer["metrics"]} == {
        name: value for name, value in measured.items() if "@" in name
    }
    assert "<title>A &lt;test&gt; · Rembrandt report</title>" in page.read_text()
    assert "already exists" in run("report", folder, data / file, "-o", page, code=1).err


def test_a_missing_package_is_named_with_its_remedy(
    data: Path, model: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "openTSNE", None)
    failed = run("map", model, "-o", tmp_path / "map.csv", code=1).err
    assert "pip install 'rembrandt[report]'" in failed
    report = ("report", model, data / "test.tsv", "-q", "-o")
    assert "pip install" not in run(*report, tmp_path / "page.html", "--no-map").err
    said = run(*report, tmp_path / "other.html").err
    assert "has no map of labels" in said and "pip install 'rembrandt[report]'" in said
    assert (tmp_path / "other.html").stat().st_size > 10_000


@pytest.fixture(scope="module")
def trees(data: Path, run: Run) -> Path:
    """A model without an embedding."""
    parts = ("--parts", "trees,centroids")
    run("fit", data / "train.tsv", "-o", data / "trees", *TABLE, "--preset", "fast", *parts)
    return data / "trees"


def test_models_without_an_embedding_can_be_explored(
    data: Path, trees: Path, run: Run, tmp_path: Path
) -> None:
    spectrum = run("spectrum", trees, "--json").json
    assert (
        spectrum["rank"] == len(spectrum["singular_values"]) and "trees" in spectrum["rank_reason"]
    )
    assert "█" in run("spectrum", trees).out
    nearest = run("neighbors", trees, "topic-01/label-000", "-k", 3, "--json").json["neighbors"]
    assert [neighbor["label"].split("/")[0] for neighbor in nearest] == ["topic-01"] * 3
    run("map", trees, "-o", tmp_path / "map.csv")
    explained = run("explain", trees, data / "test.tsv", "--rows", 1, "-k", 1, "--json").json[
        "explanations"
    ][0][0]
    assert explained["words"]
    run("report", trees, data / "test.tsv", "-o", tmp_path / "report.html")
    run("embed", trees, "-o", tmp_path / "vectors.npz")
    assert np.load(tmp_path / "vectors.npz")["vectors"].shape == (40, spectrum["rank"])
    assert run("confusions", trees, data / "test.tsv", "--json").json["confusions"]
