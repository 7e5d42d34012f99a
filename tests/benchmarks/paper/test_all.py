"""Every experiment with one command, on sets so small that it takes seconds."""

import json
from pathlib import Path

import pytest

from benchmarks.paper import NAMES, aloi, cost, lshtc, odp, vowpal
from tests.benchmarks.paper.conftest import Run, write_set
from tests.benchmarks.paper.test_texts import write_stand_ins

TITLES = ("ALOI", "ODP", "LSHTC", "Siblings", "Spectra", "Time")


def test_all_runs_everything_and_measures_nothing_twice(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_set(write_stand_ins(tmp_path / "data"))
    grid = vowpal.Grid((0.5,), (1,), bits=18)
    monkeypatch.setattr(aloi, "QUICK", aloi.Scale(400, 100, 2, 50, (5, 10), 20, False, grid, grid))
    monkeypatch.setattr(odp, "QUICK", odp.Scale(8, 2000, 2, grid))
    monkeypatch.setattr(lshtc, "QUICK", lshtc.Scale(6, 50, 200, 2, 2, 8))
    monkeypatch.setattr(cost, "sweeps", lambda quick: [])
    command = ("all", "--data", folder, "--quick", "--output", tmp_path / "out")
    said = run(*command).out
    before = (tmp_path / "out" / "results.json").read_bytes()
    document = json.loads(before)
    assert tuple(document["experiments"]) == NAMES
    steps = [step for state in document["experiments"].values() for step in state["steps"]]
    assert not any("," in step for step in steps)  # --rows takes several names with commas between
    text = (tmp_path / "out" / "report.md").read_text()
    starts = [text.index(f"\n## {title}") for title in TITLES]
    assert starts == sorted(starts)
    assert "Not run: spectra, bibtex." in said
    run(*command)
    assert (tmp_path / "out" / "results.json").read_bytes() == before
