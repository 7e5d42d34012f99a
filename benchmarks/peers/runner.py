"""Run the rows of the table one at a time, each in its own process, and store every result."""

import fcntl
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from benchmarks.peers import scoring
from benchmarks.peers.environments import python_of
from benchmarks.peers.prepare import file_name, sources
from benchmarks.peers.roster import Peer
from benchmarks.results import machine, write_json
from rembrandt.linalg.threads import n_threads

ROOT = Path(__file__).parents[2]
ADAPTERS = "benchmarks.peers.adapters"
K = 5


class SkippedError(Exception):
    """A row cannot be measured on this machine; the message says what to do."""


class FailedError(Exception):
    """A program ended with an error; the message has the end of its output."""


def stored_file(folder: Path, peer: Peer, name: str) -> Path:
    return folder / f"{peer.slug}--{file_name(name)}.json"


def stored(folder: Path, peer: Peer, name: str, data: Path) -> dict[str, Any] | None:
    """Return the result of an earlier run with the same settings, features and code, or None."""
    file = stored_file(folder, peer, name)
    if not file.exists():
        return None
    result: dict[str, Any] = json.loads(file.read_text())
    complete = "not_run" in result or file.with_suffix(".npz").exists()
    return result if complete and result["key"] == key_of(peer, data) else None


def key_of(peer: Peer, data: Path) -> str:
    """Return a digest of everything that a result depends on."""
    needs = repr((peer.settings, peer.environment, data.name.rpartition("-")[2]))
    own = ("harness.py", "scoring.py")
    files = [
        *(Path(__file__).parent / file for file in own),
        Path(__file__).parent / "adapters" / f"{peer.adapter}.py",
    ]
    code = b"".join(file.read_bytes() for file in files) + (
        sources() if peer.adapter == "rembrandt" else b""
    )
    return hashlib.sha256(needs.encode() + code).hexdigest()[:16]


def measure(
    peer: Peer, name: str, data: Path, folder: Path, limit: float, timeout: float
) -> dict[str, Any]:
    """Train and score one program on one prepared set, and store the result in ``folder``."""
    python = python_of(peer.environment)
    if python is None:
        assert peer.environment is not None
        wanted = " ".join(peer.environment.requirements + peer.environment.alone)
        raise SkippedError(
            f"{peer.name} is not installed. Create its environment ({wanted}) with "
            f"python -m benchmarks.table --install --peers '{peer.name}'"
        )
    folder.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f"{peer.slug}-"))
    terms: scoring.Terms = {}
    try:
        result = _run(peer, name, data, python, work, limit, timeout)
        if "not_run" not in result:
            truth = scoring.Truth.load(data)
            labels = np.load(work / "labels.npy")
            terms, result = truth.terms(labels), result | truth.rare_recall(labels)
            if (work / "more.npz").exists():
                with np.load(work / "more.npz") as file:
                    more = dict(file)
                terms |= truth.tail(more["tail"])
                rare = truth.rare_recall(more["tail"])
                result |= truth.more(more) | {f"tail_{name}": value for name, value in rare.items()}
            result |= scoring.means(terms)
    finally:
        shutil.rmtree(work)
    facts = json.loads((data / "facts.json").read_text())
    result = {
        "peer": peer.name,
        "set": name,
        "key": key_of(peer, data),
        "machine": machine(),
        "facts": facts,
        **result,
    }
    target = stored_file(folder, peer, name)
    scoring.write_terms(target.with_suffix(".npz"), terms)
    write_json(target, result)
    return result


def _run(
    peer: Peer, name: str, data: Path, python: Path, work: Path, limit: float, timeout: float
) -> dict[str, Any]:
    """Run the adapter in a process, for ``timeout`` seconds at most."""
    distributions = peer.environment.measured if peer.environment else ("rembrandt", "scikit-learn")
    job = {
        "data": str(data),
        "settings": peer.settings,
        "threads": n_threads(),
        "limit": limit,
        "k": K,
        "distributions": distributions,
    }
    (work / "job.json").write_text(json.dumps(job))
    command = [str(python), "-m", f"{ADAPTERS}.{peer.adapter}", str(work / "job.json")]
    log = work / "log.txt"
    with log.open("w") as output:
        code = _ended(command, output, timeout)
    if code is None:
        return {"not_run": f"stopped after {timeout:,.0f} s"}
    if code:
        raise FailedError(
            f"{peer.name} failed on {name}:\n{log.read_text(errors='replace')[-4000:]}"
        )
    result: dict[str, Any] = json.loads((work / "result.json").read_text())
    return result


def _ended(command: list[str], output: TextIO, timeout: float) -> int | None:
    """Return the exit code of a command, or None after a timeout; processes that it started are
    killed.
    """
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        return process.wait(timeout)
    except subprocess.TimeoutExpired:
        return None
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Refuse a second measurement at the same time: both would be slower."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            sys.exit(f"another measurement writes to {folder}; wait until it ends")
        yield
