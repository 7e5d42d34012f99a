"""A small data set with the file names of ALOI, and one quick run of the experiment on it."""

import gzip
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.paper.__main__ import main
from hypothesis import settings

settings.register_profile("no-deadline", deadline=None)
settings.load_profile("no-deadline")

CLASSES, FEATURES = 60, 80


@dataclass(frozen=True)
class Ran:
    out: str
    err: str


Run = Callable[..., Ran]


def call(main: Callable[[list[str]], int], *arguments: Any, code: int = 0) -> Ran:
    """Call a command line in this process and check its exit code."""
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            found = main([str(argument) for argument in arguments])
        except SystemExit as end:  # argparse
            found = end.code
    assert found == code, out.getvalue() + err.getvalue()
    return Ran(out.getvalue(), err.getvalue())


@pytest.fixture(scope="session")
def run() -> Run:
    """Call ``python -m benchmarks.paper``."""
    return lambda *arguments, code=0: call(main, *arguments, code=code)


def write_set(folder: Path) -> Path:
    """Write a problem whose rows of one class share most of their features, as the catalogue
    expects it.
    """
    rng = np.random.default_rng(0)
    favourites = rng.permuted(np.tile(np.arange(1, FEATURES + 1), (CLASSES, 1)), axis=1)[:, :12]
    (folder / "aloi").mkdir(parents=True)
    for part, n in (("train", 1200), ("test", 240)):
        lines = []
        for label in rng.permutation(np.arange(n) % CLASSES):
            own = rng.permutation(favourites[label])[:7]
            features = np.unique(np.append(own, rng.integers(1, FEATURES + 1, 4)))
            cells = " ".join(
                f"{i}:{v}" for i, v in zip(features, rng.integers(1, 9, len(features)), strict=True)
            )
            lines.append(f"{label + 1} | {cells}\n")
        with gzip.open(folder / "aloi" / f"{part}.vw.gz", "wt") as file:
            file.writelines(lines)
    return folder


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_set(tmp_path_factory.mktemp("sets"))


@pytest.fixture(scope="session")
def quick(small: Path, run: Run, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder of a complete quick run, and its output."""
    folder = tmp_path_factory.mktemp("quick") / "report"
    return folder, run("aloi", "--data", small, "--quick", "--output", folder).out
