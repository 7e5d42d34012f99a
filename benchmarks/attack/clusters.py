"""Dask clusters that lose processes in the middle of a fit.

python -m benchmarks.attack dask [--cases 25] [--seed 0]

A scheduler and two workers are processes of their own. Each case fits a model on them and kills a
process soon after a random one of the tasks of the fit was submitted: of five cases three lose a
worker for good, one loses a worker and gets another one, and one loses the scheduler. With
``--all-workers`` one more case loses all workers. The fit ends with the bits of an undisturbed fit,
or with a sentence, and within a minute of the kill.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from benchmarks.attack.folders import READING
from rembrandt import Dataset, RembrandtClassifier, read
from rembrandt.data.convert import convert
from rembrandt.data.generated import labelled_documents
from rembrandt.engines.dask import DaskExecutor
from rembrandt.errors import EngineError

PATIENCE = 60.0  # seconds after a kill in which the fit ends
START = 60.0  # seconds for the processes of a cluster to start, and for a fit to get to a task
MAX_DELAY = 0.1  # seconds after a task was submitted
LOSSES = ("worker", "worker", "worker", "replaced worker", "scheduler")
FIT: dict[str, Any] = {
    "parts": ("trees", "centroids", "embedding"),
    "decoder": "logistic",
    "kernel": None,
    "n_components": 4,
    "random_state": 0,
}


class HangError(Exception):
    """A fit did not end in time."""


class Cluster:
    """A scheduler and workers that can be killed."""

    def __init__(self, folder: Path, n_workers: int = 2) -> None:
        self.file = folder / "scheduler.json"
        self.file.unlink(missing_ok=True)
        self.logs = (folder / "cluster.log").open("ab")
        self.scheduler = self._start("dask_scheduler", "--host", "127.0.0.1", "--port", "0")
        self.workers: list[subprocess.Popen[bytes]] = []
        self.grow(n_workers)

    def grow(self, n_workers: int) -> None:
        """Start workers until there are as many."""
        while len(self.workers) < n_workers:
            options = ("--nthreads", "1", "--no-nanny", "--host", "127.0.0.1")
            self.workers.append(self._start("dask_worker", *options))

    def _start(self, program: str, *options: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"distributed.cli.{program}", *options]
        command += ["--no-dashboard", "--scheduler-file", str(self.file)]
        environment = os.environ | {"REMBRANDT_NUM_THREADS": "1"}
        return subprocess.Popen(command, stdout=self.logs, stderr=self.logs, env=environment)

    def wait(self) -> str:
        """Return the address of the scheduler once it knows all workers."""
        from distributed import Client

        deadline = time.monotonic() + START
        while not self.file.exists():
            if time.monotonic() > deadline:
                raise RuntimeError("the Dask scheduler did not start")
            time.sleep(0.1)
        with Client(scheduler_file=str(self.file), set_as_default=False) as client:
            client.wait_for_workers(len(self.workers), timeout=START)
            return str(client.scheduler.address)

    def lose(self, what: str) -> None:
        """Kill a worker, all workers or the scheduler, and wait for their end."""
        lost = [self.scheduler]
        if what == "all workers":
            lost = self.workers
            self.workers = []
        elif what != "scheduler":
            lost = [self.workers.pop(0)]
        for process in lost:
            process.kill()
        for process in lost:
            process.wait()
        if what == "replaced worker":
            self.grow(len(self.workers) + 1)

    @property
    def is_alive(self) -> bool:
        return self.scheduler.poll() is None

    def close(self) -> None:
        """Kill all processes."""
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.wait()
        self.logs.close()


def fit(data: Dataset, device: str) -> bytes:
    """Fit a model and return its bits."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = RembrandtClassifier(**FIT, device=device).fit_dataset(data).model_
    arrays: list[bytes] = []
    for name in sorted(model.parts):
        part_arrays, _ = model.parts[name].arrays()
        for key in sorted(part_arrays):
            arrays.append(np.ascontiguousarray(part_arrays[key]).tobytes())
    return b"".join(arrays)


@contextmanager
def after_tasks(number: int, call: Callable[[], None]) -> Iterator[list[str]]:
    """Call a function when a fit submits its task of this number; the tasks are listed."""
    submitted: list[str] = []
    submit = DaskExecutor._submit

    def counted(executor: DaskExecutor, worker: str, *task: Any) -> Any:
        submitted.append(worker)
        if len(submitted) == number:
            call()
        return submit(executor, worker, *task)

    DaskExecutor._submit = counted  # type: ignore[method-assign]
    try:
        yield submitted
    finally:
        DaskExecutor._submit = submit  # type: ignore[method-assign]


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise HangError


class Trials:
    """Fits on a cluster that loses processes."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.rng = np.random.default_rng(seed)
        self.outcomes: Counter[str] = Counter()
        self.failures: list[str] = []
        self.longest = 0.0
        documents = labelled_documents(300, n_topics=3, labels_per_topic=5)[0]
        assert documents.texts is not None
        rows = zip(documents.texts, documents.Y, strict=True)
        lines = (f"{text}\t{_labels(documents, y)}\n" for text, y in rows)
        (folder / "train.tsv").write_text("text\tlabels\n" + "".join(lines), encoding="utf-8")
        convert([folder / "train.tsv"], folder / "store", rows=40, **READING)
        self.data = read(folder / "store")
        self.cluster = Cluster(folder)
        device = f"dask:{self.cluster.wait()}"
        with after_tasks(0, lambda: None) as submitted:
            self.expected = fit(self.data, device)
        self.n_tasks = len(submitted)

    def run(self, number: int, what: str) -> None:
        """Lose a process during a fit, and note how it ends."""
        if not self.cluster.is_alive:
            self.cluster.close()
            self.cluster = Cluster(self.folder)
        self.cluster.grow(2)
        device = f"dask:{self.cluster.wait()}"
        task = int(self.rng.integers(1, self.n_tasks + 1))
        delay = float(self.rng.uniform(0, MAX_DELAY))
        killed: list[float] = []

        def kill() -> None:
            self.cluster.lose(what)
            killed.append(time.perf_counter())

        signal.signal(signal.SIGALRM, _interrupt)
        signal.alarm(int(START + PATIENCE))
        killer = threading.Timer(delay, kill)
        try:
            with after_tasks(task, killer.start):
                same = fit(self.data, device) == self.expected
            outcome = "equal bits" if same else "other bits"
            detail = outcome
        except EngineError as error:
            outcome, detail = "a sentence", str(error)
        except HangError:
            outcome, detail = "hang", f"no end within {PATIENCE:.0f} s"
        except Exception as error:  # noqa: BLE001 - which is what the attack looks for
            outcome, detail = "traceback", f"{type(error).__name__}: {error}"
        finally:
            signal.alarm(0)
        end = time.perf_counter()
        if killer.ident is None:
            raise RuntimeError(f"the fit ended before task {task} of {self.n_tasks}: {detail}")
        killer.join()
        seconds = end - killed[0]
        self.longest = max(self.longest, seconds)
        self.outcomes[f"{what}: {outcome}"] += 1
        place = f"{what} lost in task {task} of {self.n_tasks}"
        print(f"{number}: {place}: {detail} {seconds:.1f} s later", flush=True)
        if outcome not in ("equal bits", "a sentence") or seconds > PATIENCE:
            self.failures.append(f"case {number}: {place}: {detail} {seconds:.1f} s later")


def _labels(documents: Dataset, y: Any) -> str:
    return "|".join(documents.label_ids[j] for j in y.indices)


def losses(cases: int, seed: int, all_workers: bool = False) -> Trials:
    """Run cases, and return what came of them."""
    with tempfile.TemporaryDirectory(prefix="rembrandt-dask-") as folder:
        trials = Trials(Path(folder), seed)
        try:
            for number in range(cases):
                trials.run(number, LOSSES[number % len(LOSSES)])
            if all_workers:
                trials.run(cases, "all workers")
        finally:
            trials.cluster.close()
    return trials


def main(given: list[str]) -> int:
    """Run the cases and print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", type=int, default=25)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--all-workers", action="store_true")
    options = parser.parse_args(given)
    start = time.perf_counter()
    trials = losses(options.cases, options.seed, options.all_workers)
    for failure in trials.failures[:5]:
        print(failure)
    figures = ", ".join(f"{count} {what}" for what, count in sorted(trials.outcomes.items()))
    print(
        f"dask: {figures}; {len(trials.failures)} failures; the fit ended at most "
        f"{trials.longest:.0f} s after the kill; {time.perf_counter() - start:.0f} s"
    )
    return 1 if trials.failures else 0
