"""Processes that are killed while they write, and two processes that write to one model.

``kills`` sends SIGKILL to saves, updates, services that reload a model, conversions and fits at
random moments, and then checks what is on disk: a model is one of those that were being saved, and
a conversion or a fit that is started again gives what it would have given without interruption.
``writers`` lets two processes load a model, waits for both, and lets both save at once: one
succeeds, the other gets a sentence, and the model has what the first of them wrote.
"""

import argparse
import asyncio
import multiprocessing
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.attack.folders import READING
from rembrandt import Dataset, RembrandtClassifier, load, read
from rembrandt.data.convert import convert
from rembrandt.data.generated import labelled_documents
from rembrandt.errors import RembrandtError
from rembrandt.serve.metrics import Metrics
from rembrandt.serve.registry import Registry

OPERATIONS = ("save", "update", "reload", "convert", "fit")
REPEATED = OPERATIONS[:3]  # until the process is killed; the others are started again
GROWABLE: dict[str, Any] = {
    "parts": ("embedding",),
    "decoder": "ridge",
    "kernel": None,
    "growable": True,
}
GROWABLE |= {"n_components": 4, "random_state": 0}
FIT: dict[str, Any] = {
    "parts": ("trees", "embedding"),
    "decoder": "logistic",
    "kernel": None,
    "n_components": 4,
}
ADDED = 7  # examples of one update


def documents() -> Dataset:
    return labelled_documents(400, n_topics=3, labels_per_topic=5)[0]


def prepare(root: Path) -> None:
    """Write the table and the models that the operations need."""
    data = documents()
    assert data.texts is not None
    labels = [
        "|".join(data.label_ids[j] for j in data.Y[[i]].indices) for i in range(data.n_examples)
    ]
    rows = (f"{text}\t{own}\n" for text, own in zip(data.texts, labels, strict=True))
    (root / "train.tsv").write_text("text\tlabels\n" + "".join(rows), encoding="utf-8")
    for seed in (0, 1):
        RembrandtClassifier(**GROWABLE | {"n_components": 3 + seed}).fit_dataset(data).save(
            root / f"model{seed}"
        )


def operate(operation: str, root: Path) -> None:
    """Do one operation; saves and updates repeat until the process is killed, or often enough."""
    data, path = documents(), root / "output"
    if operation in ("save", "reload"):
        models = [load(root / f"model{seed}") for seed in (0, 1)]
        registry = Registry({"model": path}, Metrics()) if operation == "reload" else None
        _ready()
        for number in range(200):
            models[number % 2].save(path, force=True)
            if registry is not None:
                asyncio.run(registry.reload("model"))
    elif operation == "update":
        _ready()
        for _ in range(50):
            model = load(path)
            model.update_dataset(data.rows(np.arange(ADDED)))
            model.save(path, force=True)
    elif operation == "convert":
        _ready()
        convert([root / "train.tsv"], path, rows=20, **READING)
    else:
        _ready()
        fitted = RembrandtClassifier(**FIT, random_state=0).fit_dataset(
            data, checkpoint=root / "checkpoint"
        )
        fitted.save(path, force=True)
    print("done", flush=True)


def _ready() -> None:
    print("ready", flush=True)


def _start(operation: str, root: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "benchmarks.attack.processes", operation, str(root)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    if line != "ready\n":
        raise RuntimeError(f"{operation} did not start: {process.communicate()[1][-2000:]}")
    return process


def _clean(operation: str, root: Path) -> None:
    for name in ("output", "checkpoint"):
        shutil.rmtree(root / name, ignore_errors=True)
    if operation in REPEATED:
        shutil.copytree(root / "model0", root / "output")


def _result(operation: str, root: Path) -> Any:
    """What is on disk, to compare."""
    path = root / "output"
    if operation == "convert":
        data = read(path)
        X: Any = data.X
        return X[:].toarray().tobytes(), data.Y.toarray().tobytes(), list(data.label_ids)
    if operation == "fit":
        return (path / "weights.safetensors").read_bytes()
    return load(path).n_train_, (path / "weights.safetensors").read_bytes()


def kills(count: int, seed: int) -> tuple[Counter[str], list[str]]:
    """Kill operations at random moments and check what they leave."""
    rng, outcomes, failures = np.random.default_rng(seed), Counter[str](), []
    with tempfile.TemporaryDirectory(prefix="rembrandt-kills-") as folder:
        root = Path(folder)
        prepare(root)
        saved = [(load(root / f"model{i}").n_train_, _weights(root / f"model{i}")) for i in (0, 1)]
        whole, durations = {}, dict.fromkeys(REPEATED, 0.5)
        for operation in OPERATIONS[len(REPEATED) : count]:
            _clean(operation, root)
            process, start = _start(operation, root), time.perf_counter()
            process.communicate()
            durations[operation] = time.perf_counter() - start
            whole[operation] = _result(operation, root)
        for number in range(count):
            operation = OPERATIONS[number % len(OPERATIONS)]
            _clean(operation, root)
            process = _start(operation, root)
            time.sleep(float(rng.uniform(0, durations[operation])))
            process.send_signal(signal.SIGKILL)
            process.communicate()
            finding = _after_kill(operation, root, saved, whole)
            outcomes["kept" if finding is None else "lost"] += 1
            if finding is not None:
                failures.append(f"kill {number} of {operation}: {finding}")
            if (number + 1) % 20 == 0:
                print(f"{number + 1} kills, {len(failures)} failures", flush=True)
    return outcomes, failures


def _after_kill(operation: str, root: Path, saved: list[Any], whole: dict[str, Any]) -> str | None:
    """Why what a killed process left is not as it should be, or None."""
    try:
        is_complete = operation == "convert" and (root / "output" / "store.json").is_file()
        if operation in whole and not (
            is_complete and not (root / "output" / "progress.json").exists()
        ):
            process = _start(operation, root)
            errors = process.communicate()[1]
            if process.returncode:
                return f"it does not continue: {errors[-500:]}"
        if operation in whole:
            return (
                None
                if _result(operation, root) == whole[operation]
                else "it continues to something else"
            )
        n_train, weights = _result(operation, root)
        if operation != "update" and (n_train, weights) not in saved:
            return "the model is none of those that were saved"
        if operation == "update" and (n_train - saved[0][0]) % ADDED:
            return f"the model has {n_train} examples"
        load(root / "output").save(root / "output", force=True)
        left = [entry.name for entry in root.iterdir() if entry.name.startswith(".output.")]
        return f"{left} is left" if left else None
    except (RembrandtError, OSError) as error:
        return str(error)


def _weights(path: Path) -> bytes:
    return (path / "weights.safetensors").read_bytes()


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
    outcomes, failures = Counter[str](), []
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(prefix="rembrandt-writers-") as folder:
        root = Path(folder)
        prepare(root)
        (root / "model0").rename(root / "base")
        before = load(root / "base").n_train_
        pipes, processes = [], []
        for number in (0, 1):
            here, there = context.Pipe()
            process = context.Process(target=writer, args=(there, number), daemon=True)
            process.start()
            pipes.append(here)
            processes.append(process)
        for number in range(rounds):
            kind, path = ("update", "new")[number % 2], root / f"model-{number}"
            if kind == "update":
                shutil.copytree(root / "base", path)
            for message in ((kind, path), "go"):
                for pipe in pipes:
                    pipe.send(message)
                answers = [pipe.recv() for pipe in pipes]
            won = [i for i, answer in enumerate(answers) if answer == "saved"]
            good = len(won) == 1 and load(path).n_train_ == before + 1 + won[0]
            outcomes["one saved" if good else "lost"] += 1
            if not good:
                failures.append(f"round {number} ({kind}): {answers}")
        for pipe, process in zip(pipes, processes, strict=True):
            pipe.send(None)
            process.join(10)
            process.kill()
    return outcomes, failures


def main(name: str, given: list[str]) -> int:
    """Run ``kills`` or ``writers`` and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(given)
    start = time.perf_counter()
    found, failures = (
        kills(options.cases, options.seed) if name == "kills" else writers(options.cases)
    )
    for failure in failures[:5]:
        print(failure)
    figures = ", ".join(f"{count} {what}" for what, count in sorted(found.items()))
    print(
        f"{name}: {options.cases} cases: {figures}; {len(failures)} failures; "
        f"{time.perf_counter() - start:.0f} s"
    )
    return 1 if failures else 0


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        operate(sys.argv[1], Path(sys.argv[2]))
