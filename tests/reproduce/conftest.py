"""A small set with the names of the real one, and one quick run of the experiment on it."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import Run, run  # noqa: F401  a fixture

CLASSES, FEATURES = 60, 80


def write_set(folder: Path) -> Path:
    """Rows of a class share most of their features; files as the catalogue expects them."""
    rng = np.random.default_rng(0)
    favourites = rng.permuted(np.tile(np.arange(1, FEATURES + 1), (CLASSES, 1)), axis=1)[:, :12]
    (folder / "aloi").mkdir(parents=True)
    for part, n in (("train", 1200), ("test", 240)):
        lines = []
        for label in rng.permutation(np.arange(n) % CLASSES):
            own = rng.permutation(favourites[label])[:7]
            features = np.unique(np.append(own, rng.integers(1, FEATURES + 1, 4)))
            cells = " ".join(f"{i}:{v}" for i, v in zip(features, rng.integers(1, 9, len(features)), strict=True))
            lines.append(f"{label + 1} | {cells}\n")
        with gzip.open(folder / "aloi" / f"{part}.vw.gz", "wt") as file:
            file.writelines(lines)
    return folder


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_set(tmp_path_factory.mktemp("sets"))


@pytest.fixture(scope="session")
def quick(small: Path, run: Run, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:  # noqa: F811
    """The folder of a quick run from end to end, and what it said."""
    folder = tmp_path_factory.mktemp("quick") / "report"
    return folder, run("reproduce", "aloi", "--data", small, "--quick", "--output", folder).out
