"""``rembrandt add``: new labels for a saved model."""

from pathlib import Path
from typing import Annotated

import typer

from rembrandt.cli import options
from rembrandt.cli.opened import open_model
from rembrandt.cli.output import check_model_target, folder_size
from rembrandt.cli.reading import Reading
from rembrandt.cli.screen import Screen


def add(
    model: options.ModelFolder,
    file: Annotated[str, typer.Argument(metavar="FILE", help="Examples of the new labels, as for fit.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="MODEL", help="The folder to write the model to.")],
    format: options.FormatOption = None,
    text: options.TextOption = None,
    labels: options.LabelsOption = None,
    label_separator: options.SeparatorOption = None,
    force: options.Force = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Learn the labels of FILE that a model does not know, and leave the others as they are.

    The model must have been fitted with --growable.
    """
    screen = Screen(json, quiet)
    check_model_target(output, force)
    from rembrandt.growing import check_growable

    with screen.progress() as report:
        opened = open_model(model)
        check_growable(opened.classifier.model_)  # before anything is read
        data = opened.read(file, Reading.given(format, text, labels, label_separator), report)
        classifier, known = opened.classifier, len(opened.names)
        names = classifier.add_dataset(data, report)
        classifier.save(output, force=force, extra=classifier.extra_)
    screen.say(
        f"Added {len(names):,} labels from {data.n_examples:,} examples; the other {known:,} are as they were.",
        f"Saved as {output} ({folder_size(output) / 1e6:.1f} MB).",
    )
    screen.result({"model": str(output), "added": names, "n_labels": len(classifier.classes_)})
