"""``rembrandt tune``: search for the best settings within a given time."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rembrandt.cli import options
from rembrandt.cli.console import Console
from rembrandt.cli.describe import command, saved_line, show_trials
from rembrandt.cli.failure import about
from rembrandt.cli.fit import prepare
from rembrandt.cli.output import check_model_target, folder_size
from rembrandt.cli.reading import Reading
from rembrandt.cli.saved import fit_facts
from rembrandt.cli.settings import Settings, TextSettings

if TYPE_CHECKING:
    from rembrandt.search import Progress

_DEFAULT_SECONDS = 300.0  # of a search


def tune(
    train: options.Train,
    *,
    reading: Reading,
    settings: Settings,
    texts: TextSettings,
    output: Annotated[
        Path | None, options.output_option("MODEL", "Fit what was chosen and save it here.")
    ] = None,
    force: options.Force = False,
    console: Console,
) -> None:
    """Search for better settings than those of the preset, and print the command that fits with
    them.

    The settings of each part are tried one after the other, each by a fit to all examples but those
    that are held out. They are kept if they are better there by more than a standard error. The
    search takes 5 minutes unless --budget says otherwise.
    """
    if output is not None:
        check_model_target(output, force)
    settings = replace(settings, budget=settings.budget or _DEFAULT_SECONDS)
    classifier, data, used_reading = prepare(console, train, reading, settings, texts, None)
    watcher = Watcher(console.quiet)
    start = time.perf_counter()
    with console.progress() as report, about(f"cannot search on {train}"):
        if output is None:
            result = classifier.search_dataset(data, report, watcher)
            chosen = result.settings
            trials = result.trials
        else:
            classifier.fit_dataset(data, report, watch=watcher)
            chosen = classifier.model_.settings
            trials = classifier.selection_
    seconds = time.perf_counter() - start
    words: list[str] = []
    for group in (reading, settings.with_settings(chosen), texts):
        words += options.as_words(group)
    fit_command = command("fit", train, "--output", output or "MODEL", *words)
    document = {
        "budget": settings.budget,
        "chosen": chosen.to_json(),
        "trials": trials,
        "command": fit_command,
    }
    if watcher.last is None:
        console.say(
            "There was nothing to choose: all settings are given, or there are too few examples."
        )
    else:
        document["seconds"] = watcher.last.seconds
        document["ended"] = watcher.last.ended
        console.say("")
        show_trials(console, trials)
        console.say(
            "",
            "A star marks what was chosen: the settings of the preset, unless others were better "
            "by more than a standard error.",
            "Smaller differences are chance, so another row may have a higher number.",
            f"Searched for {watcher.last.seconds:.0f} s: {watcher.last.ended}.",
        )
        for line in _chosen_lines(trials):
            console.say(line)
    if output is not None:
        classifier.save(output, force=force, extra=fit_facts(used_reading, seconds))
        console.say(saved_line(output, seconds))
        document["model"] = str(output)
        document["bytes"] = folder_size(output)
        document["settings"] = classifier.settings_
    console.say("", "The same model without a search:", f"  {fit_command}")
    console.result(document)


class Watcher:
    """Print a line for each trial of a search; keep its last state."""

    def __init__(self, quiet: bool) -> None:
        self.quiet = quiet
        self.last: Progress | None = None

    def __call__(self, progress: Progress) -> None:
        self.last = progress
        if self.quiet or progress.ended:
            return
        trial = progress.trials[-1]
        print(
            f"{progress.seconds:.0f} s: {_measures(trial)} with {_named(trial)}",
            file=sys.stderr,
            flush=True,
        )


def _chosen_lines(trials: list[dict[str, Any]]) -> list[str]:
    """Return the best settings of each part, and what the model reached when they were chosen."""
    return [
        f"Chosen: {_named(trial)}, the model then {_measures(trial)}."
        for trial in trials
        if trial["outcome"] == "chosen"
    ]


def _named(trial: dict[str, Any]) -> str:
    """Return the part of a trial with its settings, where it has any."""
    if not trial["words"]:
        return str(trial["part"])
    return f"{trial['part']} ({trial['words']})"


def _measures(trial: dict[str, Any]) -> str:
    from rembrandt.metrics.percent import percent

    precisions = [percent(trial[name], 2, "") for name in ("p@1", "p@3", "p@5")]
    return f"{' / '.join(precisions)} at P@1/3/5"
