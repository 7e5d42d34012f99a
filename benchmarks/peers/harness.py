"""Runs in the environment of a program: train it on one set, measure the cost and store the
predictions.

It needs only NumPy and SciPy besides the program. `benchmarks.peers.runner` scores the predictions
of all programs.

The cost of training is the CPU time, user and system, of the whole process with all threads and
child processes, from the start of reading the training examples to the end of the fit. omikuji and
Rembrandt read the same text file in the format of the Extreme Classification Repository; libpecos
and the others that take arrays read the same arrays. Not counted: imports, compilation, and the
conversion to a format that only one program reads (fastText and Vowpal Wabbit, which then read
their own file during the fit, and lists of labels for napkinXC).
"""

import json
import resource
import sys
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse


class NotFeasibleError(Exception):
    """The program cannot run on this set within the limits; the message gives the reason."""


@dataclass(frozen=True)
class Part:
    """Training or test examples: features, labels, and a file with the words of each example."""

    X: sparse.csr_array
    Y: sparse.csr_array
    words: Path

    @classmethod
    def load(cls, folder: Path, part: str) -> "Part":
        X, Y = (sparse.csr_array(sparse.load_npz(folder / f"{name}_{part}.npz")) for name in "XY")
        return cls(X, Y, folder / f"words_{part}.txt")

    def rows(self, matrix: str) -> list[Any]:
        """Return the columns of the non-zeros of each row of ``X`` or ``Y``."""
        held = getattr(self, matrix)
        return np.split(held.indices, held.indptr[1:-1])


class Adapter:
    """A program to measure: ``read`` and ``fit`` are timed as training, ``top_k`` as prediction,
    the rest is not.
    """

    def __init__(self, folder: Path, data: Path, settings: dict[str, Any], threads: int) -> None:
        self.folder, self.data, self.settings, self.threads = folder, data, settings, threads
        self.model_folder = folder / "model"

    def prepare(self, train: Part, test: Part) -> None:
        """Compile what is compiled on first use; write input files in a format that only this
        program reads.
        """

    def estimate(self, train: Part) -> float:
        """Return the expected CPU seconds of ``fit``, or 0 if they are not known in advance."""
        return 0.0

    def read(self) -> Any:
        """Return the training examples for ``fit``."""
        return Part.load(self.data, "train")

    def fit(self, train: Any) -> None:
        raise NotImplementedError

    def save(self) -> None:
        """Write the model to ``model_folder``, unless training did."""

    def top_k(self, test: Part, k: int) -> np.ndarray:
        """Return the k best labels of each row, best first, -1 where there are fewer."""
        raise NotImplementedError

    def more(self, test: Part, k: int) -> dict[str, np.ndarray]:
        """Return other predictions that `runner.more_measures` scores."""
        return {}


def main(adapter: type[Adapter]) -> None:
    """Run the job in the file given on the command line; write ``result.json`` to the same
    folder.
    """
    job_file = Path(sys.argv[1])
    job = json.loads(job_file.read_text())
    folder = job_file.parent
    try:
        result = measured(adapter, job, folder)
    except NotFeasibleError as why:
        result = {"not_run": str(why)}
    (folder / "result.json").write_text(json.dumps(result))


def measured(adapter: type[Adapter], job: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Train and predict; store the predictions and return the costs."""
    data = Path(job["data"])
    train, test = Part.load(data, "train"), Part.load(data, "test")
    peer = adapter(folder, data, job["settings"], job["threads"])
    estimate = peer.estimate(train)
    if estimate > job["limit"]:
        raise NotFeasibleError(
            f"estimated {estimate:,.0f} CPU seconds of training, more than {job['limit']:,.0f}"
        )
    peer.prepare(train, test)
    del train  # read again, on the clock
    start_cpu, start = cpu_seconds(), time.perf_counter()
    peer.fit(peer.read())
    train_cpu, train_wall = cpu_seconds() - start_cpu, time.perf_counter() - start
    peer.save()
    start = time.perf_counter()
    labels = peer.top_k(test, job["k"])
    predict_wall = time.perf_counter() - start
    np.save(folder / "labels.npy", np.asarray(labels, np.int32))
    gigabytes = peak_bytes() / 1e9
    if more := peer.more(test, job["k"]):
        np.savez(folder / "more.npz", **more)
    return {
        "train_cpu": train_cpu,
        "train_wall": train_wall,
        "examples_per_second": test.X.shape[0] / predict_wall,
        "gigabytes": gigabytes,
        "model_megabytes": sum(
            f.stat().st_size for f in peer.model_folder.rglob("*") if f.is_file()
        )
        / 1e6,
        "versions": {name: version(name) for name in job["distributions"]},
    }


def cpu_seconds() -> float:
    """Return the CPU time of this process and of its terminated children."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def peak_bytes() -> int:
    """Return the peak resident memory of this process or of a child, whichever is larger.

    ``ru_maxrss`` starts at the memory of the parent at the time of the fork, so ``VmHWM`` is used
    where it exists.
    """
    status = Path("/proc/self/status")
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if status.exists():
        own = next(
            int(line.split()[1])
            for line in status.read_text().splitlines()
            if line.startswith("VmHWM")
        )
    return 1024 * max(own, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)


def padded(rows: list[list[int]], k: int) -> np.ndarray:
    """Return lists of labels as an array with k columns, -1 where a list is shorter."""
    labels = np.full((len(rows), k), -1, np.int32)
    for i, row in enumerate(rows):
        labels[i, : min(k, len(row))] = row[:k]
    return labels


def unit_rows(X: sparse.csr_array) -> sparse.csr_array:
    """Scale rows to unit length; empty rows stay empty."""
    norms = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
    scale = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0).astype(np.float32)
    return sparse.csr_array(
        (X.data * np.repeat(scale, np.diff(X.indptr)), X.indices, X.indptr), shape=X.shape
    )


def pairs(X: sparse.csr_array) -> list[str]:
    """Return every row as ``column:value`` text."""
    entries = [
        f"{column}:{value:.6g}"
        for column, value in zip(X.indices.tolist(), X.data.tolist(), strict=True)
    ]
    return [
        " ".join(entries[begin:end]) for begin, end in zip(X.indptr[:-1], X.indptr[1:], strict=True)
    ]
