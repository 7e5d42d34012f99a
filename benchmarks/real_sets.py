"""Classifiers fitted and measured on the real sets, each run in a process of its own."""

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
    """What ``python -m MODULE --one NAME`` prints as JSON for every name, so that memory and CPU time are its own."""
    if not FOLDER.is_dir():
        print(f"skipped: there is no data at {FOLDER}; set REMBRANDT_DATA to the folder that holds aloi/, bibtex/, ...")
        return
    for name in names:
        done = subprocess.run(
            [sys.executable, "-m", module, "--one", name], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"{name} failed:\n{done.stderr}")
        yield name, json.loads(done.stdout)


def command(doc: str | None, main: Callable[[list[str]], Any], one: Callable[[str], Any], what: str = "runs") -> None:
    """``python -m MODULE [NAME ...]``; with ``--one`` it is what `each` starts."""
    parser = argparse.ArgumentParser(description=doc)
    parser.add_argument("names", nargs="*", help=f"which {what}; all by default")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(one(arguments.one)))
    else:
        main(arguments.names)


def measured(classifier: Any, set_name: str) -> tuple[dict[str, Any], Any]:
    """The test figures and the cost of fitting ``classifier`` to a set, and the training data."""
    from rembrandt.data import catalogue
    from rembrandt.evaluation import measure

    train = catalogue.load(set_name, "train", folder=FOLDER)
    start_cpu, start = cpu_seconds(), time.perf_counter()
    classifier.fit_dataset(train)
    cost = {"cpu": cpu_seconds() - start_cpu, "wall": time.perf_counter() - start}
    test = catalogue.load(set_name, "test", folder=FOLDER)
    if train.feature_names is not None:
        test = test.align_features(train.feature_names)
    found = measure(classifier, test)
    gigabytes = peak_bytes() / 2**30
    return found.model | cost | {"gigabytes": gigabytes, "examples_per_second": found.examples_per_second}, train


def cpu_seconds() -> float:
    """Processor time of this process so far."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
