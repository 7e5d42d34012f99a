"""Estimates of the memory of a fit next to what it takes.

python -m benchmarks.estimates [--scale 1.0] [--only NAME]

Every case is fitted in a process of its own, after a small fit that compiles. The peak is the
largest resident memory of the process during the fit; pages of a store's files do not count,
because the system takes them back when needed. Printed is a line for each case, and the largest
ratio of estimate and peak either way.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from benchmarks.complete import embedding_settings
from benchmarks.generated import sparse_problem
from benchmarks.resident import status_bytes
from rembrandt import memory
from rembrandt.data import Dataset
from rembrandt.data.convert import write_store
from rembrandt.data.examples import Examples
from rembrandt.data.rows import as_rows
from rembrandt.data.stored import StoredRows
from rembrandt.declarations import ModelSettings, PartSpec
from rembrandt.engines.backend import Backend, backend_for
from rembrandt.fitting import fit_model
from rembrandt.linalg.blocks import spans
from rembrandt.parts.centroids.settings import CentroidSettings
from rembrandt.parts.trees.settings import TreeSettings

WITHIN = 1.3
SHARD_ROWS = 50_000
WIDE = (20_000, 40_000, 20_000)  # n, d, c
TREES = TreeSettings(n_trees=2, max_example_node_pairs=3e7, cost=1.0).with_defaults()
CENTROIDS = CentroidSettings()


def embedding_alone(**values: Any) -> ModelSettings:
    """Return the settings of a model that is an embedding with these values."""
    return ModelSettings(parts={"embedding": _embedding(**values)})


def other_parts(*names: str) -> ModelSettings:
    """Return the settings of a model without an embedding."""
    return ModelSettings(parts={name: _OTHERS[name] for name in names})


def all_parts(**values: Any) -> ModelSettings:
    """Return the settings of a model with every part; these values are those of the embedding."""
    return ModelSettings(parts=_OTHERS | {"embedding": _embedding(**values)})


def _embedding(**values: Any) -> PartSpec:
    usual = {"n_components": 200, "n_random_features": 1500, "max_epochs": 2}
    return PartSpec("embedding", embedding_settings(**usual | values))


_OTHERS = {"trees": PartSpec("trees", TREES), "centroids": PartSpec("centroids", CENTROIDS)}
CASES: dict[str, tuple[ModelSettings, tuple[int, int, int]]] = {
    "transpose": (embedding_alone(decoder="transpose"), WIDE),
    "ridge": (embedding_alone(), WIDE),
    "ridge, kernel": (embedding_alone(kernel="gaussian"), WIDE),
    "discriminant": (embedding_alone(decoder="discriminant"), WIDE),
    "logistic": (embedding_alone(decoder="logistic"), WIDE),
    "logistic, kernel": (
        embedding_alone(decoder="logistic", kernel="gaussian"),
        (20_000, 40_000, 8_000),
    ),
    "rank 800": (embedding_alone(n_components=800), (10_000, 20_000, 10_000)),
    "many rows": (embedding_alone(), (100_000, 20_000, 3_000)),
    "trees": (other_parts("trees"), WIDE),
    "trees, many rows": (other_parts("trees"), (100_000, 20_000, 3_000)),
    "centroids": (other_parts("centroids"), WIDE),
    "all parts": (all_parts(), WIDE),
    "candidates": (all_parts(decoder="candidates", retrieves_labels=False), WIDE),
    "store": (all_parts(), (200_000, 40_000, 20_000)),
}


def examples(n: int, d: int, c: int) -> Examples:
    X, Y = sparse_problem(n, d, c, rank=min(100, d // 4, c // 4), features_each=50, labels_each=5)
    return Examples(as_rows(X), sparse.csr_array(Y), np.arange(c), multiclass=False)


def in_store(data: Examples, folder: Path) -> Examples:
    """Write examples to a store and return them from there."""
    names, Y = [str(label) for label in data.classes], data.Y
    parts = (
        Dataset.build(Y[rows], data.X[rows], label_ids=names) for rows in spans(data.n, SHARD_ROWS)
    )
    return replace(data, X=StoredRows(write_store(parts, folder)))


@contextmanager
def watched(found: dict[str, int]) -> Iterator[None]:
    """Store the largest resident memory in ``found``, every few milliseconds, without pages of
    files that were read.
    """

    def note_peak() -> None:
        found["peak"] = max(found.get("peak", 0), status_bytes("RssAnon:") + files)

    def watch() -> None:
        while not done.wait(0.005):
            note_peak()

    done = threading.Event()
    files = status_bytes("RssFile:")
    note_peak()  # of a fit that ends before the first look
    watching = threading.Thread(target=watch)
    watching.start()
    try:
        yield
    finally:
        done.set()
        watching.join()


def fit_one(name: str, scale: float) -> dict[str, Any]:
    """Fit a case in this process; return its estimate and its peak."""
    settings, sizes = CASES[name]
    small = settings
    if "embedding" in settings.parts:
        embedding = settings.parts["embedding"].settings
        small = settings.with_part(
            "embedding", replace(embedding, n_components=8, n_random_features=16)
        )
    with tempfile.TemporaryDirectory(prefix="rembrandt-estimates-") as folder:

        def made(part: str, n: int, d: int, c: int) -> tuple[Examples, Backend]:
            data = examples(n, d, c)
            data = in_store(data, Path(folder) / part) if name == "store" else data
            return data, backend_for("cpu", data.X)

        data, backend = made("small", 300, 200, 60)
        fit_model(data, small, backend=backend)
        data, backend = made("large", *(int(size * scale) for size in sizes))
        memory.give_back()
        found: dict[str, int] = {}
        with watched(found):
            model = fit_model(data, settings, backend=backend)
    return {"estimate": model.facts.memory_estimate, **found}


def main(names: list[str], scale: float) -> dict[str, Any]:
    """Run the cases and print them."""
    results: dict[str, Any] = {}
    for name in names:
        command = [
            sys.executable,
            "-m",
            "benchmarks.estimates",
            "--case",
            name,
            "--scale",
            str(scale),
        ]
        found = json.loads(
            subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        )
        ratio = found["estimate"] / found["peak"]
        results[name] = found | {"ratio": ratio}
        sizes = f"{found['estimate'] / 1e6:7,.0f} MB estimated, {found['peak'] / 1e6:7,.0f} MB seen"
        print(
            f"{name:<20}{sizes}: {ratio:.2f}{'' if 1 / WITHIN <= ratio <= WITHIN else '  outside'}",
            flush=True,
        )
    ratios = [one["ratio"] for one in results.values()]
    print(
        f"{len(ratios)} cases: estimates are {min(ratios):.2f} to {max(ratios):.2f} of the memory "
        "seen",
        flush=True,
    )
    return results


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scale", type=float, default=1.0, help="of the sizes of the data")
    parser.add_argument("--only", choices=CASES)
    parser.add_argument("--case", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.case:
        print(json.dumps(fit_one(given.case, given.scale)))
    else:
        main([given.only] if given.only else list(CASES), given.scale)
