"""Kill the service while people review: no confirmed correction may be lost.

python -m benchmarks.attack review [--kills 20] [--people 8] [--model MODEL] [--seed 0]

``rembrandt serve --corrections FILE`` runs in a process of its own. Several people send corrections
as fast as they are confirmed, some of them many at a time. At a random moment within two seconds
the process gets SIGKILL, and the service is started again with the same file. Each correction that
was confirmed must be in the file as it was sent, whatever else happened, and the file must be one
that ``fit`` and ``update`` read.
"""

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from rembrandt import RembrandtClassifier
from rembrandt.data.corrections import Correction, read_corrections
from rembrandt.data.generated import labelled_documents

LONGEST_SECONDS = 2.0  # before a kill
MOST_AT_ONCE = 20  # corrections in one request
LONGEST_TEXT = 20_000  # characters


class Person:
    """Sends corrections until the service is gone, and remembers the confirmed ones."""

    def __init__(self, url: str, name: str, seed: int) -> None:
        self.confirmed: list[Correction] = []
        self._url = f"{url}/v1/corrections"
        self._name = name
        self._random = random.Random(seed)
        self._thread = threading.Thread(target=self._review)
        self._thread.start()

    def join(self) -> None:
        self._thread.join(timeout=60)

    def _review(self) -> None:
        number = 0
        while True:
            corrections = []
            for _ in range(self._random.randint(1, MOST_AT_ONCE)):
                # Most texts are short and some are long, so that twenty kills end in minutes.
                length = int(LONGEST_TEXT ** self._random.random())
                text = f"{self._name} {number} " + "é" * length
                corrections.append(Correction(text, (f"label {number}",), ("wrong",)))
                number += 1
            if not self._sent(corrections):
                return
            self.confirmed += corrections

    def _sent(self, corrections: list[Correction]) -> bool:
        """Return whether the service has confirmed these corrections."""
        rows = []
        for correction in corrections:
            labels = {"labels": list(correction.labels), "rejected": list(correction.rejected)}
            rows.append({"text": correction.text, **labels})
        body = json.dumps({"corrections": rows}).encode()
        request = Request(self._url, body, {"Content-Type": "application/json"})
        try:
            with urlopen(request, timeout=60) as answer:
                return json.load(answer)["accepted"] == len(corrections)
        except (
            OSError,
            HTTPException,
            ValueError,
        ):  # the process was killed, perhaps while it answered
            return False


def kills(model: Path, folder: Path, n_kills: int, n_people: int = 8, seed: int = 0) -> Any:
    """Kill the service ``n_kills`` times; return the number of confirmed corrections and the
    failures.
    """
    path = folder / "corrections.jsonl"
    rng = random.Random(seed)
    confirmed: list[Correction] = []
    failures: list[str] = []
    for kill in range(n_kills):
        with _service(model, path) as (url, process):
            people = []
            for number in range(n_people):
                name = f"{kill} {number}"
                people.append(Person(url, name, rng.randrange(1 << 30)))
            while not any(person.confirmed for person in people):
                time.sleep(0.001)
            time.sleep(rng.uniform(0, LONGEST_SECONDS))
            process.send_signal(signal.SIGKILL)
            process.wait(timeout=60)
            for person in people:
                person.join()
                confirmed += person.confirmed
        kept = {correction.text: correction for correction in read_corrections(path)}
        print(f"kill {kill + 1}: {len(confirmed):,} corrections confirmed", flush=True)
        n_lost = sum(kept.get(correction.text) != correction for correction in confirmed)
        if n_lost:
            failures.append(f"kill {kill}: {n_lost} of {len(confirmed)} corrections are lost")
    with _service(model, path):  # what an incomplete line leaves is repaired
        if not path.read_bytes().endswith(b"\n"):
            failures.append("the last line is incomplete after a start")
    return len(confirmed), failures


@contextmanager
def _service(model: Path, path: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Run the service in a process; yield its address and the process."""
    command = [sys.executable, "-m", "rembrandt", "serve", model, "--corrections", path]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        [*map(str, command), "--port", "0", "--quiet"],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    try:
        assert process.stdout is not None
        match = re.search(r"http://\S+", process.stdout.readline())
        assert match, "the service did not start"
        yield match[0], process
    finally:
        process.kill()
        process.wait(timeout=60)


def small_model(folder: Path) -> Path:
    """Fit and save a model that loads fast."""
    data, _ = labelled_documents(600, n_topics=4, labels_per_topic=5)
    classifier = RembrandtClassifier("fast", parts=("centroids",), random_state=0)
    classifier.fit_dataset(data).save(folder / "model")
    return folder / "model"


def main(given: list[str]) -> int:
    """Run the attack, print its figures, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--people", type=int, default=8)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(given)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = options.model or small_model(folder)
        n_confirmed, failures = kills(model, folder, options.kills, options.people, options.seed)
    for failure in failures:
        print(failure)
    print(
        f"{options.kills} kills: {n_confirmed:,} corrections of {options.people} people were "
        f"confirmed; {len(failures)} failures"
    )
    return 1 if failures else 0
