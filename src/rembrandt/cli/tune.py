"""``rembrandt tune``: search for the best settings within a given time."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rembrandt.cli import options
from rembrandt.cli.console import Console
from rembrandt.cli.describe import candidate, command, data_lines, saved_line, show_trials
from rembrandt.cli.failure import about
from rembrandt.cli.fit import check_texts
from rembrandt.cli.output import check_model_target, folder_size
from rembrandt.cli.reading import Reading, read_training
from rembrandt.cli.saved import FIT_SECONDS, READING
from rembrandt.cli.settings import Settings, TextSettings

if TYPE_CHECKING:
    from rembrandt.selection import Progress

_BUDGET = 300.0  # seconds


def tune(
    train: options.Train,
    *,
    reading: Reading,
    settings: Settings,
    texts: TextSettings,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="MODEL", help="Fit what was chosen and save it here.")
    ] = None,
    force: options.Force = False,
    console: Console,
) -> None:
    """Search for the settings that are best on held-out examples, and print the command that fits with them.

    Many candidates are tried on few examples, the best third of them on three times as many, and so on. The search
    takes 5 minutes unless --budget says otherwise.
    """
    budget = settings.budget or _BUDGET
    options.checked_device(settings.device, None, train)
    if output is not None:
        check_model_target(output, force)
    from rembrandt.estimators import RembrandtClassifier
    from rembrandt.recipe import Recipe

    with console.progress() as report:
        data, known = read_training(train, reading, report)
    check_texts(data, texts, train)
    console.say(*data_lines(data, train))
    watcher, start = Watcher(console.quiet), time.perf_counter()
    with console.progress() as report, about(f"cannot search on {train}"):
        classifier = RembrandtClassifier(**settings.parameters() | {"budget": budget}, text=texts.features())
        if output is None:
            choice = classifier.search_dataset(data, report, watcher)
            chosen, trials = choice.recipe, choice.trials
        else:
            classifier.fit_dataset(data, report, watch=watcher)
            chosen, trials = Recipe.from_json(classifier.settings_), classifier.selection_
    seconds = time.perf_counter() - start
    groups = (reading, settings.with_recipe(chosen), texts)
    words = [word for group in groups for word in options.as_words(group)]
    fitting = command("fit", train, "--output", output or "MODEL", *words)
    document = {
        "budget": budget,
        "chosen": chosen.to_json(),
        "trials": trials,
        "command": fitting,
    }
    last = watcher.last
    if last is None:
        console.say("There was nothing to choose: all settings are given, or there are too few examples.")
    else:
        document |= {"seconds": last.seconds, "ended": last.ended, "untried": last.untried}
        console.say("")
        show_trials(console, trials)
        untried = f", {last.untried} candidates were not tried" if last.untried else ""
        console.say("", f"Searched for {last.seconds:.0f} s: {last.ended}{untried}.", f"{best_line(last)}.")
    if output is not None:
        classifier.save(output, force=force, extra={READING: known.to_json(), FIT_SECONDS: seconds})
        console.say(saved_line(output, seconds))
        document |= {"model": str(output), "bytes": folder_size(output), "settings": classifier.settings_}
    console.say("", "The same model without a search:", f"  {fitting}")
    console.result(document)


class Watcher:
    """Print a line when a rung of a search starts; keep its last state."""

    def __init__(self, quiet: bool) -> None:
        self.quiet = quiet
        self.last: Progress | None = None

    def __call__(self, progress: Progress) -> None:
        before, self.last = self.last, progress
        if progress.ended is None and (before is None or before.rung != progress.rung):
            if before is not None:
                self._print(best_line(before))
            rung = f"Rung {progress.rung} of {progress.n_rungs}: {progress.rows}"
            self._print(f"{rung}, {progress.candidates} candidates")

    def _print(self, line: str) -> None:
        if not self.quiet:
            print(line, file=sys.stderr, flush=True)


def best_line(progress: Progress) -> str:
    best = progress.best
    if best is None:
        return "Nothing is measured yet"
    measures = " / ".join(f"{100 * best[name]:.2f}" for name in ("p@1", "p@3", "p@5"))
    start = "Best so far" if progress.ended is None else "Chosen"
    return f"{start}: {measures} at P@1/3/5 with {candidate(best)}"
