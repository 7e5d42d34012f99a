"""Names of labels, files of predictions and mistakes that are noticed, on the command line."""

import csv
import json
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from rembrandt import load
from tests.cli.conftest import FAST, TABLE, Run

COLUMNS = ["id", "label", "name", "probability", "rank"]


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("names") / "names.tsv"
    labels = [f"topic-{topic:02}/label-{label:03}" for topic in range(5) for label in range(8)]
    lines = (f"{label}\tName of {label[6:8]} {label[-1]}\tAbout {label}\n" for label in labels)
    path.write_text("id\tname\tdescription\n" + "".join(lines))
    return path


@pytest.fixture(scope="module")
def named(data: Path, names: Path, run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("named") / "model"
    said = run("fit", data / "train.tsv", "-o", folder, *TABLE, *FAST, "--label-names", names).out
    assert (
        "has a name for 40 of 40 labels" in said
        and "rembrandt neighbors" in said
        and "'Name of " in said
    )
    return folder


def test_names_are_accepted_and_shown(named: Path, run: Run) -> None:
    assert "Name of 01 0 (topic-01/label-000)" in run("neighbors", named, "name of 01 0").out
    assert run("neighbors", named, "name of 01 0").out.startswith(
        "Name of 01 0: About topic-01/label-000\n"
    )
    answer = run("neighbors", named, "topic-01/label-000", "--json").json
    assert answer["description"] == "About topic-01/label-000"
    assert "40 with a name, 40 with a description" in run("info", named).out
    assert answer["name"] == "Name of 01 0" and answer["neighbors"][0]["name"].startswith(
        "Name of "
    )
    assert (
        "Name of 00 3 (topic-00/label-003): "
        in run("explain", named, "-", "-l", "Name of 00 3", input="x\n").out
    )
    assert (
        "similar labels: Name of 00 3 (topic-00/label-003)"
        in run("neighbors", named, "Name of 00 33", code=1).err
    )


def test_names_are_set_for_a_saved_model(
    data: Path, model: Path, names: Path, run: Run, tmp_path: Path
) -> None:
    load(model).save(tmp_path / "model", extra=load(model).extra_)
    before = run("predict", tmp_path / "model", data / "test.tsv", "--json").rows
    assert run("labels", tmp_path / "model", "--json").json["n_named"] == 0
    answer = run("labels", tmp_path / "model", "--set-names", names, "--rows", 3, "--json").json
    assert answer["n_described"] == 40 and answer["labels"][0]["description"].startswith(
        "About topic-"
    )
    assert (
        answer["n_named"] == 40
        and len(answer["labels"]) == 3
        and answer["labels"][0]["name"].startswith("Name of")
    )
    after = run("predict", tmp_path / "model", data / "test.tsv", "--json").rows
    assert after[0]["labels"][0]["name"].startswith("Name of ")
    keys = ("label", "probability")
    assert [[[label[key] for key in keys] for label in row["labels"]] for row in after] == [
        [[label[key] for key in keys] for label in row["labels"]] for row in before
    ]
    (tmp_path / "other.csv").write_text("id,name\nD1,Abdomen\n")
    assert (
        "none of the 1 names"
        in run("labels", model, "--set-names", tmp_path / "other.csv", code=1).err
    )
    options = ("--label-names", tmp_path / "other.csv")
    assert (
        "(option --label-names)"
        in run("fit", data / "train.tsv", "-o", tmp_path / "n", *TABLE, *options, code=1).err
    )


def read_back(path: Path) -> list[dict[str, str]]:
    if path.suffix == ".parquet":
        return [
            {name: str(cell) for name, cell in row.items()}
            for row in parquet.read_table(path).to_pylist()
        ]
    if path.suffix == ".jsonl":
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        return [{name: str(cell) for name, cell in row.items()} for row in rows]
    with path.open(newline="") as file:
        return list(csv.DictReader(file, delimiter="\t" if path.suffix == ".tsv" else ","))


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".parquet"])
def test_predictions_are_written_as_the_suffix_says(
    data: Path, named: Path, run: Run, tmp_path: Path, suffix: str
) -> None:
    long, wide = tmp_path / f"long{suffix}", tmp_path / f"wide{suffix}"
    run("predict", named, data / "test.tsv", "-o", long, "-k", 3, "--id", "id")
    run("predict", named, data / "test.tsv", "-o", wide, "-k", 3, "--wide")
    expected = run("predict", named, data / "test.tsv", "-k", 3, "--json").rows
    rows = read_back(long)
    assert list(rows[0]) == COLUMNS and len(rows) == 600
    assert [row["id"] for row in rows[:4]] == ["0", "0", "0", "1"] and [
        row["rank"] for row in rows[:3]
    ] == list("123")
    flat = [label for row in expected for label in row["labels"]]
    assert [(row["label"], row["name"]) for row in rows] == [
        (label["label"], label["name"]) for label in flat
    ]
    assert all(
        abs(float(row["probability"]) - label["probability"]) < 1e-6
        for row, label in zip(rows, flat, strict=True)
    )
    rows = read_back(wide)
    assert len(rows) == 200 and rows[0]["id"] == "1" and rows[-1]["id"] == "200"
    if suffix != ".jsonl":
        assert [row["label_1"] for row in rows] == [row["labels"][0]["label"] for row in expected]


def test_thresholds_and_numbers_of_labels(data: Path, model: Path, run: Run) -> None:
    everything = run("predict", model, data / "test.tsv", "-k", 1000, "--json").rows
    assert all(len(row["labels"]) == 40 for row in everything), "all of them, and no more"
    for least in (0.05, 0.3):
        rows = run("predict", model, data / "test.tsv", "--min-probability", least, "--json").rows
        wanted = [
            [label["label"] for label in row["labels"] if label["probability"] >= least]
            for row in everything
        ]
        assert [[label["label"] for label in row["labels"]] for row in rows] == wanted
    reached = run("predict", model, data / "test.tsv", "--above-threshold", "--json").rows
    predicted = load(model).predict(read_test(data).texts)
    assert [len(row["labels"]) for row in reached] == predicted.sum(axis=1).tolist()
    assert (
        max(len(row["labels"]) for row in run("predict", model, data / "test.tsv", "--json").rows)
        == 5
    )
    options = ("--above-threshold", "--min-probability", "0.1")
    assert "exclude each other" in run("predict", model, data / "test.tsv", *options, code=1).err


def read_test(data: Path):
    from rembrandt import read

    return read(data / "test.tsv", text=["title", "body"], labels="tags", label_separator="|")


def test_texts_without_a_known_word_have_no_labels(
    model: Path, data: Path, run: Run, tmp_path: Path
) -> None:
    known_text = (data / "test.tsv").read_text().splitlines()[1].split("\t")[1]
    rows = run("predict", model, "-", "--json", input=f"zzzz qqqq\n{known_text}\n").rows
    assert rows[0] == {"id": 1, "labels": []} and len(rows[1]["labels"]) == 5
    (tmp_path / "new.txt").write_text(f"zzzz\n{known_text}\n")
    assert (
        "1 has none" in run("predict", model, tmp_path / "new.txt", "-o", tmp_path / "out.csv").out
    )
    assert (
        "--output"
        in run("predict", model, tmp_path / "new.txt", "-o", tmp_path / "out.xlsx", code=2).err
    )


def test_a_forgotten_separator_is_refused(data: Path, run: Run, tmp_path: Path) -> None:
    without = TABLE[: TABLE.index("--label-separator")]
    failed = run("fit", data / "train.tsv", "-o", tmp_path / "model", *without, *FAST, code=1).err
    assert "'|'" in failed and "options --label-separator, --verbatim-labels" in failed
    assert not (tmp_path / "model").exists()
    failed = run(
        "data", "convert", data / "train.tsv", "-o", tmp_path / "store", *without, code=1
    ).err
    assert "--label-separator" in failed
    meant = run(
        "fit",
        data / "train.tsv",
        "-o",
        tmp_path / "model",
        *without,
        *FAST,
        "--verbatim-labels",
        "--json",
    ).json
    assert meant["task"] == "multiclass" and meant["n_labels"] > 100


def test_labels_that_the_model_does_not_know_are_reported(
    data: Path, model: Path, run: Run, tmp_path: Path
) -> None:
    changed = (data / "test.tsv").read_text().replace("|", ";")
    (tmp_path / "test.tsv").write_text(changed)
    assert "--label-separator" in run("evaluate", model, tmp_path / "test.tsv", code=1).err
    warned = run("evaluate", model, tmp_path / "test.tsv", "--verbatim-labels").err
    assert (
        "unknown to the model" in warned
        and "split at ';'" in warned
        and "--label-separator" in warned
    )
    (tmp_path / "test.tsv").write_text((data / "test.tsv").read_text().replace("topic-", "TOPIC-"))
    assert "in another case" in run("evaluate", model, tmp_path / "test.tsv").err
    assert "unknown to the model" not in run("evaluate", model, data / "test.tsv").err


def test_texts_and_features_are_not_taken_for_each_other(
    data: Path, model: Path, feature_model: Path, run: Run, tmp_path: Path
) -> None:
    rows = (data / "test.txt").read_text().splitlines()[1:]
    (tmp_path / "sparse").write_text("\n".join(rows))
    for file in (data / "test.txt", tmp_path / "sparse"):
        assert "fitted on texts" in run("predict", model, file, code=1).err
    assert (
        "fitted on features"
        in run("predict", feature_model, data / "test.tsv", "--text", "title", code=1).err
    )
    (tmp_path / "empty rows").write_text("3,4\n 1:1 5:0.5\n2 7:1\n")
    assert "fitted on texts" in run("predict", model, tmp_path / "empty rows", code=1).err
    assert len(run("predict", model, "-", "--json", input="this | that\n").rows) == 1
    (tmp_path / "lines.txt").write_text("12:30 a meeting\nanother | line\nplain words\n")
    assert len(run("predict", model, tmp_path / "lines.txt", "--json").rows) == 3


def test_texts_of_labels_are_learned(data: Path, run: Run, tmp_path: Path) -> None:
    (tmp_path / "texts.tsv").write_text(
        "id\ttext\ntopic-00/label-000\tzebra\nnew label\tquagga quagga\n"
    )
    options = ("--label-text", tmp_path / "texts.tsv", "--min-df", "1", "--preset", "fast")
    said = run("fit", data / "train.tsv", "-o", tmp_path / "model", *TABLE, *options).out
    assert "has a text for 2 labels, 1 of them without another example" in said
    [row] = run("predict", tmp_path / "model", "-", "--json", input="a quagga\n").rows
    assert "new label" in [label["label"] for label in row["labels"]]
