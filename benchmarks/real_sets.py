"""Fit and measure classifiers on the real data sets, each run in its own process."""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.resident import peak_bytes

FOLDER = Path(os.environ.get("REMBRANDT_DATA", "../shared/data"))


def each(module: str, names: Iterable[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Run ``python -m MODULE --one NAME`` for each name and yield the JSON that it prints."""
    if not FOLDER.is_dir():
        print(
            f"skipped: there is no data at {FOLDER}; set REMBRANDT_DATA to the folder that holds "
            "aloi/, bibtex/, ..."
        )
        return
    for name in names:
        done = subprocess.run(
            [sys.executable, "-m", module, "--one", name],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{name} failed:\n{done.stderr}")
        yield name, json.loads(done.stdout)


def command(
    doc: str | None, main: Callable[[list[str]], Any], one: Callable[[str], Any], what: str = "runs"
) -> None:
    """Run the command line ``python -m MODULE [NAME ...]``; `each` calls it with ``--one``."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help=f"which {what}; all by default")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(one(arguments.one)))
    else:
        main(arguments.names)


def file_of(set_name: str, part: Any) -> tuple[Path, dict[str, Any]]:
    """Return the file of one part of a set, and the options to read it with."""
    from rembrandt.data.catalogue import DATA_SETS

    entry = DATA_SETS[set_name]
    return FOLDER / entry.file(part), dict(entry.options)


def load_part(set_name: str, part: str) -> Any:
    """Return one part of a set."""
    from rembrandt import read

    file, options = file_of(set_name, part)
    return read(file, **options)


def load(set_name: str) -> tuple[Any, Any]:
    """Return the training and test parts of a set, over the same features."""
    train = load_part(set_name, "train")
    test = load_part(set_name, "test")
    if train.feature_names is not None:
        test = test.align_features(train.feature_names)
    return train, test


def measured(classifier: Any, set_name: str) -> tuple[dict[str, Any], Any]:
    """Fit to the training part of a set; return the measures on the test part with the cost, and
    the training part.
    """
    from rembrandt.evaluation import measure

    train, test = load(set_name)
    start_cpu, start = cpu_seconds(), time.perf_counter()
    classifier.fit_dataset(train)
    cost = {"cpu": cpu_seconds() - start_cpu, "wall": time.perf_counter() - start}
    found = measure(classifier, test)
    gigabytes = peak_bytes() / 2**30
    return found.model | cost | {
        "gigabytes": gigabytes,
        "examples_per_second": found.examples_per_second,
    }, train


def blend_facts(classifier: Any) -> dict[str, Any]:
    """Return the parts of a fitted classifier and the cost of its trees; 0 without trees."""
    specs = classifier.model_.settings.parts
    cost = 0.0
    if "trees" in specs:
        cost = specs["trees"].settings.cost
    return {"parts": list(specs), "cost": cost}


def percentages(row: dict[str, Any], *measures: str) -> str:
    """Format measures as columns of a table, in percent."""
    return "".join(f"{100 * row[measure]:>7.2f}" for measure in measures)


def cpu_seconds() -> float:
    """Return the CPU time of this process so far."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
