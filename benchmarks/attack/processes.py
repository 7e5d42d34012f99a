"""Processes that are killed while they write, and two processes that write to one model.

``kills`` sends SIGKILL to saves, updates, services that reload a model, conversions, fits and the
training of an encoder at random moments, and then checks what is on disk: a model is one of those
that were being saved, and a conversion or a fit that is started again gives what it would have
given without interruption. ``writers`` lets two processes load a model, waits for both, and lets
both save at once: one succeeds, the other gets a sentence, and the model has what the first of them
wrote.
"""

import argparse
import asyncio
import multiprocessing
import shutil
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Sequence
from importlib.util import find_spec
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.attack.folders import READING
from benchmarks.tiny_encoder import write_encoder
from rembrandt import Dataset, EncoderSettings, RembrandtClassifier, load, read
from rembrandt.data.convert import convert
from rembrandt.data.generated import labelled_documents
from rembrandt.errors import RembrandtError
from rembrandt.serve.metrics import Metrics
from rembrandt.serve.registry import Registry

REPEATED = ("save", "update", "reload")  # until the process is killed
RESUMED = ("convert", "fit", "encoder")  # until the result is complete
REPEATED_SECONDS = 0.5  # before a kill of what is repeated
START_SECONDS = 60  # for a process to begin
NO_WORD = "it ended without a word"
GROWABLE: dict[str, Any] = {
    "parts": ("embedding",),
    "decoder": "ridge",
    "kernel": None,
    "growable": True,
    "n_components": 4,
    "random_state": 0,
}
FIT: dict[str, Any] = {
    "parts": ("trees", "embedding"),
    "decoder": "logistic",
    "kernel": None,
    "n_components": 4,
    "random_state": 0,
}
ADDED = 7  # examples of one update


def documents() -> Dataset:
    return labelled_documents(400, n_topics=3, labels_per_topic=5)[0]


def prepare(root: Path) -> None:
    """Write the table, the models and the encoder that the operations need."""
    data = documents()
    assert data.texts is not None
    lines = ["text\tlabels\n"]
    for row, text in enumerate(data.texts):
        labels = "|".join(data.label_ids[column] for column in data.Y[[row]].indices)
        lines.append(f"{text}\t{labels}\n")
    (root / "train.tsv").write_text("".join(lines), encoding="utf-8")
    for seed in (0, 1):
        model = RembrandtClassifier(**GROWABLE | {"n_components": 3 + seed})
        model.fit_dataset(data).save(root / f"model{seed}")


def operations() -> tuple[str, ...]:
    """Return the names of what can be killed here."""
    if find_spec("torch") is None or find_spec("transformers") is None:
        return (*REPEATED, "convert", "fit")
    return (*REPEATED, *RESUMED)


def operate(operation: str, root: Path, connection: Connection) -> None:
    """Do one operation in a process of its own, and say when it begins and how it ends."""
    warnings.simplefilter("ignore")
    try:
        _operate(operation, root, connection)
        connection.send("done")
    except Exception:  # noqa: BLE001 - the other process says what happened
        connection.send(traceback.format_exc()[-2000:])


def _operate(operation: str, root: Path, connection: Connection) -> None:
    data = documents()
    path = root / "output"
    if operation in ("save", "reload"):
        registry = None
        if operation == "reload":
            registry = Registry({"model": path}, Metrics())
        connection.send("ready")
        with asyncio.Runner() as runner:
            for number in range(200):
                # Loaded each time: what another model has replaced is not saved over.
                load(root / f"model{number % 2}").save(path, force=True)
                if registry is not None:
                    runner.run(registry.reload("model"))
    elif operation == "update":
        connection.send("ready")
        for _ in range(50):
            model = load(path)
            model.update_dataset(data.rows(np.arange(ADDED)))
            model.save(path, force=True)
    elif operation == "convert":
        connection.send("ready")
        convert([root / "train.tsv"], path, rows=20, **READING)
    else:
        settings = FIT
        if operation == "encoder":
            settings = _encoder_settings(root)
        connection.send("ready")
        classifier = RembrandtClassifier(**settings)
        classifier.fit_dataset(data, checkpoint=root / "checkpoint")
        classifier.save(path, force=True)


def _encoder_settings(root: Path) -> dict[str, Any]:
    """Return settings of a fit that trains a tiny encoder for a few epochs."""
    folder = root / "tiny-encoder"
    encoder = EncoderSettings(str(folder), training="fine-tune", epochs=4, start="random")
    return {"parts": ("trees",), "encoder": encoder, "preset": "fast", "random_state": 0}


class Killed:
    """A process that does one operation and may be killed.

    It is forked from a process that has all libraries and has started no threads.
    """

    def __init__(self, operation: str, root: Path) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["benchmarks.attack.processes", "torch", "transformers"])
        self._here, there = context.Pipe(duplex=False)
        self.process = context.Process(target=operate, args=(operation, root, there), daemon=True)
        self.process.start()
        there.close()
        self._said = ""
        if not self._here.poll(START_SECONDS) or self._next() != "ready":
            raise RuntimeError(f"{operation} did not start: {self._said}")

    def kill(self) -> str:
        """Send SIGKILL, and wait for the end; return what went wrong before."""
        self.process.kill()
        self._next()
        self._end()
        if self._said in (NO_WORD, "done"):
            return ""
        return self._said

    def finish(self) -> str:
        """Wait for the end; return "done", or what went wrong."""
        self._next()
        self._end()
        return self._said

    def _next(self) -> str:
        try:
            self._said = str(self._here.recv())
        except EOFError:
            self._said = NO_WORD
        return self._said

    def _end(self) -> None:
        self.process.join()
        self._here.close()


class Kills:
    """Operations that are killed at random moments, and what they leave."""

    def __init__(self, root: Path, seed: int) -> None:
        self.root = root
        self.output = root / "output"
        self.rng = np.random.default_rng(seed)
        self.outcomes: Counter[str] = Counter()
        self.failures: list[str] = []
        self.seconds = dict.fromkeys(REPEATED, REPEATED_SECONDS)
        self.complete: dict[str, Any] = {}
        prepare(root)
        self.saved = []
        for seed in (0, 1):
            self.saved.append(_contents(root / f"model{seed}"))

    def run(self, number: int, operation: str) -> None:
        """Kill an operation once, and note what it leaves."""
        if operation in RESUMED and operation not in self.complete:
            self._complete(operation)
        self._clean(operation)
        process = Killed(operation, self.root)
        time.sleep(float(self.rng.uniform(0, self.seconds[operation])))
        finding: str | None = process.kill()
        if not finding:
            try:
                finding = self._after_kill(operation)
            except (RembrandtError, OSError) as error:
                finding = str(error)
        if finding is None:
            self.outcomes["kept"] += 1
        else:
            self.outcomes["lost"] += 1
            self.failures.append(f"kill {number} of {operation}: {finding}")

    def _complete(self, operation: str) -> None:
        """Do an operation without interruption, to compare with."""
        if operation == "encoder":
            texts = documents().texts or []
            words = sorted({word for text in texts for word in text.lower().split()})
            write_encoder(self.root / "tiny-encoder", words)
        self._clean(operation)
        process = Killed(operation, self.root)
        start = time.perf_counter()
        said = process.finish()
        if said != "done":
            raise RuntimeError(f"{operation} fails without a kill: {said}")
        self.seconds[operation] = time.perf_counter() - start
        self.complete[operation] = self._result(operation)

    def _clean(self, operation: str) -> None:
        for name in ("output", "checkpoint"):
            shutil.rmtree(self.root / name, ignore_errors=True)
        if operation in REPEATED:
            shutil.copytree(self.root / "model0", self.output)

    def _result(self, operation: str) -> Any:
        """What is on disk, to compare."""
        if operation == "convert":
            data = read(self.output)
            X: Any = data.X
            return X[:].toarray().tobytes(), data.Y.toarray().tobytes(), list(data.label_ids)
        return (self.output / "weights.safetensors").read_bytes()

    def _after_kill(self, operation: str) -> str | None:
        """Why what a killed process left is not as it should be, or None."""
        if operation in RESUMED:
            return self._after_resuming(operation)
        n_train, weights = _contents(self.output)
        if operation == "update":
            if (n_train - self.saved[0][0]) % ADDED:
                return f"the model has {n_train} examples"
        elif (n_train, weights) not in self.saved:
            return "the model is none of those that were saved"
        load(self.output).save(self.output, force=True)
        left = [entry.name for entry in self.root.iterdir() if entry.name.startswith(".output.")]
        if left:
            return f"{left} is left"
        return None

    def _after_resuming(self, operation: str) -> str | None:
        """Why what is started again does not end as without interruption, or None."""
        is_complete = operation == "convert" and (self.output / "store.json").is_file()
        if not is_complete or (self.output / "progress.json").exists():
            said = Killed(operation, self.root).finish()
            if said != "done":
                return f"it does not continue: {said[-500:]}"
        if self._result(operation) != self.complete[operation]:
            return "it continues to something else"
        return None


def _contents(path: Path) -> tuple[int, bytes]:
    """Return the number of examples of a model, and its weights."""
    return load(path).n_train_, (path / "weights.safetensors").read_bytes()


def kills(count: int, seed: int, names: Sequence[str] = ()) -> tuple[Counter[str], list[str]]:
    """Kill operations, by default all, at random moments and check what they leave."""
    with tempfile.TemporaryDirectory(prefix="rembrandt-kills-") as folder:
        trials = Kills(Path(folder), seed)
        names = names or operations()
        for number in range(count):
            trials.run(number, names[number % len(names)])
            if (number + 1) % 20 == 0:
                print(f"{number + 1} kills, {len(trials.failures)} failures", flush=True)
    return trials.outcomes, trials.failures


def writer(connection: Any, number: int) -> None:
    """Load or fit, wait, and save, as the other process asks."""
    data = documents()
    while (task := connection.recv()) is not None:
        kind, path = task
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = load(path if kind == "update" else path.with_name("base"))
            model.update_dataset(data.rows(np.arange(1 + number)))
        connection.send("loaded")
        connection.recv()
        try:
            model.save(path, force=kind == "update")
            connection.send("saved")
        except RembrandtError as error:
            connection.send(str(error))


def writers(rounds: int) -> tuple[Counter[str], list[str]]:
    """Let two processes update one model, or save to one new name, at the same time."""
    outcomes: Counter[str] = Counter()
    failures: list[str] = []
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(prefix="rembrandt-writers-") as folder:
        root = Path(folder)
        prepare(root)
        (root / "model0").rename(root / "base")
        before = load(root / "base").n_train_
        pipes = []
        processes = []
        for number in (0, 1):
            here, there = context.Pipe()
            process = context.Process(target=writer, args=(there, number), daemon=True)
            process.start()
            pipes.append(here)
            processes.append(process)
        for number in range(rounds):
            kind = ("update", "new")[number % 2]
            path = root / f"model-{number}"
            if kind == "update":
                shutil.copytree(root / "base", path)
            for message in ((kind, path), "go"):
                for pipe in pipes:
                    pipe.send(message)
                answers = [pipe.recv() for pipe in pipes]
            winners = [i for i, answer in enumerate(answers) if answer == "saved"]
            if len(winners) == 1 and load(path).n_train_ == before + 1 + winners[0]:
                outcomes["one saved"] += 1
            else:
                outcomes["lost"] += 1
                failures.append(f"round {number} ({kind}): {answers}")
        for pipe, process in zip(pipes, processes, strict=True):
            pipe.send(None)
            process.join(10)
            process.kill()
    return outcomes, failures


def main(name: str, arguments: list[str]) -> int:
    """Run ``kills`` or ``writers`` and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", metavar="OPERATION,...", help="of kills")
    options = parser.parse_args(arguments)
    names = [name for name in options.only.split(",") if name]
    start = time.perf_counter()
    if name == "kills":
        outcomes, failures = kills(options.cases, options.seed, names)
    else:
        outcomes, failures = writers(options.cases)
    for failure in failures[:5]:
        print(failure)
    figures = ", ".join(f"{count} {what}" for what, count in sorted(outcomes.items()))
    print(
        f"{name}: {options.cases} cases: {figures}; {len(failures)} failures; "
        f"{time.perf_counter() - start:.0f} s"
    )
    return 1 if failures else 0
