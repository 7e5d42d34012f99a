"""How long work reports where it is.

Long functions take ``report: Report = silent`` and call ``report(stage, done, total)`` as they go
(``total=None`` when it is not known). The library is silent; the command line draws bars.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Report = Callable[[str, int, int | None], None]


def silent(stage: str, done: int, total: int | None) -> None:
    """Report nothing."""


@contextmanager
def bars(enabled: bool = True) -> Iterator[Report]:
    """Draw a bar for each stage on standard error; where that is no terminal, write a line when a stage begins."""
    if not enabled:
        yield silent
    elif sys.stderr.isatty():
        with _drawn() as report:
            yield report
    else:
        yield _written()


def _written() -> Report:
    begun: set[str] = set()

    def report(stage: str, done: int, total: int | None) -> None:
        if stage not in begun:
            begun.add(stage)
            print(f"{stage} ...", file=sys.stderr, flush=True)

    return report


@contextmanager
def _drawn() -> Iterator[Report]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    # Stages name files, so square brackets in them are not mark-up.
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    tasks: dict[str, Any] = {}
    # Standard output is left alone: rich would send what is printed meanwhile to standard error.
    with Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False) as display:

        def report(stage: str, done: int, total: int | None) -> None:
            if stage not in tasks:
                tasks[stage] = display.add_task(stage, total=total)
            display.update(tasks[stage], completed=done, total=total)

        yield report
