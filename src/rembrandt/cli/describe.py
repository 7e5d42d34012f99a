"""Sentences and tables about data, models, measures and trials."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rembrandt.cli.console import Console
from rembrandt.cli.output import decimal, folder_size

if TYPE_CHECKING:
    from rembrandt.data import Dataset
    from rembrandt.estimators import RembrandtClassifier
    from rembrandt.evaluation import Measured
    from rembrandt.metrics import Decile


def command(*words: str | Path) -> str:
    """Return a command that can be pasted into a shell, also where the program is not on its path."""
    started = Path(sys.argv[0])
    program = str(started) if started.name == "rembrandt" and shutil.which("rembrandt") is None else "rembrandt"
    return shlex.join([program, *map(str, words)])


def data_lines(data: Dataset, source: str) -> list[str]:
    what = "texts" if data.X is None else f"examples of {data.X.shape[1]:,} features"
    each = data.Y.nnz / max(1, data.n_examples)
    counted = f"{data.n_examples:,} {what}, {data.n_labels:,} labels, {each:.1f} per example"
    return [f"Read {source}: {counted} ({data.task}).", *data.notes.sentences()]


def saved_line(path: Path, seconds: float, what: str = "Fitted") -> str:
    return f"{what} in {seconds:.1f} s and saved as {path} ({decimal(folder_size(path))})."


def choice_lines(classifier: RembrandtClassifier) -> list[str]:
    """Return what was chosen, and why."""
    settings = classifier.settings_
    chosen = [trial for trial in classifier.selection_ if trial["outcome"] == "chosen"]
    lines = [f"Scorers: {candidate(settings)}."]
    if settings.get("rank_reason"):
        lines.append(f"Rank {settings['rank']:,}: {settings['rank_reason']}.")
    if chosen:
        tried = f"{len(classifier.selection_)} trials on held-out examples"
        lines.append(f"Chosen in {tried}, where it reached {chosen[0]['quality']:.1%}.")
    return lines


def _decoder(facts: Mapping[str, Any]) -> str:
    kernel = f" on random features of a {facts['kernel']} kernel" if facts["kernel"] else ""
    penalty = f", penalty {facts['decoder_ridge']:g}" if facts["decoder"] in ("ridge", "logistic") else ""
    return f"decoder {facts['decoder']}{kernel}{penalty}{', rows of unit length' if facts['normalize'] else ''}"


def show_measures(console: Console, measured: Measured) -> None:
    """Print the measures of a model and of the most popular labels, in per cent."""
    from rembrandt.evaluation import KS

    rows = []
    for name, title in (("p", "P@k"), ("ndcg", "nDCG@k"), ("psp", "PSP@k")):
        for who, values in (("this model", measured.model), ("most popular labels", measured.popular)):
            rows.append([title, who, *(f"{100 * values[f'{name}@{k}']:.2f}" for k in KS)])
            title = ""
    console.table(["%", "", *(f"k = {k}" for k in KS)], rows, left=(0, 1))
    speed = f"{measured.examples_per_second:,.0f} examples per second"
    console.say(f"Error (1 - P@1) {measured.model['error']:.2%}; {speed}.")


def show_deciles(console: Console, deciles: list[Decile]) -> None:
    """Print recall and precision by the frequency of labels."""
    from rembrandt.evaluation import KS

    header = ["labels by frequency", "in training", "true", f"recall@{max(KS)}", "precision", "found at least once"]
    console.table(header, (_decile(number, decile) for number, decile in enumerate(deciles, 1)))


def _decile(number: int, decile: Decile) -> list[str]:
    recall, covered = (f"{value:.1%}" if decile.n_true else "-" for value in (decile.recall, decile.covered))
    precision = f"{decile.precision:.1%}" if decile.n_predicted else "-"
    seen = f"{decile.rarest:,} to {decile.commonest:,}"
    return [f"tenth {number}", seen, f"{decile.n_true:,}", recall, precision, covered]


def show_trials(console: Console, trials: Sequence[Mapping[str, Any]]) -> None:
    """Print trials, the best of each rung last."""
    header = ("rung", "rows", "candidate", "s", "P@1", "P@3", "P@5", "outcome")
    ordered = sorted(trials, key=lambda trial: (trial["rung"], trial["outcome"] == "chosen", trial["quality"]))
    console.table(header, map(_trial, ordered), left=(0, 2, 7))


def _trial(trial: Mapping[str, Any]) -> tuple[str, ...]:
    rows = f"{trial['rows']:,}" if trial["cuts"] == 1 else f"{trial['cuts']} × {trial['rows']:,}"
    start = (str(trial["rung"]), rows, candidate(trial), f"{trial['seconds']:.1f}")
    return (*start, *(f"{100 * trial[name]:.2f}" for name in ("p@1", "p@3", "p@5")), trial["outcome"])


def candidate(facts: Mapping[str, Any]) -> str:
    """Return a recipe in a few words."""
    parts = []
    weights = facts["blend"] if facts["blend"] != "auto" else [None] * len(facts["scorers"])
    for name, weight in zip(facts["scorers"], weights, strict=True):
        share = "" if weight in (None, 1) else f" {weight:.0%}"
        parts.append(f"{name}{share}{_PARTS[name](facts)}")
    return "; ".join(parts)


def _embedding(facts: Mapping[str, Any]) -> str:
    settings = facts["embedding"]
    rank = facts.get("rank") or facts["n_components"]
    scale = f" × {settings['kernel_scale']:g}" if facts["kernel"] else ""
    left_out = f", {settings['leave_out']:g} left out" if settings["leave_out"] else ""
    return f" (rank {rank}, ridge {facts['ridge']:g}, {_decoder(facts)}{scale}{left_out})"


def _trees(facts: Mapping[str, Any]) -> str:
    trees = facts["trees"]
    return f" ({trees['n_trees']}, cost {trees['cost']:g}, power {trees['power']:g})"


_PARTS = {"embedding": _embedding, "trees": _trees, "centroids": lambda facts: ""}
