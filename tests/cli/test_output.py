"""Standard output that is closed or full, and cells that a spreadsheet would run."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run

FORMULA = '=HYPERLINK("http://example.com","a")'
ESCAPE = "a\x1b]0;x\x07b"
NAMES = (FORMULA, "@SUM(1)", "+a", "-b", "-1.5", ESCAPE, "plain")


@pytest.fixture(scope="module")
def hostile_model(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose labels are formulas and control characters."""
    folder = tmp_path_factory.mktemp("hostile")
    with (folder / "train.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["label", "text"])
        for i in range(140):
            number = i % len(NAMES)
            writer.writerow([NAMES[number], f"word{number} other{i % 3}"])
    reading = ("--text", "text", "--labels", "label")
    run("fit", folder / "train.csv", "-o", folder / "model", *reading, "--preset", "fast", "-q")
    return folder / "model"


def lines_of(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def written_labels(path: Path, delimiter: str) -> set[str]:
    """The column of labels of a file that `predict` or `map` has written."""
    with path.open(encoding="utf-8", newline="") as file:
        return {row["label"] for row in csv.DictReader(file, delimiter=delimiter)}


HARMLESS = {f"'{FORMULA}", "'@SUM(1)", "'+a", "'-b", "-1.5", r"a\x1b]0;x\x07b", "plain"}


def predict(run: Run, model: Path, output: Path, *options: str) -> None:
    texts = "".join(f"word{i}\n" for i in range(len(NAMES)))
    run("predict", model, "-", "-k", "1", "-o", output, *options, input=texts)


def test_spreadsheets_do_not_run_labels(hostile_model: Path, run: Run, tmp_path: Path) -> None:
    predict(run, hostile_model, tmp_path / "a.csv")
    assert written_labels(tmp_path / "a.csv", ",") == HARMLESS
    predict(run, hostile_model, tmp_path / "a.tsv")
    columns = [line.split("\t") for line in lines_of(tmp_path / "a.tsv")]
    assert {row[1] for row in columns[1:]} == HARMLESS
    predict(run, hostile_model, tmp_path / "wide.csv", "--wide")
    with (tmp_path / "wide.csv").open(encoding="utf-8", newline="") as file:
        assert {row["label_1"] for row in csv.DictReader(file)} == HARMLESS


def test_cells_stay_as_they_are_on_request(hostile_model: Path, run: Run, tmp_path: Path) -> None:
    predict(run, hostile_model, tmp_path / "a.csv", "--verbatim-cells")
    assert written_labels(tmp_path / "a.csv", ",") == set(NAMES)
    predict(run, hostile_model, tmp_path / "a.tsv", "--verbatim-cells")
    text = (tmp_path / "a.tsv").read_text(encoding="utf-8")
    assert f"\t{FORMULA}\t" in text
    assert "\x1b" not in text
    predict(run, hostile_model, tmp_path / "a.jsonl")
    labels = {row["label"] for row in map(json.loads, lines_of(tmp_path / "a.jsonl"))}
    assert labels == set(NAMES)


def test_labels_of_vectors_and_maps_are_harmless(
    hostile_model: Path, run: Run, tmp_path: Path
) -> None:
    run("embed", hostile_model, "-o", tmp_path / "v.tsv")
    rows = [line.split("\t") for line in lines_of(tmp_path / "v.tsv")]
    assert {row[0] for row in rows} == HARMLESS
    assert len({len(row) for row in rows}) == 1
    run("embed", hostile_model, "-o", tmp_path / "w.tsv", "--verbatim-cells")
    names = {line.split("\t")[0] for line in lines_of(tmp_path / "w.tsv")}
    assert names == {FORMULA, "@SUM(1)", "+a", "-b", "-1.5", r"a\x1b]0;x\x07b", "plain"}
    pytest.importorskip("openTSNE")
    run("map", hostile_model, "-o", tmp_path / "m.csv")
    assert written_labels(tmp_path / "m.csv", ",") == HARMLESS
    run("map", hostile_model, "-o", tmp_path / "n.csv", "--verbatim-cells")
    assert written_labels(tmp_path / "n.csv", ",") == set(NAMES)


def run_to(stdout: Any, *arguments: Any, close: int | None = None) -> tuple[int, str]:
    """Run a command with this standard output, or with a closed stream; return code and errors."""
    command = [sys.executable, "-m", "rembrandt", *map(str, arguments)]

    def close_stream() -> None:
        if close is not None:
            os.close(close)

    ran = subprocess.run(
        command, stdout=stdout, stderr=subprocess.PIPE, text=True, preexec_fn=close_stream
    )
    return ran.returncode, ran.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such streams")
@pytest.mark.parametrize("command", ["--version", "--help", "info", "labels", "predict"])
def test_an_output_that_cannot_be_written_is_no_traceback(
    command: str, model: Path, tmp_path: Path
) -> None:
    arguments = [command]
    if not command.startswith("--"):
        arguments.append(str(model))
    if command == "predict":
        texts = tmp_path / "texts.txt"
        texts.write_text("some words\n" * 50)
        arguments += [str(texts), "--quiet"]
    reading, writing = os.pipe()
    os.close(reading)
    code, errors = run_to(writing, *arguments)
    os.close(writing)
    assert (code, errors) == (1, ""), "the reader has closed the pipe"
    assert run_to(None, *arguments, close=1) == (0, ""), "the output is closed"
    if Path("/dev/full").exists():
        with Path("/dev/full").open("w") as full:
            code, errors = run_to(full, *arguments)
        assert (code, errors) == (1, "error: No space left on device\n")
