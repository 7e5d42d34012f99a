"""One-against-all and the LOMtree of Vowpal Wabbit, which the paper compares with.

Learning rate, number of passes and size of the tree are chosen on held-out training rows. The test
rows are used once.
"""

import math
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

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
MOST_PASSES, MOST_NODES = 160, 256
HOURS = 0.3  # of a search, on sixteen cores
RATE, PASSES, NODES, EDGE = "learning rate", "passes", "nodes per class", "at an edge"


@dataclass(frozen=True)
class Grid:
    """The settings to try: all combinations of these values.

    A LOMtree has as many nodes as the number of classes that it is given. ``nodes_per_class``
    multiplies that number.
    """

    rates: tuple[float, ...]
    passes: tuple[int, ...]
    bits: int = 22  # of the hash table of weights: large enough to avoid collisions
    nodes_per_class: tuple[int, ...] = (1,)

    def beyond(self, tried: list["Setting"], n_held: int) -> "Grid | None":
        """Return the values next to the best setting that are outside of this grid; None if it is
        not at an edge.
        """
        best = min(tried)
        rates, passes, nodes = set[float](), set[int](), set[int]()
        if len(self.rates) > 1:
            rates |= {best.rate * 2} if at_edge(tried, "rate", max(self.rates), n_held) else set()
            rates |= {best.rate / 2} if at_edge(tried, "rate", min(self.rates), n_held) else set()
        if at_edge(tried, "passes", max(self.passes), n_held) and 2 * best.passes <= MOST_PASSES:
            passes.add(2 * best.passes)
        if len(self.nodes_per_class) > 1 and 4 * best.nodes <= MOST_NODES:
            nodes |= (
                {4 * best.nodes}
                if at_edge(tried, "nodes", max(self.nodes_per_class), n_held)
                else set()
            )
        if not (rates or passes or nodes):
            return None
        return replace(
            self,
            rates=tuple(sorted({best.rate} | rates)),
            passes=tuple(sorted({best.passes} | passes)),
            nodes_per_class=tuple(sorted({best.nodes} | nodes)),
        )

    def joined(self, other: "Grid") -> "Grid":
        """Return the grid of all values of both."""
        names = ("rates", "passes", "nodes_per_class")
        values: dict[str, Any] = {
            n: tuple(sorted({*getattr(self, n), *getattr(other, n)})) for n in names
        }
        return replace(self, **values)


class Setting(NamedTuple):
    """A tried setting, compared by its error on held-out rows first."""

    error: float
    rate: float
    passes: int
    nodes: int


def at_edge(tried: list[Setting], name: str, edge: float, n_held: int) -> bool:
    """Return whether the best setting needs a value at the edge of its list.

    It does not if a setting with another value is as good within a standard error of the error on
    held-out rows: more passes lower the error of a convex loss for ever, but less and less.
    """
    best = min(tried)
    chance = math.sqrt(max(0.0, best.error * (1 - best.error)) / n_held)
    others = [setting.error for setting in tried if getattr(setting, name) != edge]
    return getattr(best, name) == edge and all(error > best.error + chance for error in others)


@dataclass(frozen=True)
class Outcome:
    """The error on the test rows, the chosen settings, and the seconds of the final fit."""

    error: float
    rate: float
    passes: int
    nodes_per_class: int
    seconds: float
    at_edge: bool  # whether the limit of passes, nodes or time ended the search


def tuning_table(hours: float = HOURS, **grids: str) -> Table:
    """Return the table of chosen settings; ``grids`` maps each system to the setting that holds its
    grid.
    """
    tried = "; ".join(
        f"for {system} learning rates {{{grid}[rates]}}, passes {{{grid}[passes]}}, nodes per "
        "class "
        f"{{{grid}[nodes_per_class]}}"
        for system, grid in grids.items()
    )
    return Table(
        "Chosen settings of Vowpal Wabbit",
        f"Chosen by the error on held-out training rows. Tried were {tried}. A LOMtree has as many "
        "nodes as the number "
        "of classes that it is given; nodes per class multiplies that number. A search extends a "
        "list while the best "
        "value is at its edge and no other value is as good within a standard error of the "
        "held-out error, up to "
        f"{MOST_PASSES} passes and {MOST_NODES} nodes per class and for {60 * hours:g} minutes. "
        f"Where `{EDGE}` is 1, "
        "the search ended at an edge or at this limit, and a wider one may find a better value.",
        (Column(RATE, "g"), Column(PASSES, "g"), Column(NODES, "g"), Column(EDGE, "g")),
    )


def check_installed() -> None:
    """Raise `SkippedError` if Vowpal Wabbit is not installed."""
    if find_spec("vowpalwabbit") is None:
        raise SkippedError(
            "Vowpal Wabbit is not installed; install it with pip install 'rembrandt[bench]'"
        )


def step(
    experiment: str, system: str, train: Dataset, test: Dataset, grid: Grid, hours: float = HOURS
) -> Step:
    """Return the step that measures the error of a system and its chosen settings.

    The search ends after some hours. If nothing was fitted by then, the step is skipped.
    """

    def run(report: Report) -> list[Row]:
        try:
            found = measure(system, train, test, grid, report, 3600 * hours)
        except subprocess.TimeoutExpired as error:
            raise SkippedError(
                f"no fit ended within the limit of {60 * hours:g} minutes"
            ) from error
        return [
            Row(experiment, system, ERROR, 100 * found.error, found.seconds),
            Row(experiment, system, RATE, found.rate),
            Row(experiment, system, PASSES, found.passes),
            Row(experiment, system, NODES, found.nodes_per_class),
            Row(experiment, system, EDGE, found.at_edge),
        ]

    return Step(system, run)


def measure(
    system: str,
    train: Dataset,
    test: Dataset,
    grid: Grid,
    report: Report = silent,
    limit: float = math.inf,
) -> Outcome:
    """Choose settings on a part of ``train``, fit all of it with them, and measure the error on
    ``test``.

    The search ends after ``limit`` seconds with the best setting found by then. Raises
    `subprocess.TimeoutExpired` if there is none, or if the final fit takes longer than the limit.
    """
    check_installed()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fit, held = train.split(HELD_OUT)
        files = {"fit": fit, "held": held, "train": train, "test": test}
        for done, (part, data) in enumerate(files.items()):
            report("writing examples", done, len(files))
            write_examples(folder / part, data)
        report("writing examples", len(files), len(files))
        deadline = time.monotonic() + limit

        def options(nodes: int) -> list[str]:
            return [REDUCTIONS[system], str(nodes * train.n_labels), "-b", str(grid.bits)]

        def trials(candidate: tuple[float, int, tuple[int, ...]]) -> list[Setting]:
            rate, nodes, passes = candidate
            model = folder / f"{rate}-{nodes}" / "model"
            model.parent.mkdir()
            saved = {number: model.with_name(f"{model.name}.{number}") for number in passes}
            try:
                _train(
                    folder / "fit",
                    model,
                    [*options(nodes), "--save_per_pass"],
                    rate,
                    max(passes),
                    deadline,
                )
            except subprocess.TimeoutExpired:
                late.append(candidate)
                saved = {number: file for number, file in saved.items() if file.exists()}
            found = [
                Setting(_error(file, folder / "held", held), rate, number, nodes)
                for number, file in saved.items()
            ]
            shutil.rmtree(model.parent)  # the models of all passes may fill the disk
            return found

        tried: list[Setting] = []
        late: list[object] = []  # candidates that the limit of time has stopped
        more: Grid | None = grid
        while more is not None and not late:
            known = {setting[1:] for setting in tried}
            candidates = [
                (rate, nodes, more.passes)
                for rate, nodes in product(more.rates, more.nodes_per_class)
                if any((rate, passes, nodes) not in known for passes in more.passes)
            ]
            with ThreadPoolExecutor(
                n_threads()
            ) as pool:  # each thread waits for a process with one thread
                for done, found in enumerate(pool.map(trials, candidates)):
                    report(f"tuning {system}", done, len(candidates))
                    tried += found
            report(f"tuning {system}", len(candidates), len(candidates))
            if not tried:
                raise subprocess.TimeoutExpired("vw", limit)
            grid = grid.joined(more)
            more = grid.beyond(tried, held.n_examples)
        _, rate, passes, nodes = min(tried)
        begin = time.perf_counter()
        _train(
            folder / "train",
            folder / "model",
            options(nodes),
            rate,
            passes,
            time.monotonic() + limit,
        )
        seconds = time.perf_counter() - begin
        error = _error(folder / "model", folder / "test", test)
        edge = bool(late) or at_edge(tried, "passes", max(grid.passes), held.n_examples)
        if len(grid.nodes_per_class) > 1:
            edge |= at_edge(tried, "nodes", max(grid.nodes_per_class), held.n_examples)
        return Outcome(error, rate, passes, nodes, seconds, edge)


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
            cells = " ".join(
                f"{features[i]}:{values[i]:g}" for i in range(starts[row], starts[row + 1])
            )
            # A class without training examples has no number; the row counts as an error.
            file.write(f"{mine[0] if mine else ''} | {cells}\n")


def _train(
    data: Path, model: Path, options: list[str], rate: float, passes: int, deadline: float
) -> None:
    cache = model.with_name(f"{model.name}.cache")  # one for each model: fits run in parallel
    how = [
        "-l",
        str(rate),
        "--passes",
        str(passes),
        "--holdout_off",
        "-k",
        "--cache_file",
        str(cache),
    ]
    _call(["-d", str(data), *options, *how, "-f", str(model)], deadline)
    cache.unlink(missing_ok=True)


def _error(model: Path, file: Path, data: Dataset) -> float:
    output = model.with_name(f"{model.name}.predicted")
    _call(["-t", "-i", str(model), "-d", str(file), "-p", str(output)])
    predicted: NDArray[np.int64] = np.loadtxt(output, dtype=np.int64, ndmin=1)[:, None] - 1
    return 1 - float(precision_at_k(data.Y, predicted, 1))


def _call(arguments: list[str], deadline: float = math.inf) -> None:
    command = [sys.executable, "-m", "vowpalwabbit", "--quiet", *arguments]
    left = None if math.isinf(deadline) else max(0.0, deadline - time.monotonic())
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=left)
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise RembrandtError(
            f"Vowpal Wabbit failed: {lines[-1] if lines else f'exit code {done.returncode}'}"
        )
