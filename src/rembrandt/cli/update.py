"""``rembrandt update``: more examples and labels for a saved model."""

import time
from pathlib import Path
from typing import Annotated

from rembrandt.cli import options
from rembrandt.cli.console import Console
from rembrandt.cli.describe import choice_lines, data_lines, saved_line
from rembrandt.cli.failure import about
from rembrandt.cli.options import flag, option
from rembrandt.cli.output import check_model_target
from rembrandt.cli.reading import Reading, read_training
from rembrandt.cli.saved import open_model
from rembrandt.errors import SettingsError, counted


def update(
    model: options.ModelFolder,
    file: Annotated[str, options.argument("FILE", "More examples, as for fit; labels may be new.")],
    *,
    reading: Reading,
    output: Annotated[
        Path | None,
        options.output_option("MODEL", "Folder to write to; without it the model is replaced."),
    ] = None,
    history: Annotated[
        str | None,
        option(
            "The examples so far, for the trees: the old file or a store.", metavar="FILE|STORE"
        ),
    ] = None,
    refit: Annotated[
        bool, flag("--refit", "FILE has all examples: fit to them with the model's settings.")
    ] = False,
    force: options.Force = False,
    console: Console,
) -> None:
    """Update a model with more examples, of known and of new labels.

    Without the old examples the cost depends on the new ones alone, and trees learn the new labels
    only. With --history the nodes of trees that get new examples are fitted again. The output says
    what was left as it was. The model is replaced when the update is complete. A note says when it
    is time for --refit, which learns everything again.
    """
    target = output or model
    may_replace = output is None or force
    check_model_target(target, may_replace)
    if refit and history is not None:
        raise SettingsError(
            "--refit has all examples in FILE, and --history the old ones; give one of the two"
        )
    from rembrandt.updating import refit_due

    with console.progress() as report:
        saved = open_model(model)
        classifier = saved.classifier
        extra = classifier.extra_
        old_labels = set(map(str, saved.labels.names))
        if refit:
            data, _ = read_training(file, saved.reading.overridden_by(reading), report)
        else:
            data = saved.read(file, reading, report)
        old_data = None
        if history is not None:
            old_data = saved.read(history, reading, report)
    console.say(*data_lines(data, file))
    with console.progress() as report:
        start = time.perf_counter()
        with about(f"cannot learn from {file}"):
            if refit:
                classifier.fit_dataset(data, report, settings=classifier.model_.settings)
            else:
                classifier.update_dataset(data, report, old_data)
        seconds = time.perf_counter() - start
        classifier.save(target, force=may_replace, extra=extra)
    added = [name for name in map(str, classifier.classes_) if name not in old_labels]
    n_train = classifier.n_train_
    n_labels = len(classifier.classes_)
    updates = classifier.facts_.to_json()["updates"]
    missed = []  # what the update could not learn
    if refit:
        console.say(*choice_lines(classifier))
    else:
        missed = updates[-1]["missed"]
    examples = counted(n_train, "example")
    labels = counted(n_labels, "label")
    console.say(f"The model has now seen {examples} and has {labels}, {len(added):,} of them new.")
    if not refit and classifier.facts_.updates[-1].words:
        console.say(classifier.facts_.updates[-1].words)
    for sentence in missed:
        console.say(f"Not learned: {sentence}.")
    console.say(saved_line(target, seconds, "Updated"))
    document = {
        "model": str(target),
        "seconds": seconds,
        "n_examples": data.n_examples,
        "n_train": n_train,
        "n_labels": n_labels,
        "added": added,
        "updates": updates,
        "missed": missed,
        "refit_due": refit_due(classifier.model_),
    }
    console.result(document)
