"""How much faster is a fit on more cores?

    python -m benchmarks.cores [SET ...] [--cores 1 2 4 8 16] [--preset balanced] [--output FILE]

Each fit runs in a process of its own that may use that many cores and no others. The table has the
seconds that it took, the CPU seconds, and how many cores were at work on average. Reading the file
is not counted. The loops of the library are compiled before the first fit.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.real_sets import cpu_seconds, load_part
from benchmarks.results import machine, write_json

SETS = ("pubmed-mesh", "gutenberg", "nvd-products")
# What libraries read their number of threads from.
VARIABLES = (
    "REMBRANDT_NUM_THREADS",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
)


def usable_cores() -> list[int]:
    """Return the cores that this process may use."""
    return sorted(os.sched_getaffinity(0))


def measured(name: str, n_cores: int, preset: str, rows: int | None) -> dict[str, Any]:
    """Fit in a new process that may use ``n_cores`` cores; return what it took."""
    words = [sys.executable, "-m", "benchmarks.cores", name, "--one", "--preset", preset]
    if rows is not None:
        words += ["--rows", str(rows)]
    cores = set(usable_cores()[:n_cores])
    environment = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    done = subprocess.run(
        words,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        preexec_fn=lambda: os.sched_setaffinity(0, cores),
    )
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def fit(name: str, preset: str, rows: int | None) -> dict[str, Any]:
    """Fit to the training rows of a set; return the seconds that it took."""
    from rembrandt import RembrandtClassifier

    train = load_part(name, "train")
    if rows is not None:
        train = train.rows(np.arange(min(rows, train.n_examples)))
    begun, begun_cpu = time.perf_counter(), cpu_seconds()
    RembrandtClassifier(preset=preset, random_state=0).fit_dataset(train)
    wall, cpu = time.perf_counter() - begun, cpu_seconds() - begun_cpu
    return {"wall": round(wall, 2), "cpu": round(cpu, 2), "at_work": round(cpu / wall, 2)}


def main(arguments: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Measure every set on every number of cores, and print a table."""
    subprocess.run([sys.executable, "-m", "rembrandt", "compile"], check=True)
    results: dict[str, dict[str, Any]] = {"machine": machine()}
    print(f"{'':<16}{'cores':>6}{'wall s':>9}{'CPU s':>9}{'at work':>9}")
    for name in arguments.sets:
        results[name] = {}
        for n_cores in arguments.cores:
            if n_cores > len(usable_cores()):
                print(f"{name:<16}{n_cores:>6}  there are {len(usable_cores())}")
                continue
            row = measured(name, n_cores, arguments.preset, arguments.rows)
            results[name][str(n_cores)] = row
            print(
                f"{name:<16}{n_cores:>6}{row['wall']:>9.1f}{row['cpu']:>9.1f}{row['at_work']:>9.2f}",
                flush=True,
            )
    if arguments.output is not None:
        write_json(arguments.output, results)
    return results


def parsed(words: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sets", nargs="*", default=list(SETS))
    parser.add_argument("--cores", nargs="+", type=int, default=[1, 2, 4, 8, 16])
    parser.add_argument("--preset", default="balanced")
    parser.add_argument("--rows", type=int, help="training rows of each set; all by default")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args(words)


if __name__ == "__main__":
    asked = parsed()
    if asked.one:
        print(json.dumps(fit(asked.sets[0], asked.preset, asked.rows)))
    else:
        main(asked)
