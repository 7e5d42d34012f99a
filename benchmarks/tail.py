"""The long tail: how good and how costly the sparse part is, and how fast it answers.

python -m benchmarks.tail [NAME ...]      each run in a process of its own, so that memory and CPU time are its own
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "bibtex": ("bibtex", {}),
    "delicious": ("delicious", {}),
    "cooking": ("cooking", {}),
    "pubmed-mesh": ("pubmed-mesh", {}),
    "pubmed-mesh, no clusters": ("pubmed-mesh", {"sparse_pairs": 3e8}),
    "nvd-products": ("nvd-products", {}),
    "nvd-versions": ("nvd-versions", {}),
    "mesh": ("mesh", {"analyzer": "char"}),
}


def main(names: list[str] | None = None) -> dict[str, Any]:
    """Run every set that is there, and print a table."""
    folder = Path(os.environ.get("REMBRANDT_DATA", "../shared/data"))
    if not folder.is_dir():
        print(
            f"skipped: there is no data at {folder}; set REMBRANDT_DATA to the folder that holds nvd-cpe/, mesh/, ..."
        )
        return {}
    results = {}
    print(
        f"{'run':<28}{'P@1':>7}{'P@3':>7}{'P@5':>7}{'PSP@5':>7}{'CPU s':>8}{'wall s':>8}{'GB':>6}{'rows/s':>8}  chosen"
    )
    for name in names or RUNS:
        command = [sys.executable, "-m", "benchmarks.tail", "--one", name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{name} failed:\n{done.stderr}")
        row = results[name] = json.loads(done.stdout)
        p = "".join(f"{100 * row[m]:>7.2f}" for m in ("p@1", "p@3", "p@5", "psp@5"))
        print(
            f"{name:<28}{p}{row['cpu']:>8.1f}{row['wall']:>8.1f}{row['gigabytes']:>6.1f}"
            f"{row['examples_per_second']:>8.0f}  share {row['blend']:g}, cost {row['cost']:g}",
            flush=True,
        )
    return results


def one(name: str, seed: int = 0) -> dict[str, Any]:
    """Fit and measure one set in this process."""
    from benchmarks.resident import peak_bytes
    from rembrandt import RembrandtClassifier, TextFeatures
    from rembrandt.data import catalogue
    from rembrandt.evaluation import measure

    set_name, settings = RUNS[name]
    settings = dict(settings)
    text = TextFeatures(analyzer=settings.pop("analyzer", "word"))
    folder = os.environ.get("REMBRANDT_DATA", "../shared/data")
    train = catalogue.load(set_name, "train", folder=folder)
    start_cpu, start = _cpu(), time.perf_counter()
    classifier = RembrandtClassifier(**settings, sparse=True, text=text, random_state=seed).fit_dataset(train)
    cpu, wall = _cpu() - start_cpu, time.perf_counter() - start
    test = catalogue.load(set_name, "test", folder=folder)
    if train.feature_names is not None:
        test = test.align_features(train.feature_names)
    found = measure(classifier, test)
    tree = classifier.settings_["tree"] or {"cost": 0.0}
    return found.model | {
        "cpu": cpu,
        "wall": wall,
        "gigabytes": peak_bytes() / 2**30,
        "examples_per_second": found.examples_per_second,
        "blend": classifier.model_.blend,
        "cost": tree["cost"],
    }


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="which runs; all by default")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(one(arguments.one)))
    else:
        main(arguments.names)
