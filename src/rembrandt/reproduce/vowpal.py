"""The peers that the paper compares with, as Vowpal Wabbit itself runs them: one-against-all and the LOMtree.

Learning rate, passes and the size of a tree are chosen on a held-out part of the training rows; test rows are seen
once, at the end.
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

from rembrandt.data import Dataset
from rembrandt.errors import RembrandtError
from rembrandt.linalg.threads import n_threads
from rembrandt.metrics import precision_at_k
from rembrandt.progress import Report, silent
from rembrandt.reproduce.experiment import Column, Row, SkippedError, Table

REDUCTIONS = {"OAA": "--oaa", "LOMtree": "--log_multi"}
HELD_OUT = 0.1
ERROR, RATE, PASSES, ROOM = "test error (%)", "learning rate", "passes", "room"


@dataclass(frozen=True)
class Grid:
    """What is tried: every rate with every room, looked at after some numbers of passes.

    A LOMtree gets as many nodes as it is told that there are classes; ``room`` is how many times as many it is told as
    there are.
    """

    rates: tuple[float, ...]
    passes: tuple[int, ...]
    bits: int = 22  # of the weight table: every weight of a thousand classes or nodes has a place of its own
    room: tuple[int, ...] = (1,)


@dataclass(frozen=True)
class Outcome:
    """The error on the test rows, the settings chosen, and the seconds of the last fit."""

    error: float
    rate: float
    passes: int
    room: int
    seconds: float


def chosen(**grids: str) -> Table:
    """How the report shows what was chosen; ``grids`` names the setting that holds each system's grid."""
    tried = "; ".join(
        f"for {system} learning rates {{{grid}[rates]}}, passes {{{grid}[passes]}}, room {{{grid}[room]}}"
        for system, grid in grids.items()
    )
    return Table(
        "What Vowpal Wabbit was tuned to",
        f"Chosen by the error on a held-out part of the training rows: {tried}. A LOMtree has as "
        "many nodes as it is told classes, and room is how many times as many it is told as there are. Where the "
        "largest of a list was chosen, a longer search may find better.",
        (Column(RATE, "g"), Column(PASSES, "g"), Column(ROOM, "g")),
    )


def check_installed() -> None:
    if find_spec("vowpalwabbit") is None:
        raise SkippedError("Vowpal Wabbit is not installed; pip install 'rembrandt[bench]' brings it")


def rows(
    experiment: str,
    system: str,
    train: Dataset,
    test: Dataset,
    grid: Grid,
    report: Report = silent,
    paper: float | None = None,
) -> list[Row]:
    """The error of a system and what it was tuned to."""
    found = measure(system, train, test, grid, report)
    return [
        Row(experiment, system, ERROR, 100 * found.error, paper, found.seconds),
        Row(experiment, system, RATE, found.rate),
        Row(experiment, system, PASSES, found.passes),
        Row(experiment, system, ROOM, found.room),
    ]


def measure(system: str, train: Dataset, test: Dataset, grid: Grid, report: Report = silent) -> Outcome:
    """Choose the settings on a part of ``train``, fit all of it with them, and measure on ``test``."""
    check_installed()

    def options(room: int) -> list[str]:
        return [REDUCTIONS[system], str(room * train.n_labels), "-b", str(grid.bits)]

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fit, held = train.split(HELD_OUT)
        files = {"fit": fit, "held": held, "train": train, "test": test}
        for done, (part, data) in enumerate(files.items()):
            report("writing examples", done, len(files))
            write_examples(folder / part, data)
        report("writing examples", len(files), len(files))
        tried = 0
        candidates = list(product(grid.rates, grid.room))

        def quality(candidate: tuple[float, int]) -> list[tuple[float, float, int, int]]:
            nonlocal tried
            rate, room = candidate
            model = folder / f"{rate}-{room}" / "model"
            model.parent.mkdir()
            _train(folder / "fit", model, [*options(room), "--save_per_pass"], rate, max(grid.passes))
            scored = []
            for passes in grid.passes:
                after = model.with_name(f"{model.name}.{passes}")
                scored.append((_error(after, folder / "held", held), rate, passes, room))
            shutil.rmtree(model.parent)  # a model for every pass fills a disk
            tried += 1
            report(f"tuning {system}", tried, len(candidates))
            return scored

        report(f"tuning {system}", 0, len(candidates))
        with ThreadPoolExecutor(n_threads()) as pool:  # each is a process of one thread
            trials = [trial for scored in pool.map(quality, candidates) for trial in scored]
        _, rate, passes, room = min(trials)
        begun = time.perf_counter()
        _train(folder / "train", folder / "model", options(room), rate, passes)
        seconds = time.perf_counter() - begun
        return Outcome(_error(folder / "model", folder / "test", test), rate, passes, room, seconds)


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
    how = ["-l", str(rate), "--passes", str(passes), "--holdout_off", "-k", "--cache_file", str(cache)]
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
