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
    lines = [f"Scorers: {recipe_words(settings)}."]
    if settings.get("rank_reason"):
        lines.append(f"Rank {settings['rank']:,}: {settings['rank_reason']}.")
    blends = sorted(settings["blends"], key=lambda each: (len(each["scorers"]), -each["quality"]))
    if blends:
        reached = ", ".join(f"{' + '.join(each['scorers'])} {each['p@1']:.1%}" for each in blends)
        lines.append(f"P@1 on held-out examples: {reached}.")
    return lines


def recipe_words(facts: Mapping[str, Any]) -> str:
    """Describe a recipe in a few words: its scorers with their settings."""
    settings, trees = facts["embedding"], facts["trees"]
    parts = [f"rank {facts.get('rank', facts['n_components'])}, ridge {facts['ridge']:g}, decoder {facts['decoder']}"]
    parts += [f"{facts['kernel']} kernel × {settings['kernel_scale']:g}"] if facts["kernel"] else []
    parts += [f"penalty {facts['decoder_ridge']:g}"] if facts["decoder"] != "transpose" else []
    parts += ["rows of unit length"] if facts["normalize"] else []
    parts += [f"{settings['leave_out']:g} left out"] if settings["leave_out"] else []
    powers = [f"{name} {settings[name]:g}" for name in ("label_power", "row_power") if settings.get(name)]
    parts += [f"labels scaled by {', '.join(powers)}"] if powers else []
    words = {"embedding": f" ({', '.join(parts)})"}
    words["trees"] = f" (n_trees {trees['n_trees']}, cost {trees['cost']:g})"
    return "; ".join(f"{name}{words.get(name, '')}" for name in facts["scorers"])


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
    header = ["labels by frequency", "in training", "true", "recall@5", "precision", "found at least once"]
    rows = []
    for number, tenth in enumerate(deciles, 1):
        recall, covered = (f"{share:.1%}" if tenth.n_true else "-" for share in (tenth.recall, tenth.covered))
        precision = f"{tenth.precision:.1%}" if tenth.n_predicted else "-"
        seen = f"{tenth.rarest:,} to {tenth.commonest:,}"
        rows.append([f"tenth {number}", seen, f"{tenth.n_true:,}", recall, precision, covered])
    console.table(header, rows)


def show_trials(console: Console, trials: Sequence[Mapping[str, Any]]) -> None:
    """Print trials, the best of each rung last."""
    rows = []
    for trial in sorted(trials, key=lambda trial: (trial["rung"], trial["outcome"] == "chosen", trial["quality"])):
        count = f"{trial['rows']:,}" if trial["cuts"] == 1 else f"{trial['cuts']} × {trial['rows']:,}"
        precisions = [f"{100 * trial[name]:.2f}" for name in ("p@1", "p@3", "p@5")]
        where = [str(trial["rung"]), count, recipe_words(trial), f"{trial['seconds']:.1f}"]
        rows.append([*where, *precisions, trial["outcome"]])
    console.table(["rung", "rows", "candidate", "s", "P@1", "P@3", "P@5", "outcome"], rows, left=(0, 2, 7))
