"""``rembrandt update``: more examples for a saved model."""

import time
from pathlib import Path
from typing import Annotated

import typer

from rembrandt.cli import options
from rembrandt.cli.describing import choice_lines, data_lines
from rembrandt.cli.opened import open_model
from rembrandt.cli.output import check_model_target, folder_size
from rembrandt.cli.reading import Reading, read_training
from rembrandt.cli.screen import Screen, in_bytes
from rembrandt.errors import RembrandtError


def update(
    model: options.ModelFolder,
    file: Annotated[str, typer.Argument(metavar="FILE", help="More examples, as for fit; labels may be new.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="MODEL", help="The folder to write to; else the model is replaced."),
    ] = None,
    anew: Annotated[
        bool, typer.Option("--anew", help="FILE has all examples: fit to them, with the settings found before.")
    ] = False,
    format: options.FormatOption = None,
    text: options.TextOption = None,
    labels: options.LabelsOption = None,
    label_separator: options.SeparatorOption = None,
    force: options.Force = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Learn from more examples, with known labels and new ones, at the cost of these examples alone.

    The model must have been fitted with --growable. It is replaced when all is done, and not touched before. A note
    says when it is time to learn terms and the embedding --anew, from all examples.
    """
    screen = Screen(json, quiet)
    target, replaced = (model, True) if output is None else (output, force)
    check_model_target(target, replaced)
    from rembrandt.growing import check_updatable, refit_due

    given = Reading.given(format, text, labels, label_separator)
    with screen.progress() as report:
        opened = open_model(model)
        classifier, extra = opened.classifier, opened.classifier.extra_
        known = set(opened.names)
        if anew:
            data, _ = read_training(file, given.or_else(opened.reading), report)
        else:
            check_updatable(classifier.model_)  # before anything is read
            data = opened.read(file, given, report)
    screen.say(*data_lines(data, file))
    with screen.progress() as report:
        start = time.perf_counter()
        try:
            (classifier.refit_dataset if anew else classifier.update_dataset)(data, report)
        except ValueError as error:  # data that the library refuses without knowing the file
            raise RembrandtError(f"cannot learn from {file}: {error}", getattr(error, "parameters", ())) from error
        seconds = time.perf_counter() - start
        classifier.save(target, force=replaced, extra=extra)
    added = [str(name) for name in classifier.classes_ if str(name) not in known]
    seen = f"{classifier.n_train_:,} examples and knows {len(classifier.classes_):,} labels, {len(added):,} of them new"
    screen.say(
        *(choice_lines(classifier) if anew else []),
        f"The model has now seen {seen}.",
        f"Updated in {seconds:.1f} s and saved as {target} ({in_bytes(folder_size(target))}).",
    )
    screen.result(
        {
            "model": str(target),
            "seconds": seconds,
            "n_examples": data.n_examples,
            "n_train": classifier.n_train_,
            "n_labels": len(classifier.classes_),
            "added": added,
            "updates": classifier.settings_.get("updated", []),
            "refit_due": refit_due(classifier.model_),
        }
    )
