"""The experiment on scaling: the order of its fits, what it keeps, and what it measures."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.paper.scaling import main, measure
from benchmarks.paper.scaling_data import Prepared
from benchmarks.paper.scaling_jobs import (
    UNSCALED,
    Job,
    Results,
    choosing,
    plan,
    read_lines,
    scalings,
)
from benchmarks.paper.scaling_report import curve, sections
from scipy import sparse

from benchmarks.paper import scaling, scaling_jobs
from rembrandt.engines.backend import CPU
from rembrandt.errors import DataError
from rembrandt.parts.embedding.decoders.logistic import stopping_rows

SETTINGS = {"rembrandt": "0", "rows": None, "rank": None}
MEASURED = {"seconds": 1.0, "held": {"p@1": 0.5, "n": 10}, "test": {"p@1": 0.5, "n": 10}}


def problem(labels_each: int = 1) -> Prepared:
    """Rows of 30 labels with a feature for each label and a few at random."""
    rng = np.random.default_rng(0)
    n, c = 300, 30
    Y = np.zeros((n, c), dtype=np.float32)
    for _ in range(labels_each):
        Y[np.arange(n), rng.permutation(np.arange(n) % c)] = 1
    X = np.hstack([Y, rng.random((n, 10)) < 0.2]).astype(np.float32)
    matrices = [sparse.csr_array(part) for part in (X[:240], Y[:240], X[240:], Y[240:])]
    return Prepared(*matrices, multiclass=labels_each == 1)


class Store:
    """Prepared sets without files."""

    def __init__(self, *_: Any) -> None:
        pass

    def __getitem__(self, wanted: tuple[str, float]) -> Prepared:
        name, share = wanted
        return problem(1 if name.startswith(("mesh", "aloi")) else 2).dropped(share)

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: Any) -> None:
        pass


def make_small(patch: pytest.MonkeyPatch) -> None:
    """Reduce the experiment to few fits."""
    patch.setattr(scaling, "Store", Store)
    patch.setattr(scaling, "EPOCHS", {"mesh": 1, "nvd-versions": 1})
    patch.setattr(scaling_jobs, "METHODS", ("RE",))
    patch.setattr(scaling_jobs, "SEEDS", (0,))
    patch.setattr(scaling_jobs, "OTHERS", ("bibtex",))
    patch.setattr(scaling_jobs, "DROPPED", (0.97,))


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scaling")
    with pytest.MonkeyPatch.context() as patch:
        make_small(patch)
        assert main(["--output", str(folder), "--rank", "5"]) == 0
    return folder


def test_a_second_run_fits_nothing(finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = (finished / "scaling.jsonl").read_bytes()
    make_small(monkeypatch)
    monkeypatch.setattr(scaling, "measure", None)
    assert main(["--output", str(finished), "--rank", "5"]) == 0
    assert (finished / "scaling.jsonl").read_bytes() == before
    assert (
        main(["--output", str(finished), "--rank", "6"]) == 1
    )  # results of other settings are not mixed


def test_the_report_shows_every_part(finished: Path) -> None:
    said = "\n".join(sections(read_lines(finished / "scaling.jsonl")))
    titles = [line for line in said.splitlines() if line.startswith("### ")]
    assert (
        len(titles) == 5
        and "| nvd-versions | RE |" in said
        and "| bibtex |" in said
        and "97 %" in said
    )


def test_the_figure_over_difficulty_has_every_fit(finished: Path) -> None:
    points = {
        (point["system"], round(point["at"]))
        for point in curve(read_lines(finished / "scaling.jsonl"))
    }
    shown = {("RE, β = 0", 100), ("RE, chosen β", 100), ("RE, β = 0", 3), ("RE, chosen β", 3)}
    assert points == shown | {("CS, β = 0", 3), ("CS, chosen β", 3)}


def test_other_numbers_of_steps_are_shown_apart(finished: Path) -> None:
    lines = read_lines(finished / "scaling.jsonl")
    job = Job("final", "mesh", "RE", decoder="logistic", seed=7, max_iter=4)
    said = "\n".join(
        sections(
            [*lines, {**asdict(job), "key": job.key, "machine": "m", "device": "cpu", **MEASURED}]
        )
    )
    assert (
        said.count("| mesh | RE | 0 / 0 | 300 | 4 |") == 1
        and "| mesh | RE | 0 / 0 | 300 | 10 |" in said
    )


def test_only_some_sets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr(scaling, "Store", Store)
    monkeypatch.setattr(scaling, "measure", lambda *_: MEASURED)
    assert main(["--output", str(tmp_path), "--sets", "mesh", "--stages", "choose"]) == 0
    assert {line["set"] for line in read_lines(tmp_path / "scaling.jsonl")[1:]} == {"mesh"}
    assert main(["--output", str(tmp_path), "--sets", "mush"]) == 1
    assert "no data set 'mush'" in capsys.readouterr().err


def test_no_time_means_no_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr(scaling, "Store", Store)
    monkeypatch.setattr(scaling, "measure", None)
    assert main(["--output", str(tmp_path), "--minutes", "0"]) == 0
    assert (
        "0 results" in capsys.readouterr().out and len(read_lines(tmp_path / "scaling.jsonl")) == 1
    )


def test_a_failure_is_reported_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(job: Job, *_: Any) -> dict[str, Any]:
        if job.method == "CS":
            raise ValueError("no memory")
        return MEASURED

    monkeypatch.setattr(scaling, "Store", Store)
    monkeypatch.setattr(scaling, "measure", fail)
    assert main(["--output", str(tmp_path), "--stages", "choose"]) == 1
    lines = read_lines(tmp_path / "scaling.jsonl")
    assert {line["method"] for line in lines[1:] if "failed" in line} == {"CS"}
    again = Results(tmp_path / "scaling.jsonl", lines[0])
    assert choosing("mesh", "CS")[0] not in again and choosing("mesh", "RE")[0] in again


def test_held_out_rows_choose_and_test_rows_do_not(tmp_path: Path) -> None:
    results = Results(tmp_path / "lines", SETTINGS)
    for job in choosing("mesh", "RE"):
        held, test = (0.9, 0.1) if job.scaling == (0.25, 0.0) else (0.5, 0.8)
        results.add(job, {"seconds": 1.0, "held": {"p@1": held}, "test": {"p@1": test}})
    assert results.best(choosing("mesh", "RE")) == (0.25, 0.0)
    assert results.best(choosing("mesh", "CS")) is None
    finals = {
        job.scaling
        for job in plan(results)
        if job.stage == "final" and job.method == "RE" and job.set == "mesh"
    }
    assert finals == {UNSCALED, (0.25, 0.0)}


def test_rows_with_one_label_are_not_scaled() -> None:
    assert {row for _, row in scalings("mesh")} == {0.0} and {
        row for _, row in scalings("bibtex")
    } == {0.0, 0.5}


def test_a_cut_line_is_dropped_and_other_damage_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    results = Results(path, SETTINGS)
    results.add(Job("choose", "mesh", "RE"), {"seconds": 1.0})
    with path.open("a") as file:
        file.write('{"key": ')
    assert len(Results(path, SETTINGS).lines) == 1
    Results(path, SETTINGS).add(Job("choose", "mesh", "CS"), {"seconds": 1.0})
    assert len(Results(path, SETTINGS).lines) == 2
    path.write_text("{\n")
    with pytest.raises(DataError, match="not a file of results"):
        Results(path, SETTINGS)


def test_prepared_data_is_read_as_it_was_saved(tmp_path: Path) -> None:
    data = problem(2)
    data.save(tmp_path / "set.npz")
    read = Prepared.read(tmp_path / "set.npz")
    for name in ("X", "Y", "X_test", "Y_test"):
        assert (getattr(data, name) != getattr(read, name)).nnz == 0
    assert read.multiclass == data.multiclass and data.dropped(0.9).X.shape[1] == 4
    rows, held = data.held_out()
    assert sorted([*rows, *held]) == list(range(240)) and len(held) == 60


@pytest.mark.parametrize(
    ("stage", "parts"), [("final", {"test"}), ("stopping", {"test", "held", "stopping"})]
)
def test_a_fit_is_measured_on_the_rows_of_its_stage(stage: Any, parts: set[str]) -> None:
    found = measure(Job(stage, "mesh", "RE", k=20, decoder="logistic"), problem(), CPU)
    assert found.keys() == {"seconds", *parts} and found["test"]["n"] == 60
    assert json.dumps(found) and found["test"]["p@1"] > 0.5


def test_stopping_rows_have_no_weight_in_the_embedding(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}
    embed, decode = scaling.embed_labels, scaling.fit_decoder
    monkeypatch.setattr(
        scaling, "embed_labels", lambda data, *rest: seen.update(data=data) or embed(data, *rest)
    )
    monkeypatch.setattr(scaling, "fit_decoder", lambda *a, **b: seen.update(b) or decode(*a, **b))
    data = problem()
    rows, _ = data.held_out()
    measure(Job("choose", "mesh", "CS", k=5, decoder="logistic"), data, CPU)
    np.testing.assert_array_equal(np.flatnonzero(seen["data"].weights == 0), seen["stopping"])
    np.testing.assert_array_equal(seen["stopping"], stopping_rows(data.Y[rows], None, True, 0))
