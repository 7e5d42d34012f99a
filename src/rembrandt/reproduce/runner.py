"""Runs the steps of an experiment and keeps every finished one: ``results.json`` is whole after each."""

import json
import os
import platform
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rembrandt.errors import DataError, OutputExistsError
from rembrandt.progress import Report, silent
from rembrandt.reproduce.experiment import Experiment, Plan, Row, SkippedError

RESULTS = "results.json"
FORMAT = 1


def run(
    experiment: Experiment,
    plan: Plan,
    folder: Path,
    report: Report = silent,
    finished: Callable[[list[Row]], None] = lambda rows: None,
) -> dict[str, Any]:
    """Every step of ``plan`` that ``folder`` has no rows of yet; the document that is then in ``results.json``.

    A step is kept as soon as it ends, so that an interruption loses no more than the one that is running.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / RESULTS
    document = open_results(path, experiment.name, plan.settings)
    mine = document["experiments"][experiment.name]
    stage = f"reproducing {experiment.name}"
    for done, step in enumerate(plan.steps):
        report(stage, done, len(plan.steps))
        if step.name in mine["finished"]:
            continue
        try:
            rows = step.run(report)
        except SkippedError as why:
            mine["skipped"][step.name] = str(why)
            write_json(path, document)
            continue
        document["rows"] += [asdict(row) for row in rows]
        mine["finished"].append(step.name)
        mine["skipped"].pop(step.name, None)
        write_json(path, document)
        finished(rows)
    report(stage, len(plan.steps), len(plan.steps))
    return document


def open_results(path: Path, name: str, settings: dict[str, Any]) -> dict[str, Any]:
    """What ``path`` holds of earlier runs; numbers of other settings or another machine are not mixed with new ones."""
    fresh = {"settings": settings, "finished": [], "skipped": {}}
    if not path.exists():
        return {"format": FORMAT, "machine": machine(), "experiments": {name: fresh}, "rows": []}
    document = read_results(path)
    other = "choose another output folder, or move this one away"
    if document["machine"] != machine():
        raise OutputExistsError(f"{path} was written on another machine ({described(document['machine'])}); {other}")
    kept = document["experiments"].setdefault(name, fresh)
    # As it comes back from JSON, where a tuple is a list.
    now = json.loads(json.dumps(settings))
    changed = [key for key in now.keys() | kept["settings"].keys() if now.get(key) != kept["settings"].get(key)]
    if changed:
        raise OutputExistsError(f"{path} was written with other settings ({', '.join(sorted(changed))}); {other}")
    return document


def read_results(path: Path) -> dict[str, Any]:
    """The document in ``path``."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        known = document["format"] == FORMAT and {"machine", "experiments", "rows"} <= document.keys()
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


def machine() -> dict[str, Any]:
    """What the times depend on."""
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "gigabytes": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9),
        "system": platform.system(),
        "python": platform.python_version(),
        "numpy": version("numpy"),
    }


def described(machine: dict[str, Any]) -> str:
    """A machine in words."""
    return (
        f"{machine['processor']}, {machine['cores']} cores, {machine['gigabytes']} GB, {machine['system']}, "
        f"Python {machine['python']}, NumPy {machine['numpy']}"
    )


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
