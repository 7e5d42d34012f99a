"""``rembrandt map``: the labels of a model in the plane."""

from pathlib import Path
from typing import Annotated

import typer

from rembrandt.cli import options
from rembrandt.cli.opened import open_model
from rembrandt.cli.output import check_file_target
from rembrandt.cli.screen import Screen
from rembrandt.storage.atomic import atomic_file


def map(
    model: options.ModelFolder,
    output: Annotated[
        list[Path],
        typer.Option(
            "--output", "-o", metavar="FILE", help="A .csv, .npz, .arrow or .png file; repeat it for several."
        ),
    ],
    labels: Annotated[
        int | None, typer.Option("--labels", min=4, help="Place the most frequent labels only; all if not given.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="The same seed gives the same map.")] = 0,
    force: options.Force = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Lay a model's labels out in the plane, those that it predicts together near each other."""
    from rembrandt.explore.layout import check_installed
    from rembrandt.explore.mapping import WRITERS, label_map

    for path in output:
        if path.suffix not in WRITERS:
            raise typer.BadParameter(f"{path} is none of {', '.join(WRITERS)}", param_hint="--output")
        check_file_target(path, force)
    check_installed()
    screen = Screen(json, quiet)
    with screen.progress() as report:
        classifier = open_model(model).classifier
        placed = label_map(classifier, labels, seed, report)
        for path in output:
            with atomic_file(path) as target:
                WRITERS[path.suffix](placed, target)
    screen.say(*(f"Wrote the places of {len(placed.names):,} labels to {path}." for path in output))
    screen.result({"model": str(model), "n_labels": len(placed.names), "outputs": [str(path) for path in output]})
