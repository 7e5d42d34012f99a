"""Fit the scorers of a preset once, and measure the blend of every subset of them with several
constants.

The weights of a blend come from held-out training rows, as in a fit; the figures are those of test
rows. The leave-one- set-out check of the constants (`benchmarks.generalize`) and the ablation
(`benchmarks.ablation`) use the same results. Each set has its own process, and its result is stored
in bench-results/parts.
"""

import hashlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
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
from rembrandt.scorers.blend import Blend, Candidates, collect
from rembrandt.scorers.protocol import Scorer
from rembrandt.selection import halving, unwatched
from rembrandt.selection.blending import blends
from rembrandt.selection.rungs import rungs_of

FOLDER = Path("bench-results") / "parts"
PRESENT = (blend.LENGTH, blend.PENALTY, halving.CHANCE)
# Length of the list of a scorer, penalty on the weights, and quality below which fewer scorers are
# preferred.
LENGTHS, PENALTIES, CHANCES = (
    sorted({*values, present})
    for values, present in zip(
        ((10, 15, 30), (0.1, 1.0, 10.0), (0.0, 0.001, 0.005)), PRESENT, strict=True
    )
)
GRID = list(product(LENGTHS, PENALTIES, CHANCES))
WARM_ROWS = 500
Constants = tuple[float, float, float]


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
    search = halving._Search(
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
    proposing = {name for name, scorer in scorers.items() if scorer.proposes}
    rows = []
    for length in LENGTHS:
        with mock.patch.object(blend, "LENGTH", length):
            trials = [
                split.candidates({name: own[i] for name, (_, own) in search.fitted.items()})
                for i, split in enumerate(search.splits)
            ]
            learned_on, test = Candidates.joined(trials), candidates(scorers, X_test, data)
        for penalty in PENALTIES:
            with mock.patch.object(blend, "PENALTY", penalty):
                found = blends(learned_on, held, recipe.threshold, proposing, chance=0.0)
            for each in found:
                figures = means(truth.terms(best_labels(each.blend, test)))
                kept = {
                    key: value for key, value in figures.items() if key.startswith(("p@", "psp@"))
                }
                where = {"length": length, "penalty": penalty, "scorers": list(each.names)}
                rows.append(where | {"quality": each.measures.quality} | kept)
    return facts, rows


def candidates(scorers: dict[str, Scorer], X: Any, data: Examples) -> Candidates:
    """Return the candidates of rows, as a model of these scorers does."""
    log_counts = np.log1p(np.bincount(data.Y.indices, minlength=data.n_labels)).astype(np.float32)
    size = min(scorer.block_rows for scorer in scorers.values())
    blocks = (X[rows] for rows in spans(X.shape[0], size))
    prepared_blocks = (
        {name: scorer.prepare(block) for name, scorer in scorers.items()} for block in blocks
    )
    return Candidates.joined([collect(scorers, rows, log_counts) for rows in prepared_blocks])


def best_labels(learned: Blend, found: Candidates, k: int = 5) -> Any:
    """Return the best labels that the scorers of a blend list."""
    own = found.of(learned.weights).short()
    best = rank(own.labels, learned.log_odds(own))[0][:, :k]
    return np.pad(best, ((0, 0), (0, k - best.shape[1])), constant_values=-1)


def chosen(result: dict[str, Any], constants: Constants) -> dict[str, Any]:
    """Return the row that a fit with these constants would choose on held-out rows."""
    length, penalty, chance = constants
    rows = [row for row in result["rows"] if (row["length"], row["penalty"]) == (length, penalty)]
    most = max(row["quality"] for row in rows)
    return min(
        rows, key=lambda row: (row["quality"] < most - chance, len(row["scorers"]), -row["quality"])
    )


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
