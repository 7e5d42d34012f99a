"""Fit the scorers of a preset once, and measure the blend of every subset of them with several
constants.

The weights of a blend come from held-out training rows, as in a fit; the figures are those of test
rows. The leave-one-set-out check of the constants (`benchmarks.generalize`) and the ablation
(`benchmarks.ablation`) use the same results. Each set has its own process, and its result is stored
in bench-results/parts.
"""

import hashlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, product
from math import inf
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from scipy import sparse

from benchmarks.peers.harness import Part, cpu_seconds
from benchmarks.peers.prepare import file_name, prepared, set_folder, sources
from benchmarks.peers.scoring import Truth, means
from benchmarks.results import write_json
from rembrandt import RembrandtClassifier
from rembrandt.data.examples import Examples
from rembrandt.data.rows import as_rows
from rembrandt.engines.place import CPU
from rembrandt.errors import DataError
from rembrandt.estimators.classifier import EFFORT
from rembrandt.fitting import fit_scorer
from rembrandt.linalg.blocks import spans
from rembrandt.linalg.ranking import rank
from rembrandt.linalg.sparse import as_csr
from rembrandt.progress import silent
from rembrandt.recipe import resolve
from rembrandt.scorers import blend
from rembrandt.scorers.blend import Blend, Candidates, collect, log_frequencies_of
from rembrandt.scorers.protocol import Scorer
from rembrandt.selection import halving, trial, unwatched
from rembrandt.selection.blending import Blended
from rembrandt.selection.rungs import rungs_of

FOLDER = Path("bench-results") / "parts"
PRESENT = (blend.LIST_LENGTH, blend.PENALTY)
# Mean length of the lists of the scorers, and penalty on the weights.
LENGTHS = sorted({10, 15, 30, blend.LIST_LENGTH})
PENALTIES = sorted({0.1, 1.0, 10.0, blend.PENALTY})
GRID = list(product(LENGTHS, PENALTIES))
WARM_ROWS = 500
Constants = tuple[float, float]


def results(names: Sequence[str], preset: str, again: bool = False) -> Iterator[dict[str, Any]]:
    """Yield the result of each set, in the order of the names; measure those without a stored
    one.
    """
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in names:
        try:
            data = set_folder(name)
        except DataError as why:
            print(f"skipped: {why}", flush=True)
            continue
        file = FOLDER / f"{preset}--{file_name(name)}.json"
        known = json.loads(file.read_text()) if file.exists() and not again else {}
        if known.get("key") != _key(data):
            subprocess.run(
                [sys.executable, "-m", "benchmarks.parts", name, preset, str(file)], check=True
            )
            known = json.loads(file.read_text())
        yield known


def measure(name: str, preset: str, data: Path) -> dict[str, Any]:
    """Fit and measure one prepared set in this process."""
    train, test = Part.load(data, "train"), Part.load(data, "test")
    examples = _examples(train)
    few = _examples(train).take(np.arange(min(WARM_ROWS, examples.n)))
    RembrandtClassifier(preset=preset, random_state=0).fit(few.X[:], few.Y)  # compile
    facts, rows = fitted(examples, as_csr(test.X, np.float32), Truth.load(data), preset)
    return {
        "set": name,
        "preset": preset,
        "key": _key(data),
        "present": PRESENT,
        **facts,
        "rows": rows,
    }


def fitted(
    data: Examples, X_test: Any, truth: Truth, preset: str
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the cost of each part, and the figures of every subset of the scorers with each pair
    of constants.
    """
    recipe = resolve(
        RembrandtClassifier(preset=preset, random_state=0).get_params(deep=False), data
    )
    begun = cpu_seconds()
    rungs = rungs_of(data, recipe.seed, True, EFFORT[preset])
    search: Any = halving._Search(
        data, recipe, EFFORT[preset], inf, rungs, CPU, silent, unwatched, time.perf_counter
    )
    choice = search.run(recipe.decoder)
    facts: dict[str, Any] = {
        "chosen": list(choice.recipe.scorers),
        "search_cpu": cpu_seconds() - begun,
    }
    scorers: dict[str, Scorer] = {}
    facts |= {"cpu": {}, "megabytes": {}}
    for name in search.fitted:
        begun = cpu_seconds()
        scorers[name] = fit_scorer(name, data, choice.recipe, others=dict(scorers))[0]
        facts["cpu"][name], facts["megabytes"][name] = (
            cpu_seconds() - begun,
            scorers[name].nbytes / 1e6,
        )
    held = replace(search.splits[0].held, Y=_stacked([split.held.Y for split in search.splits]))
    rows = []
    fitted_trials = search.fitted
    for length, names in product(LENGTHS, subsets(scorers)):
        search.fitted = {name: fitted_trials[name] for name in names}
        subset = {name: scorers[name] for name in names}
        with (
            mock.patch.object(blend, "LIST_LENGTH", length),
            mock.patch.object(trial, "LIST_LENGTH", length),
        ):
            blends = {penalty: blended(search, held, penalty) for penalty in PENALTIES}
            # The lengths of lists do not depend on the penalty.
            list_lengths = blends[PENALTIES[0]].blend.list_lengths
            test = candidates(subset, X_test, data, list_lengths)
        for penalty, learned in blends.items():
            figures = means(truth.terms(best_labels(learned.blend, test, data.n_labels)))
            kept = {key: value for key, value in figures.items() if key.startswith(("p@", "psp@"))}
            where = {"length": length, "penalty": penalty, "scorers": list(names)}
            rows.append(where | {"quality": learned.measures.quality} | kept)
    return facts, rows


def subsets(scorers: dict[str, Scorer]) -> list[tuple[str, ...]]:
    """Return the subsets in which at least one scorer lists labels, the smallest first."""
    sizes = range(1, len(scorers) + 1)
    every = [names for size in sizes for names in combinations(scorers, size)]
    return [names for names in every if any(scorers[name].proposes for name in names)]


def blended(search: Any, held: Examples, penalty: float) -> Blended:
    """Learn the blend of the scorers of a search with this penalty on the weights."""
    with mock.patch.object(blend, "PENALTY", penalty):
        learned: Blended = search._blended(held)
    return learned


def candidates(
    scorers: dict[str, Scorer], X: Any, data: Examples, list_lengths: Mapping[str, int]
) -> Candidates:
    """Return the candidates of rows, as a model of these scorers does."""
    counts = np.bincount(data.Y.indices, minlength=data.n_labels)
    log_frequencies = log_frequencies_of(counts, data.n)
    size = min(scorer.block_rows for scorer in scorers.values())
    blocks = []
    for rows in spans(X.shape[0], size):
        prepared_rows = {name: scorer.prepare(X[rows]) for name, scorer in scorers.items()}
        blocks.append(collect(scorers, prepared_rows, log_frequencies, list_lengths))
    return Candidates.joined(blocks)


def best_labels(learned: Blend, listed: Candidates, n_labels: int, k: int = 5) -> Any:
    """Return the best labels that the scorers of a blend list."""
    probabilities = learned.probabilities(listed, n_labels)
    best = rank(listed.labels, np.where(listed.is_label, probabilities, -np.inf))[0][:, :k]
    return np.pad(best, ((0, 0), (0, k - best.shape[1])), constant_values=-1)


def chosen(result: dict[str, Any], constants: Constants) -> dict[str, Any]:
    """Return the row of a fit with these constants: that of all its scorers."""
    [row] = [
        row
        for row in result["rows"]
        if (row["length"], row["penalty"]) == constants
        and set(row["scorers"]) == set(result["chosen"])
    ]
    return dict(row)


def _examples(part: Part) -> Examples:
    X, Y = as_csr(part.X, np.float32), as_csr(part.Y)
    return Examples(
        as_rows(X), Y, np.arange(Y.shape[1]), bool(np.diff(Y.indptr).max(initial=0) <= 1)
    )


def _stacked(parts: list[sparse.csr_array]) -> sparse.csr_array:
    return sparse.csr_array(sparse.vstack(parts, format="csr"))


def _key(data: Path) -> str:
    needs = repr((data.name, PRESENT, GRID)).encode() + sources() + Path(__file__).read_bytes()
    return hashlib.sha256(needs).hexdigest()[:16]


if __name__ == "__main__":
    write_json(Path(sys.argv[3]), measure(sys.argv[1], sys.argv[2], prepared(sys.argv[1])))
