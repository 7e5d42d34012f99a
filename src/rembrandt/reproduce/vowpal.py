"""The peers that the paper compares with, as Vowpal Wabbit itself runs them: one-against-all and the LOMtree.

Learning rate and passes are chosen on a held-out part of the training rows; test rows are seen once, at the end.
"""

import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rembrandt.data import Dataset
from rembrandt.errors import RembrandtError
from rembrandt.linalg.threads import n_threads
from rembrandt.metrics import precision_at_k
from rembrandt.progress import Report, silent
from rembrandt.reproduce.experiment import SkippedError

REDUCTIONS = {"OAA": "--oaa", "LOMtree": "--log_multi"}
BITS = 22  # of the weight table: every weight of a thousand classes or nodes has a place of its own
HELD_OUT = 0.1


@dataclass(frozen=True)
class Grid:
    """What is tried."""

    rates: tuple[float, ...]
    passes: tuple[int, ...]


@dataclass(frozen=True)
class Outcome:
    """The error on the test rows, the settings chosen, and the seconds of the last fit."""

    error: float
    rate: float
    passes: int
    seconds: float


def check_installed() -> None:
    if find_spec("vowpalwabbit") is None:
        raise SkippedError("Vowpal Wabbit is not installed; pip install 'rembrandt[bench]' brings it")


def measure(system: str, train: Dataset, test: Dataset, grid: Grid, report: Report = silent) -> Outcome:
    """Choose the settings on a part of ``train``, fit all of it with them, and measure on ``test``."""
    check_installed()
    option = [REDUCTIONS[system], str(train.n_labels)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fit, held = train.split(HELD_OUT)
        files = {"fit": fit, "held": held, "train": train, "test": test}
        for part, data in files.items():
            write_examples(folder / part, data)
        tried = 0

        def quality(rate: float) -> list[tuple[float, float, int]]:
            nonlocal tried
            model = folder / f"model-{rate}"
            _train(folder / "fit", model, [*option, "--save_per_pass"], rate, max(grid.passes))
            scored = []
            for passes in grid.passes:
                after = model.with_name(f"{model.name}.{passes}")
                scored.append((_error(after, folder / "held", held), rate, passes))
            tried += 1
            report(f"tuning {system}", tried, len(grid.rates))
            return scored

        report(f"tuning {system}", 0, len(grid.rates))
        with ThreadPoolExecutor(n_threads()) as pool:  # each is a process of one thread
            trials = [trial for scored in pool.map(quality, grid.rates) for trial in scored]
        _, rate, passes = min(trials)
        begun = time.perf_counter()
        _train(folder / "train", folder / "model", option, rate, passes)
        seconds = time.perf_counter() - begun
        return Outcome(_error(folder / "model", folder / "test", test), rate, passes, seconds)


def write_examples(path: Path, data: Dataset) -> None:
    """The rows as Vowpal Wabbit reads them, labels and features numbered from one."""
    X, Y = data.X, data.Y
    if X is None:
        raise ValueError("Vowpal Wabbit is given features here, and these rows are texts")
    features, values = (X.indices + 1).tolist(), X.data.tolist()
    starts, labels = X.indptr.tolist(), (Y.indices + 1).tolist()
    with path.open("w", encoding="ascii") as file:
        for row in range(data.n_examples):
            mine = labels[Y.indptr[row] : Y.indptr[row + 1]]
            span = range(starts[row], starts[row + 1])
            # A row whose class training never saw has no number to give; it counts as missed later.
            cells = " ".join(f"{features[i]}:{values[i]:g}" for i in span)
            file.write(f"{mine[0] if mine else ''} | {cells}\n")


def _train(data: Path, model: Path, options: list[str], rate: float, passes: int) -> None:
    cache = model.with_name(f"{model.name}.cache")  # its own: fits run side by side
    how = ["-b", str(BITS), "-l", str(rate), "--passes", str(passes), "--holdout_off", "-k", "--cache_file", str(cache)]
    _call(["-d", str(data), *options, *how, "-f", str(model)])
    cache.unlink(missing_ok=True)


def _error(model: Path, file: Path, data: Dataset) -> float:
    found = model.with_name(f"{model.name}.predicted")
    _call(["-t", "-i", str(model), "-d", str(file), "-p", str(found)])
    predicted: NDArray[np.int64] = np.loadtxt(found, dtype=np.int64, ndmin=1)[:, None] - 1
    return 1 - float(precision_at_k(data.Y, predicted, 1))


def _call(arguments: list[str]) -> None:
    command = [sys.executable, "-m", "vowpalwabbit", "--quiet", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise RembrandtError(f"Vowpal Wabbit failed: {said[-1] if said else f'exit code {done.returncode}'}")
