"""How long work reports where it is.

Long functions take ``report: Report = silent`` and call ``report(stage, done, total)`` as they go
(``total=None`` when it is not known). The library is silent; the command line draws bars.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Report = Callable[[str, int, int | None], None]


def silent(stage: str, done: int, total: int | None) -> None:
    """Report nothing."""


@contextmanager
def bars(enabled: bool = True) -> Iterator[Report]:
    """Draw one bar per stage on standard error; plain text when it is not a terminal is left out."""
    if not enabled:
        yield silent
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    tasks: dict[str, Any] = {}
    with Progress(*columns, console=Console(stderr=True)) as display:

        def report(stage: str, done: int, total: int | None) -> None:
            if stage not in tasks:
                tasks[stage] = display.add_task(stage, total=total)
            display.update(tasks[stage], completed=done, total=total)

        yield report
