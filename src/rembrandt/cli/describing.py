"""Sentences about data and models that several verbs say."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rembrandt.cli.output import folder_size
from rembrandt.cli.screen import in_bytes

if TYPE_CHECKING:
    from rembrandt.data import Dataset
    from rembrandt.estimators import RembrandtClassifier


def data_lines(data: Dataset, source: str) -> list[str]:
    """What was read."""
    what = "texts" if data.X is None else f"examples of {data.X.shape[1]:,} features"
    each = data.Y.nnz / max(1, data.n_examples)
    counted = f"{data.n_examples:,} {what}, {data.n_labels:,} labels, {each:.1f} per example"
    return [f"Read {source}: {counted} ({data.task}).", *data.notes.sentences()]


def choice_lines(classifier: RembrandtClassifier) -> list[str]:
    """What was chosen, and why."""
    settings = classifier.settings_
    chosen = [trial for trial in classifier.selection_ if trial.get("outcome") == "chosen"]
    searched = chosen and classifier.n_components == "auto"
    reason = settings.get("rank_reason") or ("chosen by the search" if searched else "as asked for")
    lines = [f"Rank {settings['rank']:,}: {reason}.", f"Decoder: {_recipe(settings)}."]
    if chosen:
        tried = f"{len(classifier.selection_)} trials on held-out training data"
        lines.append(f"It was chosen after {tried}; it reached {chosen[0]['quality']:.1%} there.")
    elif classifier.selection_:
        best = max(classifier.selection_, key=lambda trial: trial["quality"])
        tried = f"{len(classifier.selection_)} candidates on held-out training data"
        lines.append(f"It was chosen among {tried}; the best of them reached {best['quality']:.1%} ({_recipe(best)}).")
    if settings.get("tree"):
        share, cost = settings["blend"], settings["tree"]["cost"]
        tried = f"; chosen among {len(classifier.blends_)}" if classifier.blends_ else ""
        lines.append(f"Sparse part: {share:.0%} of the score, cost {cost:g}{tried}.")
    return lines


def saved_line(path: Path, seconds: float) -> str:
    """Where the model is."""
    return f"Fitted in {seconds:.1f} s and saved as {path} ({in_bytes(folder_size(path))})."


def command(*words: str | Path) -> str:
    """A command that can be copied into a shell, also where the program is not on its path."""
    started = Path(sys.argv[0])
    program = str(started) if started.name == "rembrandt" and shutil.which("rembrandt") is None else "rembrandt"
    return shlex.join([program, *map(str, words)])


def _recipe(facts: dict[str, Any]) -> str:
    """A decoder in a few words."""
    kernel = f" on random features of a {facts['kernel']} kernel" if facts["kernel"] else ""
    strength = f", strength {facts['decoder_ridge']:g}" if facts["decoder"] in ("ridge", "logistic") else ""
    return f"{facts['decoder']}{kernel}{strength}{', rows scaled to length one' if facts['normalize'] else ''}"
