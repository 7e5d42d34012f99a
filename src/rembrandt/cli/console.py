"""Output of commands: sentences and tables for people, or one JSON document, on standard output."""

import json
import sys
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from rembrandt.errors import printable
from rembrandt.progress import Report, bars

_UNLIMITED_WIDTH = 1 << 20  # characters; tables wrap on terminals only


@dataclass(frozen=True)
class Console:
    """Options for the output of a command, and the output itself: text, or JSON with ``--json``."""

    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document instead of text.")
    ] = False
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False

    def progress(self) -> AbstractContextManager[Report]:
        """Show the progress of a block on standard error."""
        return bars(not self.quiet)

    def say(self, *lines: str) -> None:
        """Print lines of text, unless the output is JSON."""
        if self.json:
            return
        for line in lines:
            typer.echo(printable(line))

    def table(
        self, header: Sequence[str], rows: Iterable[Sequence[str]], left: Iterable[int] = (0,)
    ) -> None:
        """Print a table; the columns ``left`` are aligned to the left, the others to the right."""
        if self.json:
            return
        from rich.console import Console as Terminal
        from rich.table import Table

        left_columns = set(left)
        table = Table(box=None, pad_edge=False, header_style="bold")
        for column, name in enumerate(header):
            if column in left_columns:
                table.add_column(name, justify="left", overflow="fold")
            else:
                table.add_column(name, justify="right", overflow="fold")
        for row in rows:
            table.add_row(*map(printable, row))
        width = None if sys.stdout.isatty() else _UNLIMITED_WIDTH
        terminal = Terminal(markup=False, highlight=False, emoji=False, width=width)
        terminal.print(table)

    def result(self, document: Any) -> None:
        """Print a document with ``--json``: arrays become lists, and numbers that JSON cannot
        represent become null.
        """
        if not self.json:
            return
        from rembrandt.evaluation import finite

        typer.echo(json.dumps(finite(document), indent=2, allow_nan=False))
