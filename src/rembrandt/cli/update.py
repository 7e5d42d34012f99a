"""``rembrandt update``: more examples for a saved model."""

import time
from pathlib import Path
from typing import Annotated

import typer

from rembrandt.cli import options
from rembrandt.cli.describing import data_lines
from rembrandt.cli.opened import open_model
from rembrandt.cli.output import check_model_target, folder_size
from rembrandt.cli.reading import Reading
from rembrandt.cli.screen import Screen, in_bytes
from rembrandt.errors import RembrandtError


def update(
    model: options.ModelFolder,
    file: Annotated[str, typer.Argument(metavar="FILE", help="More examples, as for fit; labels may be new.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="MODEL", help="The folder to write to; else the model is replaced."),
    ] = None,
    format: options.FormatOption = None,
    text: options.TextOption = None,
    labels: options.LabelsOption = None,
    label_separator: options.SeparatorOption = None,
    force: options.Force = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Learn from more examples, with known labels and new ones, at the cost of these examples alone.

    The model must have been fitted with --growable. It is replaced when all is done, and not touched before.
    """
    screen = Screen(json, quiet)
    target = model if output is None else output
    check_model_target(target, force or output is None)
    from rembrandt.growing import check_updatable, refit_due

    with screen.progress() as report:
        opened = open_model(model)
        classifier = opened.classifier
        check_updatable(classifier.model_)  # before anything is read
        known = len(classifier.classes_)
        data = opened.read(file, Reading.given(format, text, labels, label_separator), report)
    screen.say(*data_lines(data, file))
    with screen.progress() as report:
        start = time.perf_counter()
        try:
            classifier.update_dataset(data, report)
        except ValueError as error:  # data that the library refuses without knowing the file
            raise RembrandtError(f"cannot learn from {file}: {error}") from error
        seconds = time.perf_counter() - start
        classifier.save(target, force=force or output is None, extra=classifier.extra_)
    latest = classifier.settings_["updated"][-1]
    screen.say(
        f"The model has now seen {classifier.n_train_:,} examples and knows {len(classifier.classes_):,} labels, "
        f"{latest['n_labels']:,} of them new.",
        f"Updated in {seconds:.1f} s and saved as {target} ({in_bytes(folder_size(target))}).",
    )
    screen.result(
        {
            "model": str(target),
            "seconds": seconds,
            "n_examples": data.n_examples,
            "n_train": classifier.n_train_,
            "n_labels": len(classifier.classes_),
            "added": classifier.classes_[known:],
            "outside": latest["outside"],
            "refit_due": refit_due(classifier.model_),
        }
    )
