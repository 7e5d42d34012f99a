"""``rembrandt tune``: search for the best settings within a given time."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
    from rembrandt.selection import Progress

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
    """Search for the settings that are best on held-out examples, and print the command that fits
    with them.

    Many candidates are tried on few examples, the best third of them on three times as many, and so
    on. The search takes 5 minutes unless --budget says otherwise.
    """
    if output is not None:
        check_model_target(output, force)
    from rembrandt.recipe import Recipe

    settings = replace(settings, budget=settings.budget or _DEFAULT_SECONDS)
    classifier, data, used_reading = prepare(console, train, reading, settings, texts, None)
    watcher = Watcher(console.quiet)
    start = time.perf_counter()
    with console.progress() as report, about(f"cannot search on {train}"):
        if output is None:
            choice = classifier.search_dataset(data, report, watcher)
            recipe = choice.recipe
            trials = choice.trials
        else:
            classifier.fit_dataset(data, report, watch=watcher)
            recipe = Recipe.from_json(classifier.settings_)
            trials = classifier.selection_
    seconds = time.perf_counter() - start
    words: list[str] = []
    for group in (reading, settings.with_recipe(recipe), texts):
        words += options.as_words(group)
    fit_command = command("fit", train, "--output", output or "MODEL", *words)
    document = {
        "budget": settings.budget,
        "chosen": recipe.to_json(),
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
        console.say("", f"Searched for {watcher.last.seconds:.0f} s: {watcher.last.ended}.")
        console.say(f"Chosen: {_best(watcher.last)}.")
    if output is not None:
        classifier.save(output, force=force, extra=fit_facts(used_reading, seconds))
        console.say(saved_line(output, seconds))
        document["model"] = str(output)
        document["bytes"] = folder_size(output)
        document["settings"] = classifier.settings_
    console.say("", "The same model without a search:", f"  {fit_command}")
    console.result(document)


class Watcher:
    """Print a line when a rung of a search starts; keep its last state."""

    def __init__(self, quiet: bool) -> None:
        self.quiet = quiet
        self.last: Progress | None = None

    def __call__(self, progress: Progress) -> None:
        before = self.last
        self.last = progress
        is_same_rung = before is not None and before.rung == progress.rung
        if self.quiet or progress.ended or is_same_rung:
            return
        if before is not None and before.best is not None:
            print(f"Best so far: {_best(before)}", file=sys.stderr)
        print(
            f"Rung {progress.rung} of {progress.n_rungs}: {progress.rows}",
            file=sys.stderr,
            flush=True,
        )


def _best(progress: Progress) -> str:
    """Return the measures and the settings of the best candidate so far."""
    from rembrandt.metrics.percent import percent
    from rembrandt.model.description import recipe_words

    best = progress.best
    assert best is not None
    measures = " / ".join(percent(best[name], 2, "") for name in ("p@1", "p@3", "p@5"))
    return f"{measures} at P@1/3/5 with {recipe_words(best)}"
