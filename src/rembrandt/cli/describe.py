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
    """Return a command that can be pasted into a shell, also where the program is not on its
    path.
    """
    started = Path(sys.argv[0])
    program = (
        str(started)
        if started.name == "rembrandt" and shutil.which("rembrandt") is None
        else "rembrandt"
    )
    return shlex.join([program, *map(str, words)])


def data_lines(data: Dataset, source: str) -> list[str]:
    what = "texts" if data.X is None else f"examples of {data.X.shape[1]:,} features"
    what += "" if data.vectors is None else f" with vectors of {data.vectors.shape[1]:,} dimensions"
    each = data.Y.nnz / max(1, data.n_examples)
    counted = f"{data.n_examples:,} {what}, {data.n_labels:,} labels, {each:.1f} per example"
    return [f"Read {source}: {counted} ({data.task}).", *data.notes.sentences()]


def saved_line(path: Path, seconds: float, what: str = "Fitted") -> str:
    return f"{what} in {seconds:.1f} s and saved as {path} ({decimal(folder_size(path))})."


def choice_lines(classifier: RembrandtClassifier) -> list[str]:
    """Return what was chosen, and why."""
    chosen = classifier.describe()["chosen"]
    rank = (
        [f"Rank {classifier.settings_['rank']:,}: {chosen['rank_reason']}."]
        if chosen["rank_reason"]
        else []
    )
    return [f"Scorers: {chosen['words']}.", *rank, *chosen["why"]]


def show_measures(console: Console, measured: Measured) -> None:
    """Print the measures of a model and of the most popular labels, in per cent."""
    from rembrandt.evaluation import KS
    from rembrandt.metrics.percent import percent

    rows = []
    names = {"p": "P@k", "ndcg": "nDCG@k", "psp": "PSP@k", "r": "R@k", "f1": "F1@k"}
    for name, title in names.items():
        for who, values in (
            ("this model", measured.model),
            ("most popular labels", measured.popular),
        ):
            rows.append([title, who, *(percent(values[f"{name}@{k}"], 2, "") for k in KS)])
            title = ""
    console.table(["%", "", *(f"k = {k}" for k in KS)], rows, left=(0, 1))
    f1 = ", macro ".join(percent(measured.model[name], 2, "") for name in ("micro_f1", "macro_f1"))
    console.say(f"F1 of the labels that reach the threshold: micro {f1}.")
    k, most = max(KS), measured.largest[f"p@{max(KS)}"]
    if most < 1:
        each = (measured.data.Y.nnz + measured.data.notes.unseen_label_uses) / max(
            1, measured.data.n_examples
        )
        console.say(
            f"P@{k} can be {percent(most, 2)} at most here: examples have {each:.1f} labels on "
            "average."
        )
    speed = f"{measured.examples_per_second:,.0f} examples per second"
    console.say(f"Error (1 - P@1) {percent(measured.model['error'], 2)}; {speed}.")


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
        recall, covered = (
            percent(share if tenth.n_true else None) for share in (tenth.recall, tenth.covered)
        )
        precision = percent(tenth.precision if tenth.n_predicted else None)
        seen = f"{tenth.rarest:,} to {tenth.commonest:,}"
        rows.append([f"tenth {number}", seen, f"{tenth.n_true:,}", recall, precision, covered])
    console.table(header, rows)


def show_blends(console: Console, blends: Sequence[Mapping[str, Any]]) -> None:
    """Print what every combination of scorers reached on held-out examples, the chosen one
    marked.
    """
    from rembrandt.metrics.percent import percent

    rows = [
        ["*" if each["chosen"] else "", " + ".join(each["scorers"])]
        + [percent(each[name], 2, "") for name in ("p@1", "p@3", "p@5", "quality")]
        for each in sorted(blends, key=lambda each: -each["quality"])
    ]
    console.table(["", "scorers", "P@1", "P@3", "P@5", "compared by"], rows, left=(0, 1))


def show_trials(console: Console, trials: Sequence[Mapping[str, Any]]) -> None:
    """Print trials, the best of each rung last; a star marks the settings that were chosen."""
    from rembrandt.metrics.percent import percent
    from rembrandt.model.description import recipe_words

    rows, timed = (
        [],
        any("seconds" in trial for trial in trials),
    )  # only a search with a budget measures times
    for trial in sorted(
        trials, key=lambda trial: (trial["rung"], trial["outcome"] == "chosen", trial["quality"])
    ):
        count = (
            f"{trial['rows']:,}" if trial["cuts"] == 1 else f"{trial['cuts']} × {trial['rows']:,}"
        )
        precisions = [percent(trial[name], 2, "") for name in ("p@1", "p@3", "p@5")]
        where = [
            "*" if trial["outcome"] == "chosen" else "",
            str(trial["rung"]),
            count,
            recipe_words(trial),
        ]
        took = [f"{trial['seconds']:.1f}"] if timed else []
        rows.append([*where, *precisions, trial["outcome"], *took])
    header = [
        "",
        "rung",
        "rows",
        "candidate",
        "P@1",
        "P@3",
        "P@5",
        "outcome",
        *(["s"] if timed else []),
    ]
    console.table(header, rows, left=(0, 1, 3, 7))
