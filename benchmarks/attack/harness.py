"""Runs the cases of an attack in processes of their own, which may crash, hang or fail without
stopping the rest.

Case ``number`` of an attack depends on the seed and the number alone, so that one case can be
repeated.
"""

import argparse
import importlib
import multiprocessing
import os
import resource
import tempfile
import time
import traceback
import unicodedata
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rembrandt.errors import RembrandtError

PATIENCE = 5.0  # seconds after which a case counts as hanging
START = 120.0  # seconds for a process to start, and for its first case, which compiles
BIDI = (
    "LRE",
    "RLE",
    "LRO",
    "RLO",
    "PDF",
    "LRI",
    "RLI",
    "FSI",
    "PDI",
)  # characters that change the direction of text
Case = Callable[
    [np.random.Generator, Path], str
]  # what a case gave, in a word; an error of ours is a refusal


@dataclass
class Figures:
    """What the cases of an attack gave."""

    name: str
    outcomes: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    megabytes: int = 0
    seconds: float = 0.0

    @property
    def is_clean(self) -> bool:
        return not self.failures

    def line(self) -> str:
        bad = {
            name: self.outcomes.pop(name, 0)
            for name in ("crash", "traceback", "hang", "difference")
        }
        good = ", ".join(f"{count:,} {name}" for name, count in sorted(self.outcomes.items()))
        found = ", ".join(f"{count} {name}" for name, count in bad.items())
        cases = sum(self.outcomes.values()) + sum(bad.values())
        return (
            f"{self.name}: {cases:,} cases: {good}; {found}; most memory {self.megabytes} MB; "
            f"{self.seconds:.0f} s"
        )


class Difference(AssertionError):
    """A result that differs from what was expected, without an error."""


def harmless(character: str) -> bool:
    """Whether a character in a message neither controls a terminal nor hides or reorders what
    follows it.
    """
    is_control = unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp")
    return not is_control and unicodedata.bidirectional(character) not in BIDI


def serve(connection: Any, module: str, name: str, seed: int, folder: str) -> None:
    """Run the cases whose numbers arrive."""
    logs = os.open(os.devnull, os.O_WRONLY)
    os.dup2(logs, 2)  # what a crash says is counted, not shown
    attack = importlib.import_module(module)
    root = Path(folder)
    case: Case = getattr(attack, name)(root)
    while (number := connection.recv()) is not None:
        rng = np.random.default_rng([seed, number])
        detail = ""
        try:
            outcome = case(rng, root)
        except RembrandtError as error:
            outcome = "refused"
            if len(str(error)) > 2500 or not all(map(harmless, str(error))):
                outcome, detail = (
                    "traceback",
                    f"an unbounded or unprintable message: {str(error)[:200]!r}",
                )
        except Difference as error:
            outcome, detail = "difference", str(error)[:500]
        except Exception:  # noqa: BLE001 - which is what the attack looks for
            outcome, detail = "traceback", traceback.format_exc()[-2500:]
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        connection.send((outcome, detail, peak))


def attack(
    module: str, name: str, cases: int, seed: int = 0, workers: int = 1, only: int | None = None
) -> Figures:
    """Run cases of the attack ``module.name`` and collect what they gave."""
    figures, start = Figures(name), time.perf_counter()
    numbers = range(cases) if only is None else [only]

    def share(worker: int) -> None:
        todo = list(numbers)[worker::workers]
        while todo:
            with tempfile.TemporaryDirectory(prefix="rembrandt-attack-") as folder:
                _run(figures, todo, (module, name, seed, folder))

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(share, range(workers)))
    figures.seconds = time.perf_counter() - start
    return figures


def _run(figures: Figures, todo: list[int], given: tuple[str, str, int, str]) -> None:
    """Run cases in one process until it ends; cases are removed from ``todo``."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=serve, args=(there, *given), daemon=True)
    process.start()
    there.close()
    patience = START
    try:
        while todo:
            number = todo.pop(0)
            here.send(number)
            if not here.poll(patience):
                _note(figures, number, "hang", f"no answer after {patience:.0f} s")
                return
            try:
                outcome, detail, peak = here.recv()
            except EOFError:
                process.join()
                _note(figures, number, "crash", f"exit code {process.exitcode}")
                return
            figures.megabytes = max(figures.megabytes, peak)
            _note(figures, number, outcome, detail)
            patience = PATIENCE
        here.send(None)
        process.join(10)
    finally:
        process.kill()
        process.join()


def _note(figures: Figures, number: int, outcome: str, detail: str) -> None:
    figures.outcomes[outcome] += 1
    if detail:
        figures.failures.append(f"case {number}: {outcome}: {detail}")


def arguments(description: str, cases: int) -> argparse.ArgumentParser:
    """The options that attacks share."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--cases", type=int, default=cases)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--only", type=int, help="repeat this case alone")
    parser.add_argument("--show", type=int, default=5, help="failures to print")
    return parser
