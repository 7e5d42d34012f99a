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
from rembrandt.errors import counted

if TYPE_CHECKING:
    from rembrandt.data import Dataset
    from rembrandt.estimators import RembrandtClassifier
    from rembrandt.evaluation import Measured
    from rembrandt.metrics import Decile


def command(*words: str | Path) -> str:
    """Return a command that can be pasted into a shell, also where the program is not on its
    path.
    """
    program = "rembrandt"
    started = Path(sys.argv[0])
    if started.name == "rembrandt" and shutil.which("rembrandt") is None:
        program = str(started)
    return shlex.join([program, *map(str, words)])


def data_lines(data: Dataset, source: str) -> list[str]:
    """Return what was read, and what the reader noted."""
    examples = counted(data.n_examples, "text")
    if data.X is not None:
        n_features = counted(data.X.shape[1], "feature")
        examples = f"{counted(data.n_examples, 'example')} of {n_features}"
    if data.vectors is not None:
        examples += f" with vectors of {counted(data.vectors.shape[1], 'dimension')}"
    labels = counted(data.n_labels, "label")
    per_example = data.Y.nnz / max(1, data.n_examples)
    counts = f"{examples}, {labels}, {per_example:.1f} per example"
    lines = [f"Read {source}: {counts} ({data.task})."]
    if data.columns is not None and data.columns.chosen:
        lines.append(data.columns.sentence())
    return lines + data.notes.sentences()


def saved_line(path: Path, seconds: float, what: str = "Fitted") -> str:
    """Return where a model was saved, and its size."""
    size = decimal(folder_size(path))
    return f"{what} in {seconds:.1f} s and saved as {path} ({size})."


def choice_lines(classifier: RembrandtClassifier) -> list[str]:
    """Return what was chosen, and why."""
    chosen = classifier.describe()["chosen"]
    return [f"Parts: {chosen['words']}.", *chosen["why"]]


def show_measures(console: Console, measured: Measured) -> None:
    """Print the measures of a model and of the most popular labels, in per cent."""
    from rembrandt.evaluation import KS
    from rembrandt.metrics.percent import percent

    rows = []
    names = {"p": "P@k", "ndcg": "nDCG@k", "psp": "PSP@k", "r": "R@k", "f1": "F1@k"}
    for name, title in names.items():
        of_model = [percent(measured.model[f"{name}@{k}"], 2, "") for k in KS]
        of_popular = [percent(measured.popular[f"{name}@{k}"], 2, "") for k in KS]
        rows.append([title, "this model", *of_model])
        rows.append(["", "most popular labels", *of_popular])
    cutoffs = [f"k = {k}" for k in KS]
    console.table(["%", "", *cutoffs], rows, left=(0, 1))
    micro = percent(measured.model["micro_f1"], 2, "")
    macro = percent(measured.model["macro_f1"], 2, "")
    console.say(f"F1 of the labels that reach the threshold: micro {micro}, macro {macro}.")
    if "hierarchical_f1" in measured.model:
        words = []
        for name in ("precision", "recall", "f1"):
            words.append(f"{name} {percent(measured.model[f'hierarchical_{name}'], 2, '')}")
        console.say(f"With all labels above them: {', '.join(words)}.".replace("f1", "F1"))
    k = max(KS)
    largest = measured.largest[f"p@{k}"]
    if largest < 1:
        data = measured.data
        n_uses = data.Y.nnz + data.notes.unseen_label_uses
        per_example = n_uses / max(1, data.n_examples)
        console.say(
            f"P@{k} can be {percent(largest, 2)} at most here: "
            f"examples have {per_example:.1f} labels on average."
        )
    error = percent(measured.model["error"], 2)
    speed = f"{measured.examples_per_second:,.0f} examples per second"
    console.say(f"Error (1 - P@1) {error}; {speed}.")


def show_deciles(console: Console, deciles: list[Decile]) -> None:
    """Print recall and precision by the frequency of labels."""
    from rembrandt.metrics.percent import percent

    header = [
        "labels by frequency",
        "in training",
        "true",
        "recall@5",
        "precision",
        "found at least once",
    ]
    rows = []
    for number, tenth in enumerate(deciles, 1):
        recall = percent(tenth.recall if tenth.n_true else None)
        covered = percent(tenth.covered if tenth.n_true else None)
        precision = percent(tenth.precision if tenth.n_predicted else None)
        in_training = f"{tenth.rarest:,} to {tenth.commonest:,}"
        true = f"{tenth.n_true:,}"
        rows.append([f"tenth {number}", in_training, true, recall, precision, covered])
    console.table(header, rows)


def show_blends(console: Console, blends: Sequence[Mapping[str, Any]]) -> None:
    """Print what every combination of parts reached on held-out examples, the chosen one
    marked.
    """
    from rembrandt.metrics.percent import percent

    rows = []
    for blend in sorted(blends, key=lambda blend: -blend["quality"]):
        star = _star(blend["chosen"])
        measures = [percent(blend[name], 2, "") for name in ("p@1", "p@3", "p@5", "quality")]
        rows.append([star, " + ".join(blend["parts"]), *measures])
    console.table(["", "parts", "P@1", "P@3", "P@5", "compared by"], rows, left=(0, 1))


def show_trials(console: Console, trials: Sequence[Mapping[str, Any]]) -> None:
    """Print trials by part, the best last; a star marks the settings that were chosen."""
    from rembrandt.metrics.percent import percent

    # Only a search with a budget measures times.
    is_timed = any("seconds" in trial for trial in trials)
    header = ["", "part", "settings", "P@1", "P@3", "P@5", "outcome"]
    if is_timed:
        header.append("s")
    rows = []
    for trial in sorted(trials, key=_best_last):
        precisions = [percent(trial[name], 2, "") for name in ("p@1", "p@3", "p@5")]
        row = [
            _star(trial["outcome"] == "chosen"),
            trial["part"],
            trial["words"],
            *precisions,
            trial["outcome"],
        ]
        if is_timed:
            seconds = trial.get("seconds")
            row.append("" if seconds is None else f"{seconds:.1f}")
        rows.append(row)
    console.table(header, rows, left=(0, 1, 2, 6))


def _best_last(trial: Mapping[str, Any]) -> tuple[str, bool, float]:
    """Return a key that sorts trials by part and quality, the chosen one last."""
    return trial["part"], trial["outcome"] == "chosen", trial["quality"]


def _star(is_chosen: bool) -> str:
    return "*" if is_chosen else ""
