"""``rembrandt update``: more examples and labels for a saved model."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rembrandt.cli import options
from rembrandt.cli.console import Console
from rembrandt.cli.describe import choice_lines, data_lines, saved_line
from rembrandt.cli.failure import about
from rembrandt.cli.learned import NAME, Learned, are_answers, new_examples
from rembrandt.cli.options import flag, option
from rembrandt.cli.output import check_model_target
from rembrandt.cli.reading import Reading, read_training
from rembrandt.cli.saved import open_model
from rembrandt.errors import SettingsError, counted

if TYPE_CHECKING:
    from rembrandt.model.facts import UpdateFacts


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
    again: Annotated[
        bool, flag("--again", "Learn examples again that an update has learned before.")
    ] = False,
    force: options.Force = False,
    console: Console,
) -> None:
    """Update a model with more examples, of known and of new labels.

    Without the old examples the cost depends on the new ones alone, and trees learn the new labels
    only. With --history the nodes of trees that get new examples are fitted again. The output says
    what was left as it was. The answers of a file of corrections are learned once, however often
    the file is given, and so is a file of other examples. The model is replaced when the update is
    complete. A note says when it is time for --refit, which learns everything again.
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
        learned = Learned.of(classifier.extra_)
        old_labels = set(map(str, saved.labels.names))
        if refit:
            data, _ = read_training(file, saved.reading.overridden_by(reading), report)
        else:
            data = saved.read(file, reading, report)
        old_data = None
        if history is not None:
            old_data = saved.read(history, reading, report)
    console.say(*data_lines(data, file))
    n_read = data.n_examples
    if refit:
        learned = Learned()  # what the model has not seen any more can be learned
    with about(f"cannot learn from {file}"):
        new = new_examples(data, file, are_answers(file, reading.format), learned)
    if not again and not refit:
        console.say(*new.sentences)
        data = new.data
    extra = classifier.extra_ | {NAME: new.after.to_json()}
    with console.progress() as report:
        start = time.perf_counter()
        with about(f"cannot learn from {file}"):
            if refit:
                classifier.fit_dataset(data, report, settings=classifier.model_.settings)
            elif data.n_examples:
                classifier.update_dataset(data, report, old_data)
        seconds = time.perf_counter() - start
        classifier.save(target, force=may_replace, extra=extra)
    added = [name for name in map(str, classifier.classes_) if name not in old_labels]
    n_train = classifier.n_train_
    n_labels = len(classifier.classes_)
    updates = classifier.facts_.to_json()["updates"]
    missed = []  # what the update could not learn
    has_updated = not refit and data.n_examples > 0
    if refit:
        console.say(*choice_lines(classifier))
    if has_updated:
        missed = updates[-1]["missed"]
    sizes = f"seen {counted(n_train, 'example')} and has {counted(n_labels, 'label')}"
    console.say(f"The model has now {sizes}, {len(added):,} of them new.")
    if has_updated:
        console.say(*_update_lines(classifier.facts_.updates[-1]))
    elif not refit:
        console.say("There was nothing to learn; --again learns the examples once more.")
    console.say(saved_line(target, seconds, "Updated"))
    document = {
        "model": str(target),
        "seconds": seconds,
        "n_examples": data.n_examples,
        "left_out": n_read - data.n_examples,
        "n_train": n_train,
        "n_labels": n_labels,
        "added": added,
        "updates": updates,
        "missed": missed,
        "refit_due": refit_due(classifier.model_),
    }
    console.result(document)


def _update_lines(facts: UpdateFacts) -> list[str]:
    """Return what is known about the words of an update, and what was not learned."""
    lines = []
    if facts.words:
        lines.append(facts.words)
    lines += [f"Not learned: {sentence}." for sentence in facts.missed]
    return lines
