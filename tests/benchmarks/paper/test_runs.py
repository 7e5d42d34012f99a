"""Complete runs: what they write, what they keep when interrupted, and what they refuse."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from benchmarks.paper.experiment import Experiment, Plan, Request, Row, SkippedError, Step
from benchmarks.results import write_json

from benchmarks.paper import aloi, runner
from tests.benchmarks.paper.conftest import Run

SYSTEMS = [
    "RE+LR",
    "PCA+LR",
    "CS+LR",
    "LR",
    "PLST+LR",
    "CCA+LR",
    "CS+OMP",
    "RE + random features + LR",
]
FIELDS = {"experiment", "system", "metric", "value", "seconds", "at", "device", "machine", "step"}


def test_a_quick_run_writes_a_report(quick: tuple[Path, str]) -> None:
    folder, said = quick
    document = json.loads((folder / "results.json").read_text())
    rows = document["rows"]
    assert all(row.keys() == FIELDS for row in rows) and document["machines"]["A"]["cores"] >= 1
    errors = {row["system"]: row for row in rows if row["metric"] == aloi.ERROR}
    assert [name for name in errors if name in SYSTEMS] == SYSTEMS
    assert all(0 <= row["value"] < 60 and row["seconds"] > 0 for row in errors.values())
    by_rank = [
        (row["at"], row["value"])
        for row in rows
        if row["metric"] == aloi.BY_RANK and row["system"] == "RE+LR"
    ]
    assert [k for k, _ in by_rank] == [5, 20, 50] and by_rank[0][1] > by_rank[-1][1]
    assert by_rank[-1][1] == pytest.approx(errors["RE+LR"]["value"], abs=3)
    for file in ("aloi-error-by-rank.png", "aloi-spectrum.png", "aloi-cost.png"):
        assert (folder / file).read_bytes().startswith(b"\x89PNG") and file in (
            folder / "report.md"
        ).read_text()
    assert str(folder / "report.md") in said and "(paper: 9.7)" in said


def test_sizes_are_those_of_the_weights(quick: tuple[Path, str]) -> None:
    rows = json.loads((quick[0] / "results.json").read_text())["rows"]
    sizes = {row["system"]: row["value"] for row in rows if row["metric"] == aloi.SIZE}
    d, c, k = 80, 60, 50
    assert sizes == {"RE+LR": 4 * ((d + 1) * k + (k + 1) * c), "LR": 4 * (d + 1) * c}


def test_the_label_spectrum_is_that_of_the_class_counts(quick: tuple[Path, str]) -> None:
    rows = json.loads((quick[0] / "results.json").read_text())["rows"]
    values = [
        row["value"] for row in rows if row["metric"] == aloi.SPECTRUM and row["system"] == "labels"
    ]
    assert values == pytest.approx([1 / 60] * 60, rel=1e-4)


def test_a_second_run_measures_nothing_again(
    quick: tuple[Path, str], small: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, _ = quick
    before = (folder / "results.json").read_bytes(), (folder / "report.md").read_bytes()
    for step in ("classifier", "raw", "spectrum", "embedding_seconds", "at_rank"):
        monkeypatch.setattr(aloi.Aloi, step, _fail)
    run("aloi", "--data", small, "--quick", "--output", folder)
    assert before == ((folder / "results.json").read_bytes(), (folder / "report.md").read_bytes())


def test_an_interruption_loses_only_the_current_step(
    quick: tuple[Path, str], small: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("aloi", "--data", small, "--quick", "--output", tmp_path)

    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(aloi.Aloi, "spectrum", stop)
        said = run(*command, code=130).err
    assert "the same command continues" in said and str(tmp_path) in said
    kept = json.loads((tmp_path / "results.json").read_text())
    assert kept["experiments"]["aloi"]["finished"] == [*SYSTEMS, "embedding seconds"]
    assert [file.name for file in tmp_path.iterdir()] == ["results.json"]

    monkeypatch.setattr(aloi.Aloi, "classifier", _fail)
    run(*command)
    whole = json.loads((tmp_path / "results.json").read_text())
    assert whole["rows"][: len(kept["rows"])] == kept["rows"]
    other = json.loads((quick[0] / "results.json").read_text())
    key = ("system", "metric", "at")
    assert [[row[k] for k in key] for row in whole["rows"]] == [
        [row[k] for k in key] for row in other["rows"]
    ]


def test_results_of_other_settings_are_not_mixed(
    quick: tuple[Path, str], small: Path, run: Run
) -> None:
    before = (quick[0] / "results.json").read_bytes()
    said = run("aloi", "--data", small, "--output", quick[0], code=1).err
    assert (
        "other settings" in said
        and "quick" in said
        and "another output folder" in said
        and "--fresh" in said
    )
    assert (quick[0] / "results.json").read_bytes() == before


def test_an_experiment_can_be_measured_again(
    quick: tuple[Path, str], small: Path, run: Run, tmp_path: Path
) -> None:
    document = json.loads((quick[0] / "results.json").read_text())
    document["experiments"]["aloi"]["settings"]["k"] = 7
    document["experiments"]["toy"] = {
        "settings": {},
        "steps": ["x"],
        "finished": ["x"],
        "skipped": {},
    }
    document["machines"]["B"] = document["machines"]["A"] | {"processor": "abacus"}
    kept = document["rows"][0] | {"experiment": "toy", "step": "x", "machine": "B"}
    (tmp_path / "results.json").write_text(
        json.dumps(document | {"rows": [*document["rows"], kept]})
    )
    command = ("aloi", "--data", small, "--quick", "--output", tmp_path, "--rows", "CS+LR")
    run(*command, code=1)
    run(*command, "--fresh")
    after = json.loads((tmp_path / "results.json").read_text())
    assert after["experiments"]["aloi"]["finished"] == ["CS+LR"] and after["rows"][0] == kept
    assert {row["step"]: row["machine"] for row in after["rows"]} == {"x": "B", "CS+LR": "A"}


def test_a_run_can_continue_on_another_machine(
    quick: tuple[Path, str], small: Path, run: Run, tmp_path: Path
) -> None:
    document = json.loads((quick[0] / "results.json").read_text())
    document["machines"]["A"]["processor"] = "abacus"
    mine = document["experiments"]["aloi"]
    mine["finished"].remove("CS+LR")
    kept = [row for row in document["rows"] if row["step"] != "CS+LR"]
    document["rows"] = kept
    (tmp_path / "results.json").write_text(json.dumps(document))
    run("aloi", "--data", small, "--quick", "--output", tmp_path, "--rows", "CS+LR, PCA+LR")
    whole = json.loads((tmp_path / "results.json").read_text())
    assert {row["machine"] for row in whole["rows"] if row["step"] == "CS+LR"} == {"B"}
    assert [row for row in whole["rows"] if row["machine"] == "A"] == kept
    assert [row["system"] for row in whole["rows"] if row["metric"] == aloi.ERROR][:3] == SYSTEMS[
        :3
    ]
    said = (tmp_path / "report.md").read_text()
    assert "- A: abacus" in said and "- B: " in said and "| B |" in said


def test_results_of_two_machines_are_merged(
    quick: tuple[Path, str], run: Run, tmp_path: Path
) -> None:
    whole = json.loads((quick[0] / "results.json").read_text())
    for name, steps, other in (("here", SYSTEMS[:2], False), ("there", SYSTEMS[2:], True)):
        part = json.loads(json.dumps(whole))
        part["rows"] = [row for row in part["rows"] if row["step"] in steps]
        part["experiments"]["aloi"]["finished"] = steps
        if other:
            part["machines"]["A"] |= {"accelerator": "abacus", "torch": "2"}
            for row in part["rows"]:
                row["device"] = "cuda"
        (tmp_path / name).mkdir()
        (tmp_path / name / "results.json").write_text(json.dumps(part))
    command = (
        "report",
        "--output",
        tmp_path / "here",
        "--merge",
        tmp_path / "there" / "results.json",
    )
    run(*command)
    run(*command)  # nothing is taken twice
    merged = json.loads((tmp_path / "here" / "results.json").read_text())
    assert merged["experiments"]["aloi"]["finished"] == SYSTEMS
    assert [row["value"] for row in merged["rows"]] == [
        r["value"] for r in whole["rows"] if r["step"] in SYSTEMS
    ]
    said = (tmp_path / "here" / "report.md").read_text()
    assert "abacus, PyTorch 2" in said and "| B (cuda) |" in said

    merged["experiments"]["aloi"]["settings"]["k"] = 7
    (tmp_path / "there" / "results.json").write_text(json.dumps(merged))
    assert "other settings (k)" in run(*command, code=1).err


def test_rows_are_chosen_by_name(
    quick: tuple[Path, str], small: Path, run: Run, tmp_path: Path
) -> None:
    command = ("aloi", "--data", small, "--quick", "--output", tmp_path)
    run(*command, "--rows", "CS+LR", "--no-report")
    assert [file.name for file in tmp_path.iterdir()] == ["results.json"]
    document = json.loads((tmp_path / "results.json").read_text())
    assert (
        document["experiments"]["aloi"]["finished"] == ["CS+LR"]
        and document["experiments"]["aloi"]["skipped"] == {}
    )
    said = run(*command, "--rows", "XY+LR", code=1).err
    assert "'XY+LR'" in said and "RE+LR" in said
    assert "--rows needs" in run("all", "--output", tmp_path, "--rows", "LR", code=2).err


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"format": 99}'])
def test_a_damaged_results_file_is_refused(
    content: str, small: Path, run: Run, tmp_path: Path
) -> None:
    (tmp_path / "results.json").write_text(content)
    said = run("aloi", "--data", small, "--quick", "--output", tmp_path, code=1).err
    assert str(tmp_path / "results.json") in said
    assert (tmp_path / "results.json").read_text() == content


@pytest.mark.parametrize("part", ["train", "test"])
def test_a_missing_file_is_named_with_its_source(
    part: str, small: Path, run: Run, tmp_path: Path
) -> None:
    shutil.copytree(small, tmp_path / "sets")
    missing = tmp_path / "sets" / "aloi" / f"{part}.vw.gz"
    missing.unlink()
    said = run(
        "aloi", "--data", tmp_path / "sets", "--quick", "--output", tmp_path / "out", code=1
    ).err
    assert str(missing) in said and "pmineiro/randembed" in said
    assert not (tmp_path / "out").exists()


def test_without_a_data_folder_both_files_are_named(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("REMBRANDT_DATA", raising=False)
    said = run("aloi", "--quick", "--output", tmp_path / "out", code=1).err
    assert (
        "aloi/train.vw.gz" in said
        and "aloi/test.vw.gz" in said
        and "--data" in said
        and "REMBRANDT_DATA" in said
    )


def test_the_data_folder_may_come_from_the_environment(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REMBRANDT_DATA", str(small))
    assert aloi.plan(Request(quick=True)).settings["n_train"] == 1200


def test_only_experiments_that_exist_are_offered(run: Run, tmp_path: Path) -> None:
    assert "aloi, odp, lshtc" in " ".join(run("--help").out.split())
    run("imagenet", "--output", tmp_path, code=2)


def test_a_skipped_step_is_tried_again(tmp_path: Path) -> None:
    present = False

    def peer(report: Any) -> list[Row]:
        if not present:
            raise SkippedError("it is not installed")
        return [Row("toy", "peer", "error", 1.0)]

    toy = Experiment("toy", "Toy", "", lambda request, report: Plan({}, []), ())
    plan = Plan({"quick": True, "ranks": (1, 2)}, [Step("peer", peer)])
    assert runner.run(toy, plan, tmp_path)["experiments"]["toy"]["skipped"] == {
        "peer": "it is not installed"
    }
    present = True
    document = runner.run(toy, plan, tmp_path)
    assert (
        document["experiments"]["toy"]["skipped"] == {} and document["rows"][0]["system"] == "peer"
    )


def test_results_are_never_half_written(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    write_json(path, {"rows": [1]})
    with pytest.raises(ValueError):
        write_json(path, {"rows": [1, float("nan")]})
    assert json.loads(path.read_text()) == {"rows": [1]} and list(tmp_path.iterdir()) == [path]


def _fail(*_: Any, **__: Any) -> None:
    raise AssertionError("this was measured before")
