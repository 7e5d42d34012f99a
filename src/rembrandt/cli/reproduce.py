"""``rembrandt reproduce``: the paper's experiments, run again."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rembrandt.cli import options
from rembrandt.cli.failure import INTERRUPTED
from rembrandt.cli.screen import Screen
from rembrandt.reproduce import NAMES

if TYPE_CHECKING:
    from rembrandt.reproduce.experiment import Row

Name = StrEnum("Name", list(NAMES))  # type: ignore[misc]


def reproduce(
    name: Annotated[Name, typer.Argument(metavar="EXPERIMENT", help=f"One of: {', '.join(NAMES)}.")],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="DIR", help="The report's folder; an unfinished run goes on there."),
    ],
    data: Annotated[
        Path | None,
        typer.Option("--data", metavar="DIR", help="The folder of data sets; else the one that REMBRANDT_DATA names."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A part of the data and a few epochs: under a minute.")
    ] = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Run an experiment of the paper again and write a report with its numbers beside ours.

    Every finished measurement is kept: after an interruption the same command goes on where it was.
    """
    screen = Screen(json, quiet)

    from rembrandt.reproduce import find, report, runner

    report.check_plotting()
    about = find(name.value)
    try:
        with screen.progress() as progress:
            plan = about.plan(data, quick, progress)
            document = runner.run(about, plan, output, progress, lambda rows: screen.say(*_lines(rows)))
        written = report.write(output)
    except KeyboardInterrupt:
        typer.echo(f"interrupted; what is finished is in {output}, and the same command goes on from there", err=True)
        raise typer.Exit(INTERRUPTED) from None
    skipped = document["experiments"][name.value]["skipped"]
    screen.say(*(f"Not run: {step}. {why}." for step, why in skipped.items()))
    screen.say(f"The report is {written[0]}, with {len(written) - 1} figures.")
    screen.result(document)


def _lines(rows: list[Row]) -> list[str]:
    """What was measured, where one line is enough to say it."""
    if len(rows) > 5:
        return []
    return [
        f"{row.system}, {row.metric}"
        + (f" at {row.at:g}" if row.at is not None else "")
        + f": {row.value:.6g}"
        + (f" (paper: {row.paper:g})" if row.paper is not None else "")
        for row in rows
    ]
