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
    """Draw a bar for each stage on standard error.

    If that is not a terminal, print a line when a stage starts. If bars are not enabled, log the
    stages.
    """
    if enabled and sys.stderr.isatty():
        with _drawn() as report:
            yield report
    elif enabled:
        yield _on_start(_print_stage)
    elif logger.isEnabledFor(logging.INFO):
        yield _on_start(_log_stage)
    else:
        yield silent


def _print_stage(stage: str) -> None:
    print(f"{printable(stage)} ...", file=sys.stderr, flush=True)


def _log_stage(stage: str) -> None:
    logger.info("%s", stage)


def _on_start(announce: Callable[[str], None]) -> Report:
    """Announce each stage when it starts."""
    started: set[str] = set()

    def report(stage: str, _done: int, _total: int | None) -> None:
        if stage not in started:
            started.add(stage)
            announce(stage)

    return report


@contextmanager
def _drawn() -> Iterator[Report]:
    """Draw bars on standard error."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    progress = Progress(
        # No markup: stages contain file names, which may contain square brackets.
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
        # Otherwise rich would send what is printed to standard output to standard error.
        redirect_stdout=False,
    )
    tasks: dict[str, Any] = {}
    with progress as display:

        def report(stage: str, done: int, total: int | None) -> None:
            if stage not in tasks:
                tasks[stage] = display.add_task(printable(stage), total=total)
            display.update(tasks[stage], completed=done, total=total)

        yield report
