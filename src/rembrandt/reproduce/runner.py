"""Runs the steps of an experiment and keeps every finished one: ``results.json`` is whole after each."""

import json
import os
import platform
import tempfile
from collections.abc import Callable, Collection
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from string import ascii_uppercase
from typing import Any

from rembrandt.errors import DataError, OutputExistsError, SettingsError
from rembrandt.linalg.threads import cpu_count
from rembrandt.progress import Report, silent
from rembrandt.reproduce.experiment import Experiment, Plan, Row, SkippedError

RESULTS = "results.json"
FORMAT = 2
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
    """Every step of ``plan`` that ``folder`` has no rows of yet; the document that is then in ``results.json``.

    ``only`` names the steps wanted, without it all are. A step is kept as soon as it ends, so that an interruption
    loses no more than the one that is running. A folder that another machine began is gone on with: each row says
    where it was measured.
    """
    wanted = _wanted(plan, only)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / RESULTS
    document = open_results(path, experiment.name, plan)
    mine = document["experiments"][experiment.name]
    here = _letter(document["machines"], machine(device))
    stage = f"reproducing {experiment.name}"
    for done, step in enumerate(plan.steps):
        report(stage, done, len(plan.steps))
        if step.name in mine["finished"] or step.name not in wanted:
            continue
        try:
            rows = step.run(report)
        except SkippedError as why:
            mine["skipped"][step.name] = str(why)
            write_json(path, document)
            continue
        _keep(document, experiment.name, step.name, [asdict(row) | {"machine": here} for row in rows])
        write_json(path, document)
        finished(rows)
    report(stage, len(plan.steps), len(plan.steps))
    return document


def _wanted(plan: Plan, only: Collection[str]) -> set[str]:
    names = [step.name for step in plan.steps]
    unknown = [name for name in only if name not in names]
    if unknown:
        raise SettingsError(f"there is no row {unknown[0]!r} in this experiment; choose from {', '.join(names)}")
    return set(only or names)


def _letter(machines: dict[str, Any], here: dict[str, Any]) -> str:
    """The letter that rows name a machine by: its own where it is known, else the next."""
    for letter, known in machines.items():
        if known == here:
            return letter
    letter = next(letter for letter in ascii_uppercase if letter not in machines)
    machines[letter] = here
    return letter


def _keep(document: Document, experiment: str, step: str, rows: list[dict[str, Any]]) -> None:
    """Add the rows of a step; all stand in the order of the work, whichever machine did what and when."""
    mine = document["experiments"][experiment]
    document["rows"] += [row | {"step": step} for row in rows]
    mine["finished"].append(step)
    mine["skipped"].pop(step, None)
    order = {
        (name, step): (i, j)
        for i, (name, state) in enumerate(document["experiments"].items())
        for j, step in enumerate(state["steps"])
    }
    document["rows"].sort(key=lambda row: order[row["experiment"], row["step"]])


def merge(folder: Path, other: Path) -> Document:
    """Take over every step that ``other``, a list of results, has and ``folder``'s own has not."""
    theirs = read_results(other)
    path = folder / RESULTS
    folder.mkdir(parents=True, exist_ok=True)
    document = read_results(path) if path.exists() else _empty()
    for name, state in theirs["experiments"].items():
        mine = document["experiments"].setdefault(name, state | {"finished": [], "skipped": {}})
        _check_same(mine["settings"], state["settings"], other)
        for step in state["finished"]:
            if step in mine["finished"]:
                continue
            rows = [row for row in theirs["rows"] if (row["experiment"], row["step"]) == (name, step)]
            letters = [_letter(document["machines"], theirs["machines"][row["machine"]]) for row in rows]
            _keep(document, name, step, [row | {"machine": at} for row, at in zip(rows, letters, strict=True)])
        for step, why in state["skipped"].items():
            if step not in mine["finished"]:
                mine["skipped"].setdefault(step, why)
    write_json(path, document)
    return document


def forget(folder: Path, name: str) -> None:
    """Drop what ``folder`` has of an experiment."""
    path = folder / RESULTS
    if not path.exists():
        return
    document = read_results(path)
    document["experiments"].pop(name, None)
    document["rows"] = [row for row in document["rows"] if row["experiment"] != name]
    used = {row["machine"] for row in document["rows"]}
    document["machines"] = {letter: about for letter, about in document["machines"].items() if letter in used}
    write_json(path, document)


def open_results(path: Path, name: str, plan: Plan) -> Document:
    """What ``path`` holds of earlier runs; numbers of other settings are not mixed with new ones."""
    document = read_results(path) if path.exists() else _empty()
    settings = json.loads(json.dumps(plan.settings))  # as they come back from the file, where a tuple is a list
    fresh = {"settings": settings, "steps": [step.name for step in plan.steps], "finished": [], "skipped": {}}
    kept = document["experiments"].setdefault(name, fresh)
    _check_same(kept["settings"], settings, path)
    return document


def _check_same(kept: dict[str, Any], now: dict[str, Any], path: Path) -> None:
    changed = sorted(key for key in now.keys() | kept.keys() if now.get(key) != kept.get(key))
    if changed:
        raise OutputExistsError(
            f"{path} was written with other settings ({', '.join(changed)}); choose another output folder, or "
            "--fresh to measure that experiment anew"
        )


def _empty() -> Document:
    return {"format": FORMAT, "machines": {}, "experiments": {}, "rows": []}


def read_results(path: Path) -> Document:
    """The document in ``path``."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        known = document["format"] == FORMAT and {"machines", "experiments", "rows"} <= document.keys()
    except FileNotFoundError as error:
        raise DataError("there is no such list of results", path) from error
    except (ValueError, TypeError, KeyError):
        known = False
    if not known:
        raise DataError("this is no list of results of this version; choose another output folder", path)
    return dict(document)


def write_json(path: Path, document: dict[str, Any]) -> None:
    """Written aside and renamed: a reader finds the old document or the new one, and nothing between them."""
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", dir=path.parent, prefix=f".{path.name}.", delete=False
    ) as file:
        aside = Path(file.name)
        try:
            json.dump(document, file, indent=1, allow_nan=False)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
            aside.chmod(0o644)
            aside.replace(path)
        finally:
            aside.unlink(missing_ok=True)


def machine(device: str = "cpu") -> dict[str, Any]:
    """What the times depend on; the accelerator where it is used."""
    about = {
        "processor": _processor(),
        "cores": cpu_count(),
        "gigabytes": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9),
        "system": platform.system(),
        "python": platform.python_version(),
        "numpy": version("numpy"),
    }
    return about if device == "cpu" else about | {"accelerator": _accelerator(device), "torch": version("torch")}


def _accelerator(device: str) -> str:
    import torch

    parts = device.split(",")
    return ", ".join(torch.cuda.get_device_name(part) if part.startswith("cuda") else part for part in parts)


def described(machine: dict[str, Any]) -> str:
    """A machine in words."""
    said = (
        f"{machine['processor']}, {machine['cores']} cores, {machine['gigabytes']} GB, {machine['system']}, "
        f"Python {machine['python']}, NumPy {machine['numpy']}"
    )
    if "accelerator" in machine:
        said += f", {machine['accelerator']}, PyTorch {machine['torch']}"
    return said


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
