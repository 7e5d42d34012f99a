"""Progress of long work.

Long functions take ``report: Report = silent`` and call ``report(stage, done, total)`` as they go,
with ``total=None`` if it is not known. The library logs stages by default, under the name
``rembrandt``; the command line draws bars.
"""

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rembrandt.errors import printable

logger = logging.getLogger("rembrandt")
logger.addHandler(logging.NullHandler())

Report = Callable[[str, int, int | None], None]


def silent(stage: str, done: int, total: int | None) -> None:
    """Report nothing."""


@contextmanager
def bars(enabled: bool = True) -> Iterator[Report]:
    """Draw a bar for each stage on standard error; if that is not a terminal, print a line when a
    stage starts.
    """
    if not enabled:
        yield (
            _on_start(lambda stage: logger.info("%s", stage))
            if logger.isEnabledFor(logging.INFO)
            else silent
        )
    elif sys.stderr.isatty():
        with _drawn() as report:
            yield report
    else:
        yield _on_start(lambda stage: print(f"{printable(stage)} ...", file=sys.stderr, flush=True))


def _on_start(say: Callable[[str], None]) -> Report:
    """Say the name of each stage when it starts."""
    started: set[str] = set()

    def report(stage: str, done: int, total: int | None) -> None:
        if stage not in started:
            started.add(stage)
            say(stage)

    return report


@contextmanager
def _drawn() -> Iterator[Report]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    # No markup: stages contain file names, which may contain square brackets.
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
    )
    tasks: dict[str, Any] = {}
    # Without redirection, because rich would send what is printed to standard output to standard
    # error.
    with Progress(
        *columns, console=Console(stderr=True), transient=True, redirect_stdout=False
    ) as display:

        def report(stage: str, done: int, total: int | None) -> None:
            if stage not in tasks:
                tasks[stage] = display.add_task(printable(stage), total=total)
            display.update(tasks[stage], completed=done, total=total)

        yield report
