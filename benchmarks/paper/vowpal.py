"""One-against-all and the LOMtree of Vowpal Wabbit, which the paper compares with.

Learning rate, number of passes and size of the tree are chosen on held-out training rows. The test rows are used once.
"""

import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.paper.experiment import Column, Row, SkippedError, Step, Table
from benchmarks.paper.fits import ERROR
from rembrandt.data import Dataset
from rembrandt.errors import RembrandtError
from rembrandt.linalg.threads import n_threads
from rembrandt.metrics import precision_at_k
from rembrandt.progress import Report, silent

REDUCTIONS = {"OAA": "--oaa", "LOMtree": "--log_multi"}
HELD_OUT = 0.1
RATE, PASSES, NODES = "learning rate", "passes", "nodes per class"


@dataclass(frozen=True)
class Grid:
    """The settings to try: all combinations of these values.

    A LOMtree has as many nodes as the number of classes that it is given. ``nodes_per_class`` multiplies that number.
    """

    rates: tuple[float, ...]
    passes: tuple[int, ...]
    bits: int = 22  # of the hash table of weights: large enough to avoid collisions
    nodes_per_class: tuple[int, ...] = (1,)


@dataclass(frozen=True)
class Outcome:
    """The error on the test rows, the chosen settings, and the seconds of the final fit."""

    error: float
    rate: float
    passes: int
    nodes_per_class: int
    seconds: float


def tuning_table(**grids: str) -> Table:
    """Return the table of chosen settings; ``grids`` maps each system to the setting that holds its grid."""
    tried = "; ".join(
        f"for {system} learning rates {{{grid}[rates]}}, passes {{{grid}[passes]}}, nodes per class "
        f"{{{grid}[nodes_per_class]}}"
        for system, grid in grids.items()
    )
    return Table(
        "Chosen settings of Vowpal Wabbit",
        f"Chosen by the error on held-out training rows. Tried were {tried}. A LOMtree has as many nodes as the number "
        "of classes that it is given; nodes per class multiplies that number. If the largest value of a list was "
        "chosen, a wider search may find a better one.",
        (Column(RATE, "g"), Column(PASSES, "g"), Column(NODES, "g")),
    )


def check_installed() -> None:
    """Raise `SkippedError` if Vowpal Wabbit is not installed."""
    if find_spec("vowpalwabbit") is None:
        raise SkippedError("Vowpal Wabbit is not installed; install it with pip install 'rembrandt[bench]'")


def step(experiment: str, system: str, train: Dataset, test: Dataset, grid: Grid, paper: float | None = None) -> Step:
    """Return the step that measures the error of a system and its chosen settings."""

    def run(report: Report) -> list[Row]:
        found = measure(system, train, test, grid, report)
        return [
            Row(experiment, system, ERROR, 100 * found.error, paper, found.seconds),
            Row(experiment, system, RATE, found.rate),
            Row(experiment, system, PASSES, found.passes),
            Row(experiment, system, NODES, found.nodes_per_class),
        ]

    return Step(system, run)


def measure(system: str, train: Dataset, test: Dataset, grid: Grid, report: Report = silent) -> Outcome:
    """Choose settings on a part of ``train``, fit all of it with them, and measure the error on ``test``."""
    check_installed()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fit, held = train.split(HELD_OUT)
        files = {"fit": fit, "held": held, "train": train, "test": test}
        for done, (part, data) in enumerate(files.items()):
            report("writing examples", done, len(files))
            write_examples(folder / part, data)
        report("writing examples", len(files), len(files))

        def options(nodes: int) -> list[str]:
            return [REDUCTIONS[system], str(nodes * train.n_labels), "-b", str(grid.bits)]

        def trials(candidate: tuple[float, int]) -> list[tuple[float, float, int, int]]:
            rate, nodes = candidate
            model = folder / f"{rate}-{nodes}" / "model"
            model.parent.mkdir()
            _train(folder / "fit", model, [*options(nodes), "--save_per_pass"], rate, max(grid.passes))
            saved = {passes: model.with_name(f"{model.name}.{passes}") for passes in grid.passes}
            errors = [(_error(file, folder / "held", held), rate, passes, nodes) for passes, file in saved.items()]
            shutil.rmtree(model.parent)  # the models of all passes may fill the disk
            return errors

        candidates = list(product(grid.rates, grid.nodes_per_class))
        tried = []
        with ThreadPoolExecutor(n_threads()) as pool:  # each thread waits for a process with one thread
            for done, errors in enumerate(pool.map(trials, candidates)):
                report(f"tuning {system}", done, len(candidates))
                tried += errors
        report(f"tuning {system}", len(candidates), len(candidates))
        _, rate, passes, nodes = min(tried)
        begin = time.perf_counter()
        _train(folder / "train", folder / "model", options(nodes), rate, passes)
        seconds = time.perf_counter() - begin
        return Outcome(_error(folder / "model", folder / "test", test), rate, passes, nodes, seconds)


def write_examples(path: Path, data: Dataset) -> None:
    """Write the rows in Vowpal Wabbit's format, with labels and features numbered from one."""
    X, Y = data.X, data.Y
    if X is None:
        raise ValueError("Vowpal Wabbit needs rows of features, and these rows are texts")
    features, values = (X.indices + 1).tolist(), X.data.tolist()
    starts, labels = X.indptr.tolist(), (Y.indices + 1).tolist()
    with path.open("w", encoding="ascii") as file:
        for row in range(data.n_examples):
            mine = labels[Y.indptr[row] : Y.indptr[row + 1]]
            cells = " ".join(f"{features[i]}:{values[i]:g}" for i in range(starts[row], starts[row + 1]))
            # A class without training examples has no number; the row counts as an error.
            file.write(f"{mine[0] if mine else ''} | {cells}\n")


def _train(data: Path, model: Path, options: list[str], rate: float, passes: int) -> None:
    cache = model.with_name(f"{model.name}.cache")  # one for each model: fits run in parallel
    how = ["-l", str(rate), "--passes", str(passes), "--holdout_off", "-k", "--cache_file", str(cache)]
    _call(["-d", str(data), *options, *how, "-f", str(model)])
    cache.unlink(missing_ok=True)


def _error(model: Path, file: Path, data: Dataset) -> float:
    output = model.with_name(f"{model.name}.predicted")
    _call(["-t", "-i", str(model), "-d", str(file), "-p", str(output)])
    predicted: NDArray[np.int64] = np.loadtxt(output, dtype=np.int64, ndmin=1)[:, None] - 1
    return 1 - float(precision_at_k(data.Y, predicted, 1))


def _call(arguments: list[str]) -> None:
    command = [sys.executable, "-m", "vowpalwabbit", "--quiet", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise RembrandtError(f"Vowpal Wabbit failed: {lines[-1] if lines else f'exit code {done.returncode}'}")
