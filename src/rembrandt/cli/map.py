"""``rembrandt map``: the labels of a model in the plane."""

from pathlib import Path
from typing import Annotated

from rembrandt.cli import options
from rembrandt.cli.console import Console
from rembrandt.cli.output import atomic_file, check_file_target
from rembrandt.cli.saved import open_model


def map(
    model: options.ModelFolder,
    output: Annotated[list[Path], options.output_option("FILE", "A .csv, .npz or .png file; may be repeated.")],
    *,
    labels: Annotated[int | None, options.option("Only so many of the most frequent labels.", min=4)] = None,
    seed: options.Seed = 0,
    force: options.Force = False,
    console: Console,
) -> None:
    """Lay out the labels of a model in the plane, so that labels predicted together are near each other."""
    from rembrandt.explore.layout import check_installed
    from rembrandt.explore.mapping import WRITERS, label_map

    for path in output:
        check_file_target(path, force, WRITERS)
    check_installed()
    with console.progress() as report:
        found = label_map(open_model(model).classifier, labels, seed, report)
        for path in output:
            with atomic_file(path) as target:
                WRITERS[path.suffix](found, target)
    console.say(*(f"Wrote the positions of {len(found.names):,} labels to {path}." for path in output))
    console.result({"model": str(model), "n_labels": len(found.names), "outputs": [str(path) for path in output]})
