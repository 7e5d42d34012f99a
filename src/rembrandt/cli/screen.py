"""Where results go: sentences and tables for people, or one JSON document alone, on standard output."""

import json
import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import typer

from rembrandt.progress import Report, bars

_UNLIMITED = 1 << 20  # columns; lines wrap on terminals only


@dataclass(frozen=True)
class Screen:
    """One command's output. What is said to people is left out when the answer is JSON, and the other way round."""

    json: bool = False
    quiet: bool = False

    @contextmanager
    def progress(self) -> Iterator[Report]:
        """How far the work inside is, on standard error."""
        with bars(not self.quiet) as report:
            yield report

    def say(self, *lines: str) -> None:
        if not self.json:
            for line in lines:
                typer.echo(line)

    def table(
        self, header: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1, left_too: Sequence[str] = ()
    ) -> None:
        """Columns, the first ``left`` of them and those named ``left_too`` flush left and the others flush right."""
        if self.json:
            return
        from rich.console import Console
        from rich.table import Table

        table = Table(box=None, pad_edge=False, header_style="bold")
        for i, name in enumerate(header):
            table.add_column(name, justify="left" if i < left or name in left_too else "right", overflow="fold")
        for row in rows:
            table.add_row(*row)
        width = None if sys.stdout.isatty() else _UNLIMITED
        Console(markup=False, highlight=False, emoji=False, width=width).print(table)

    def result(self, document: Any) -> None:
        if self.json:
            typer.echo(as_json(document))


def as_json(document: Any) -> str:
    """The document as text; arrays become lists, and numbers that JSON does not know become null."""
    return json.dumps(_plain(document), indent=2, allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):  # an array, or one of its elements
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def in_bytes(size: int) -> str:
    """A size as people write it."""
    amount = float(size)
    for unit in ("bytes", "kB", "MB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "bytes" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} GB"
