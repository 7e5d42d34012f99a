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

ALL, REPORT = "all", "report"
Name = StrEnum("Name", [*NAMES, ALL, REPORT])  # type: ignore[misc]


def reproduce(
    name: Annotated[
        Name,
        typer.Argument(
            metavar="EXPERIMENT", help=f"One of: {', '.join(NAMES)}; all of them; or report, which runs nothing."
        ),
    ],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="DIR", help="The report's folder; an unfinished run goes on there."),
    ],
    data: Annotated[
        Path | None,
        typer.Option("--data", metavar="DIR", help="The folder of data sets; else the one that REMBRANDT_DATA names."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A part of the data and a few epochs: all in under three minutes.")
    ] = False,
    rows: Annotated[
        str | None, typer.Option("--rows", metavar="NAMES", help="Only these rows, separated by commas: RE+LR,CS+LR.")
    ] = None,
    device: options.Device = "cpu",
    merge: Annotated[
        list[Path] | None,
        typer.Option(
            "--merge", metavar="FILE", help="Take over the finished rows of another results.json; repeatable."
        ),
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Forget what the folder has of the experiment and measure it anew.")
    ] = False,
    no_report: Annotated[
        bool,
        typer.Option("--no-report", help="Measure only; `reproduce report` writes the report, there or elsewhere."),
    ] = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Run the paper's experiments again and write a report with its numbers beside ours.

    Every finished measurement is kept: after an interruption the same command goes on where it was. A folder that
    another machine began is gone on with too, and each row says where it was measured.
    """
    screen = Screen(json, quiet)
    wanted = [word.strip() for word in (rows or "").split(",") if word.strip()]
    if wanted and name.value in (ALL, REPORT):
        raise typer.BadParameter(f"name one experiment, not {name.value}, whose rows are wanted", param_hint="--rows")

    from rembrandt.engines.place import place_for
    from rembrandt.reproduce import find, report, runner
    from rembrandt.reproduce.experiment import Request

    if not no_report:
        report.check_plotting()
    chosen = {ALL: NAMES, REPORT: ()}.get(name.value, (name.value,))
    place = place_for(device).device  # refused before anything is read
    request = Request(data, quick, place)
    try:
        for file in merge or ():
            runner.merge(output, file)
        for each in chosen if fresh else ():
            runner.forget(output, each)
        for each in chosen:
            with screen.progress() as progress:
                plan = find(each).plan(request, progress)
                runner.run(find(each), plan, output, progress, lambda found: screen.say(*_lines(found)), wanted, place)
        document = runner.read_results(output / runner.RESULTS)
        written = [] if no_report else report.write(output)
    except KeyboardInterrupt:
        typer.echo(f"interrupted; what is finished is in {output}, and the same command goes on from there", err=True)
        raise typer.Exit(INTERRUPTED) from None
    for each in chosen:
        skipped = document["experiments"][each]["skipped"]
        screen.say(*(f"Not run: {each}, {step}. {why}." for step, why in skipped.items()))
    if written:
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
