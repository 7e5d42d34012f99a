"""``rembrandt report``: a model and its evaluation on one page."""

from typing import Annotated

from rembrandt.cli import options
from rembrandt.cli.console import Console
from rembrandt.cli.output import atomic_file, check_file_target, decimal
from rembrandt.cli.reading import Reading
from rembrandt.cli.saved import open_model


def report(
    model: options.ModelFolder,
    file: Annotated[str, options.argument("TEST", "Labelled examples that were not used for training.")],
    output: options.NewFile,
    *,
    reading: Reading,
    title: Annotated[str | None, options.option("Title of the page; else the name of the model.")] = None,
    no_map: Annotated[bool, options.flag("--no-map", "Leave out the map of labels, which takes longest.")] = False,
    seed: options.Seed = 0,
    force: options.Force = False,
    console: Console,
) -> None:
    """Write an HTML page on what a model does well and badly, and why. It needs no network.

    The page contains some of the examples with their texts.
    """
    check_file_target(output, force)
    from rembrandt.explore.layout import check_installed
    from rembrandt.explore.report import gather, render

    if not no_map:
        check_installed()
    with console.progress() as progress:
        saved = open_model(model)
        data = saved.read(file, reading, progress)
        contents = gather(saved.classifier, data, title or model.resolve().name, not no_map, seed, progress)
        page = render(contents).encode()
    with atomic_file(output) as target:
        target.write(page)
    console.say(f"Wrote {output} ({decimal(len(page))}); open it in a browser.")
    kept = ("metrics", "calibration", "deciles", "spectrum", "labels")
    facts = {"model": str(model), "file": file, "output": str(output), "bytes": len(page)}
    console.result(facts | {part: contents[part] for part in kept})
