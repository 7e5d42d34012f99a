"""How good and how costly the classifier is on real data, as a user gets it.

python -m benchmarks.quality [NAME ...]      each set in a process of its own, so that memory and CPU time are its own
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
    "aloi, k = 50, linear": ("aloi", {"n_components": 50, "kernel": None, "decoder": "logistic"}),
    "aloi, k = 50, random features": ("aloi", {"n_components": 50, "kernel": "gaussian", "decoder": "logistic"}),
    "bibtex": ("bibtex", {}),
    "delicious": ("delicious", {}),
    "cooking": ("cooking", {}),
    "pubmed-mesh": ("pubmed-mesh", {}),
}


def main(names: list[str] | None = None) -> dict[str, Any]:
    """Run every set that is there, and print a table."""
    folder = Path(os.environ.get("REMBRANDT_DATA", "../shared/data"))
    if not folder.is_dir():
        print(f"skipped: there is no data at {folder}; set REMBRANDT_DATA to the folder that holds aloi/, bibtex/, ...")
        return {}
    results = {}
    print(f"{'set':<32}{'P@1':>7}{'P@3':>7}{'P@5':>7}{'CPU s':>8}{'wall s':>8}{'GB':>6}{'embed CPU s':>13}")
    for name in names or RUNS:
        command = [sys.executable, "-m", "benchmarks.quality", "--one", name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{name} failed:\n{done.stderr}")
        row = results[name] = json.loads(done.stdout)
        p = [100 * row[f"p@{k}"] for k in (1, 3, 5)]
        print(
            f"{name:<32}{p[0]:>7.2f}{p[1]:>7.2f}{p[2]:>7.2f}{row['cpu']:>8.1f}{row['wall']:>8.1f}"
            f"{row['gigabytes']:>6.1f}{row['embed_cpu']:>13.2f}",
            flush=True,
        )
    return results


def one(name: str, seed: int = 0) -> dict[str, Any]:
    """Fit and measure one set in this process."""
    from benchmarks.resident import peak_bytes
    from rembrandt import LabelEmbedder, RembrandtClassifier
    from rembrandt.data import catalogue
    from rembrandt.evaluation import measure

    set_name, settings = RUNS[name]
    folder = os.environ.get("REMBRANDT_DATA", "../shared/data")
    train = catalogue.load(set_name, "train", folder=folder)
    start_cpu, start = _cpu(), time.perf_counter()
    classifier = RembrandtClassifier(**settings, random_state=seed).fit_dataset(train)
    cpu, wall = _cpu() - start_cpu, time.perf_counter() - start
    test = catalogue.load(set_name, "test", folder=folder)
    if train.feature_names is not None:
        test = test.align_features(train.feature_names)
    result = measure(classifier, test).model
    embed_cpu = float("nan")
    if train.X is not None:
        start_cpu = _cpu()
        LabelEmbedder(n_components=min(50, train.n_labels), random_state=seed).fit(train.X, train.Y)
        embed_cpu = _cpu() - start_cpu
    gigabytes = peak_bytes() / 2**30
    return result | {"cpu": cpu, "wall": wall, "gigabytes": gigabytes, "embed_cpu": embed_cpu}


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
