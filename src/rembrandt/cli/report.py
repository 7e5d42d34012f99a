"""``rembrandt report``: a model and its test in one page."""

from pathlib import Path
from typing import Annotated

import typer

from rembrandt.cli import options
from rembrandt.cli.opened import open_model
from rembrandt.cli.output import check_file_target
from rembrandt.cli.reading import Reading
from rembrandt.cli.screen import Screen, in_bytes
from rembrandt.storage.atomic import atomic_file


def report(
    model: options.ModelFolder,
    file: Annotated[str, typer.Argument(metavar="TEST", help="Labelled examples that the model has not seen.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The page to write, such as report.html.")
    ],
    title: Annotated[str | None, typer.Option("--title", help="The page's title; else the model's name.")] = None,
    draw_map: Annotated[
        bool, typer.Option("--map/--no-map", help="Draw the map of labels; it takes the longest.")
    ] = True,
    seed: Annotated[int, typer.Option("--seed", min=0, help="The same seed gives the same intervals and map.")] = 0,
    format: options.FormatOption = None,
    text: options.TextOption = None,
    labels: options.LabelsOption = None,
    label_separator: options.SeparatorOption = None,
    force: options.Force = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Write a page that shows what a model does well and badly, and why; it needs no network.

    Examples that are shown, with their texts, are part of the page.
    """
    check_file_target(output, force)
    from rembrandt.explore.layout import check_installed
    from rembrandt.explore.report import gather, render

    if draw_map:
        check_installed()
    screen = Screen(json, quiet)
    with screen.progress() as progress:
        opened = open_model(model)
        data = opened.read(file, Reading.given(format, text, labels, label_separator), progress)
        name = title or model.resolve().name
        contents = gather(opened.classifier, data, name, draw_map, seed, progress)
        page = render(contents).encode()
    with atomic_file(output) as target:
        target.write(page)
    screen.say(f"Wrote {output} ({in_bytes(len(page))}); open it in a browser.")
    kept = ("metrics", "calibration", "deciles", "spectrum", "labels", "timings")
    screen.result(
        {"model": str(model), "file": file, "output": str(output), "bytes": len(page)}
        | {part: contents[part] for part in kept}
    )
