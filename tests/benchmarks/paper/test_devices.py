"""The paper's experiments on two devices of torch, which are the processor here."""

import json
from pathlib import Path

import pytest
from benchmarks.paper.scaling_jobs import read_lines

from benchmarks.paper import aloi, scaling, vowpal
from tests.benchmarks.paper.conftest import Run
from tests.benchmarks.paper.test_scaling import make_small
from tests.benchmarks.paper.test_texts import stand_ins, tiny  # noqa: F401

pytest.importorskip("torch")

from tests.devices import as_on_a_gpu  # noqa: F401

pytestmark = pytest.mark.usefixtures("as_on_a_gpu")
TWO_DEVICES = ("--quick", "--device", "cpu,cpu")


def rows_of(folder: Path) -> list[dict]:
    return json.loads((folder / "results.json").read_text())["rows"]


def test_aloi(small: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    grid = vowpal.Grid((0.5,), (1,), bits=18)
    monkeypatch.setattr(aloi, "QUICK", aloi.Scale(400, 100, 2, 50, (5, 10), 20, False, grid, grid))
    run("aloi", "--data", small, "--output", tmp_path, *TWO_DEVICES)
    systems = {row["system"] for row in rows_of(tmp_path) if row["device"] == "cpu,cpu"}
    assert {"RE+LR", "CS+OMP", "RE + random features + LR"} <= systems


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("experiment", ["odp", "lshtc", "siblings", "timing"])
def test_other_experiments(
    experiment: str,
    stand_ins: Path,  # noqa: F811
    run: Run,
    tmp_path: Path,
) -> None:
    run(experiment, "--data", stand_ins, "--output", tmp_path, *TWO_DEVICES)
    assert "cpu,cpu" in {row["device"] for row in rows_of(tmp_path)}


def test_scaling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_small(monkeypatch)
    options = ["--output", str(tmp_path), "--rank", "5", "--device", "cpu,cpu"]
    assert scaling.main(options) == 0
    fits = read_lines(tmp_path / "scaling.jsonl")[1:]
    assert {line["device"] for line in fits} == {"cpu,cpu"}
