"""Run the steps of an experiment. ``results.json`` is rewritten after each step, so finished steps
are never lost.
"""

import json
from collections.abc import Callable, Collection
from dataclasses import asdict
from pathlib import Path
from string import ascii_uppercase
from typing import Any

from benchmarks.paper.experiment import Experiment, Plan, Row, SkippedError
from benchmarks.results import machine, write_json
from rembrandt.errors import DataError, OutputExistsError, SettingsError
from rembrandt.progress import Report, silent

RESULTS = "results.json"
FORMAT = 4
Document = dict[str, Any]


def run(
    experiment: Experiment,
    plan: Plan,
    folder: Path,
    report: Report = silent,
    finished: Callable[[list[Row]], None] = lambda rows: None,
    only: Collection[str] = (),
    device: str = "cpu",
) -> Document:
    """Run the steps of ``plan`` that ``folder`` has no results of, and return the contents of
    ``results.json``.

    ``only`` limits the run to the steps with these names. ``finished`` is called with the rows of
    each new step. A folder that was started on another machine can be continued: each row names its
    machine.
    """
    selected = _selected(plan, only)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / RESULTS
    document = _open_results(path, experiment.name, plan)
    state = document["experiments"][experiment.name]
    letter = _machine_letter(document["machines"], machine(device))
    stage = f"running {experiment.name}"
    for done, step in enumerate(plan.steps):
        report(stage, done, len(plan.steps))
        if step.name in state["finished"] or step.name not in selected:
            continue
        try:
            rows = step.run(report)
        except SkippedError as reason:
            state["skipped"][step.name] = str(reason)
            write_json(path, document)
            continue
        _add_rows(
            document,
            experiment.name,
            step.name,
            [asdict(row) | {"machine": letter} for row in rows],
        )
        write_json(path, document)
        finished(rows)
    report(stage, len(plan.steps), len(plan.steps))
    return document


def merge(folder: Path, other: Path) -> Document:
    """Copy every step that the results file ``other`` has, and the results in ``folder`` lack."""
    theirs = read_results(other)
    path = folder / RESULTS
    folder.mkdir(parents=True, exist_ok=True)
    document = read_results(path) if path.exists() else _empty()
    for name, their_state in theirs["experiments"].items():
        state = document["experiments"].setdefault(
            name, their_state | {"finished": [], "skipped": {}}
        )
        _check_same(state["settings"], their_state["settings"], other)
        state["steps"] = list(dict.fromkeys([*state["steps"], *their_state["steps"]]))
        for step in their_state["finished"]:
            if step in state["finished"]:
                continue
            rows = [
                row for row in theirs["rows"] if (row["experiment"], row["step"]) == (name, step)
            ]
            letters = [
                _machine_letter(document["machines"], theirs["machines"][row["machine"]])
                for row in rows
            ]
            _add_rows(
                document,
                name,
                step,
                [row | {"machine": at} for row, at in zip(rows, letters, strict=True)],
            )
        for step, reason in their_state["skipped"].items():
            if step not in state["finished"]:
                state["skipped"].setdefault(step, reason)
    write_json(path, document)
    return document


def forget(folder: Path, name: str) -> None:
    """Delete the results of an experiment from ``folder``."""
    path = folder / RESULTS
    if not path.exists():
        return
    document = read_results(path)
    document["experiments"].pop(name, None)
    document["rows"] = [row for row in document["rows"] if row["experiment"] != name]
    used = {row["machine"] for row in document["rows"]}
    document["machines"] = {
        letter: about for letter, about in document["machines"].items() if letter in used
    }
    write_json(path, document)


def read_results(path: Path) -> Document:
    """Read and check a results file."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        known = (
            document["format"] == FORMAT and {"machines", "experiments", "rows"} <= document.keys()
        )
    except FileNotFoundError as error:
        raise DataError("the results file does not exist", path) from error
    except (ValueError, TypeError, KeyError):
        known = False
    if not known:
        raise DataError(
            "this is not a results file of this version; choose another output folder", path
        )
    return dict(document)


def _selected(plan: Plan, only: Collection[str]) -> set[str]:
    names = [step.name for step in plan.steps]
    unknown = [name for name in only if name not in names]
    if unknown:
        raise SettingsError(
            f"this experiment has no row {unknown[0]!r}; choose from {', '.join(names)}"
        )
    return set(only or names)


def _machine_letter(machines: dict[str, Any], about: dict[str, Any]) -> str:
    """Return the letter of a machine in ``machines``, adding the machine if it is new."""
    for letter, known in machines.items():
        if known == about:
            return letter
    letter = next(letter for letter in ascii_uppercase if letter not in machines)
    machines[letter] = about
    return letter


def _add_rows(document: Document, experiment: str, step: str, rows: list[dict[str, Any]]) -> None:
    """Add the rows of a step. All rows are kept in the order of the plan, not in the order they
    were measured.
    """
    state = document["experiments"][experiment]
    document["rows"] += [row | {"step": step} for row in rows]
    state["finished"].append(step)
    state["skipped"].pop(step, None)
    order = {
        (name, step): (i, j)
        for i, (name, state) in enumerate(document["experiments"].items())
        for j, step in enumerate(state["steps"])
    }
    document["rows"].sort(key=lambda row: order[row["experiment"], row["step"]])


def _open_results(path: Path, name: str, plan: Plan) -> Document:
    """Read the results of earlier runs, refusing those that were measured with other settings."""
    document = read_results(path) if path.exists() else _empty()
    settings = json.loads(json.dumps(plan.settings))  # tuples become lists, as in the file
    state = document["experiments"].setdefault(
        name, {"settings": settings, "finished": [], "skipped": {}}
    )
    _check_same(state["settings"], settings, path)
    state["steps"] = list(dict.fromkeys([*(step.name for step in plan.steps), *state["finished"]]))
    return document


def _check_same(kept: dict[str, Any], now: dict[str, Any], path: Path) -> None:
    changed = sorted(key for key in now.keys() | kept.keys() if now.get(key) != kept.get(key))
    if changed:
        raise OutputExistsError(
            f"{path} was written with other settings ({', '.join(changed)}); choose another output "
            "folder, or use "
            "--fresh to discard its results of this experiment"
        )


def _empty() -> Document:
    return {"format": FORMAT, "machines": {}, "experiments": {}, "rows": []}
