"""A search as it goes: a table that is drawn again and again on a terminal, a line for each rung elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rembrandt.cli.trials import HEADER, LEFT, in_words, row
from rembrandt.progress import Report, bars, silent

if TYPE_CHECKING:
    from rembrandt.search import Progress

_SHOWN = 8  # trials, the latest


class Shown:
    """What is known of a search: where it is and, once it is over, all of it."""

    def __init__(self) -> None:
        self.progress: Progress | None = None
        self.stage = ""
        self.at = time.monotonic()  # when the search was last heard of

    def watch(self, progress: Progress) -> None:
        self.progress, self.stage, self.at = progress, "", time.monotonic()

    def report(self, stage: str, done: int, total: int | None) -> None:
        self.stage = f"{stage} {done:,}/{total:,}" if total else stage


@contextmanager
def shown(quiet: bool) -> Iterator[tuple[Shown, Report]]:
    """Show what the search and the fit inside report, on standard error."""
    if quiet:
        yield Shown(), silent
    elif sys.stderr.isatty():
        with _drawn() as display:
            yield display, display.report
    else:
        with bars() as report:
            yield _Written(), report


class _Written(Shown):
    """A line where a rung begins and where it ends."""

    def watch(self, progress: Progress) -> None:
        before, self.progress = self.progress, progress
        if progress.ended is not None:
            print(f"The search is over: {progress.ended}", file=sys.stderr, flush=True)
        elif before is None or before.rung != progress.rung:
            line = f"{rung_line(progress)}, {progress.candidates} candidates"
            print(line if before is None else f"{best_line(before)}\n{line}", file=sys.stderr, flush=True)


@contextmanager
def _drawn() -> Iterator[Shown]:
    from rich.console import Console, Group
    from rich.live import Live
    from rich.text import Text

    display = Shown()

    def picture() -> Any:
        p = display.progress
        if p is None:
            return Text(display.stage)
        seconds = p.seconds + (time.monotonic() - display.at if p.ended is None else 0.0)
        clock = f"{seconds:.0f} s, {max(0.0, p.budget - seconds):.0f} s left"
        lines = [f"{rung_line(p)}, {p.tried} of {p.candidates} candidates; {clock}", best_line(p)]
        return Group(*map(Text, lines), table(p.trials[-_SHOWN:]), Text(display.stage))

    # Standard output is left alone: rich would send what is printed meanwhile to standard error.
    console = Console(stderr=True)
    with Live(console=console, get_renderable=picture, transient=True, redirect_stdout=False, refresh_per_second=4):
        yield display


def table(trials: list[dict[str, Any]]) -> Any:
    """Trials as rich draws them."""
    from rich.table import Table

    drawn = Table(box=None, pad_edge=False, header_style="bold")
    for name in HEADER:
        drawn.add_column(name, justify="left" if name in LEFT else "right", overflow="fold")
    for trial in trials:
        drawn.add_row(*row(trial))
    return drawn


def rung_line(progress: Progress) -> str:
    return f"Rung {progress.rung} of {progress.n_rungs}: {progress.rows}"


def best_line(progress: Progress) -> str:
    best = progress.best
    if best is None:
        return "Nothing is measured yet"
    measures = " / ".join(f"{100 * best[name]:.2f}" for name in ("p@1", "p@3", "p@5"))
    begin = "Best so far" if progress.ended is None else "Chosen"
    return f"{begin}: {measures} at P@1/3/5 with {in_words(best)}"
