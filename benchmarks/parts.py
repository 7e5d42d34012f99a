"""Fit the parts of a preset once, and measure the blend of every subset of them with several
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

from benchmarks.peers.harness import Part as PreparedPart
from benchmarks.peers.harness import cpu_seconds
from benchmarks.peers.prepare import file_name, prepared, set_folder, sources
from benchmarks.peers.scoring import Truth, means
from benchmarks.results import write_json
from rembrandt import RembrandtClassifier
from rembrandt import candidates as listing
from rembrandt.blend import Blend
from rembrandt.candidates import Candidates, collect, log_frequencies_of
from rembrandt.data.examples import Examples
from rembrandt.data.ordering import in_canonical_order
from rembrandt.data.rows import as_rows
from rembrandt.errors import DataError
from rembrandt.fitting import fit_part
from rembrandt.linalg import logistic
from rembrandt.linalg.blocks import spans
from rembrandt.linalg.ranking import rank
from rembrandt.linalg.sparse import as_csr
from rembrandt.parts.allowance import ALLOWANCES
from rembrandt.parts.protocol import Part
from rembrandt.planning import resolve
from rembrandt.progress import silent
from rembrandt.search import trial, unwatched
from rembrandt.search.blending import Blended
from rembrandt.search.holdout import splits_of
from rembrandt.search.search import RunningSearch

FOLDER = Path("bench-results") / "parts"
PRESENT = (listing.LIST_LENGTH, logistic.PENALTY)
# Mean length of the lists of the parts, and penalty on the weights.
LENGTHS = sorted({10, 15, 30, listing.LIST_LENGTH})
PENALTIES = sorted({0.1, 1.0, 10.0, logistic.PENALTY})
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
    train = PreparedPart.load(data, "train")
    test = PreparedPart.load(data, "test")
    examples = _examples(train)
    few = examples.take(np.arange(min(WARM_ROWS, examples.n)))
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
    data: Examples, X_test: Any, truth: Truth, preset: Any
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the cost of each part, and the figures of every subset of the parts with each pair
    of constants.
    """
    params = RembrandtClassifier(preset=preset, random_state=0).get_params(deep=False)
    settings = resolve(params, data)
    begun = cpu_seconds()
    trials = [trial.Trial(data, split) for split in splits_of(data, settings.seed)]
    search = RunningSearch(
        data=data,
        settings=settings,
        trials=trials,
        fixed={},
        report=silent,
        watch=unwatched,
        now=time.perf_counter,
        deadline=inf,
    )
    search.fit_all()
    if ALLOWANCES[preset].varies_settings:
        search.vary_all()
    result = search.result()
    facts: dict[str, Any] = {
        "chosen": list(result.settings.parts),
        "search_cpu": cpu_seconds() - begun,
        "cpu": {},
        "megabytes": {},
    }
    parts: dict[str, Part] = {}
    for name in result.settings.parts:
        begun = cpu_seconds()
        kept = result.learned.begun.get(name)
        parts[name] = fit_part(name, data, result.settings, earlier=dict(parts), begun=kept)
        facts["cpu"][name] = cpu_seconds() - begun
        facts["megabytes"][name] = sum(parts[name].sizes().values()) / 1e6
    held_out_Y = _stacked([split.held_out.Y for split in trials])
    held_out = replace(trials[0].held_out, Y=held_out_Y)
    all_fitted = search.fitted
    rows = []
    for length, names in product(LENGTHS, subsets(parts)):
        search.settings = result.settings.with_parts(list(names))
        search.fitted = [{name: of_split[name] for name in names} for of_split in all_fitted]
        listed: dict[Any, Candidates] = {}
        with (
            mock.patch.object(listing, "LIST_LENGTH", length),
            mock.patch.object(trial, "LIST_LENGTH", length),
        ):
            for penalty in PENALTIES:
                learned = blended(search, held_out, penalty)
                weights = learned.blend
                key = (*weights.weights, *weights.list_lengths.items())
                if key not in listed:
                    subset = {name: parts[name] for name in weights.weights}
                    listed[key] = candidates(subset, X_test, data, weights.list_lengths)
                labels = best_labels(weights, listed[key], data.n_labels)
                figures = {
                    name: value
                    for name, value in means(truth.terms(labels)).items()
                    if name.startswith(("p@", "psp@"))
                }
                where = {"length": length, "penalty": penalty, "parts": list(names)}
                rows.append(where | {"quality": learned.measures.quality} | figures)
    return facts, rows


def subsets(parts: Mapping[str, Part]) -> list[tuple[str, ...]]:
    """Return the subsets in which at least one part lists labels, the smallest first."""
    sizes = range(1, len(parts) + 1)
    every = [names for size in sizes for names in combinations(parts, size)]
    return [names for names in every if any(parts[name].retrieves_labels for name in names)]


def blended(search: RunningSearch, held_out: Examples, penalty: float) -> Blended:
    """Learn the blend of the parts of a search with this penalty on the weights."""
    with mock.patch.object(logistic, "PENALTY", penalty):
        return search.blended(search.fitted, held_out)


def candidates(
    parts: dict[str, Part], X: Any, data: Examples, list_lengths: Mapping[str, int]
) -> Candidates:
    """Return the candidates of rows, as a model of these parts does."""
    counts = np.bincount(data.Y.indices, minlength=data.n_labels)
    log_frequencies = log_frequencies_of(counts, data.n)
    size = min(part.block_rows for part in parts.values())
    blocks = []
    for rows in spans(X.shape[0], size):
        prepared_rows = {name: part.prepare(X[rows]) for name, part in parts.items()}
        blocks.append(collect(parts, prepared_rows, log_frequencies, list_lengths))
    return Candidates.joined(blocks)


def best_labels(learned: Blend, listed: Candidates, n_labels: int, k: int = 5) -> Any:
    """Return the best labels that the parts of a blend list."""
    probabilities = learned.probabilities(listed, n_labels)
    best = rank(listed.labels, np.where(listed.is_label, probabilities, -np.inf))[0][:, :k]
    return np.pad(best, ((0, 0), (0, k - best.shape[1])), constant_values=-1)


def chosen(result: dict[str, Any], constants: Constants) -> dict[str, Any]:
    """Return the row of a fit with these constants: that of all its parts."""
    [row] = [
        row
        for row in result["rows"]
        if (row["length"], row["penalty"]) == constants
        and set(row["parts"]) == set(result["chosen"])
    ]
    return dict(row)


def _examples(part: PreparedPart) -> Examples:
    X, Y = as_csr(part.X, np.float32), as_csr(part.Y)
    is_multiclass = bool(np.diff(Y.indptr).max(initial=0) <= 1)
    return in_canonical_order(Examples(as_rows(X), Y, np.arange(Y.shape[1]), is_multiclass))


def _stacked(blocks: list[sparse.csr_array]) -> sparse.csr_array:
    return sparse.csr_array(sparse.vstack(blocks, format="csr"))


def _key(data: Path) -> str:
    needs = repr((data.name, PRESENT, GRID)).encode() + sources() + Path(__file__).read_bytes()
    return hashlib.sha256(needs).hexdigest()[:16]


if __name__ == "__main__":
    write_json(Path(sys.argv[3]), measure(sys.argv[1], sys.argv[2], prepared(sys.argv[1])))
