"""``rembrandt fit``: fit a model and save it."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rembrandt.cli import options
from rembrandt.cli.console import Console
from rembrandt.cli.describe import choice_lines, command, data_lines, saved_line
from rembrandt.cli.failure import about
from rembrandt.cli.options import ADVANCED, flag, option
from rembrandt.cli.output import check_model_target, folder_size
from rembrandt.cli.reading import Reading, read_training
from rembrandt.cli.saved import FIT_SECONDS, READING
from rembrandt.cli.settings import Settings, TextSettings
from rembrandt.errors import DataError

if TYPE_CHECKING:
    from rembrandt.data import Dataset


def fit(
    train: options.Train,
    output: options.NewModel,
    *,
    reading: Reading,
    settings: Settings,
    texts: TextSettings,
    shortlist: Annotated[bool, flag("--shortlist", "Build the index for predict --shortlist.", ADVANCED)] = False,
    checkpoint: Annotated[
        Path | None, option("Save completed steps here; the same command resumes.", ADVANCED, metavar="DIR")
    ] = None,
    scheduler: options.Scheduler = None,
    force: options.Force = False,
    console: Console,
) -> None:
    """Fit a model to labelled examples and save it.

    Settings that are auto come from the preset or are chosen on held-out examples.
    """
    device = options.checked_device(settings.device, scheduler, train)
    check_model_target(output, force)
    from rembrandt.estimators import RembrandtClassifier
    from rembrandt.storage.checkpoints import checkpoints_in

    with checkpoints_in(checkpoint) as checkpoints:
        with console.progress() as report:
            data, known = read_training(train, reading, report)
        check_texts(data, texts, train)
        console.say(*data_lines(data, train), *checkpoints.lines())
        with console.progress() as report:
            start = time.perf_counter()
            with about(f"cannot fit {train}"):
                given = settings.parameters() | {"device": device}
                classifier = RembrandtClassifier(**given, text=texts.features())
                classifier.fit_dataset(data, report, checkpoints)
            if shortlist:
                classifier.build_shortlist(report)
            seconds = time.perf_counter() - start
            classifier.save(output, force=force, extra={READING: known.to_json(), FIT_SECONDS: seconds})
            checkpoints.clear()
    costs = [f"The {stage} took {tally.sentence()}" for stage, tally in classifier.tallies_.items() if tally.passes]
    frequent = str(classifier.classes_[classifier.label_counts_.argmax()])
    next_steps = (("predict", output, "FILE"), ("evaluate", output, "FILE"), ("neighbors", output, frequent))
    console.say(*choice_lines(classifier), *costs, saved_line(output, seconds), "")
    console.say("Next:", *(f"  {command(*words)}" for words in next_steps))
    console.result(
        {
            "model": str(output),
            "bytes": folder_size(output),
            "seconds": seconds,
            "n_examples": data.n_examples,
            "n_features": classifier.n_features_in_,
            "n_labels": data.n_labels,
            "task": data.task,
            "notes": data.notes.sentences(),
            "settings": classifier.settings_,
            "selection": classifier.selection_,
        }
    )


def check_texts(data: "Dataset", texts: TextSettings, source: str) -> None:
    """Refuse settings of text features for data that has features already."""
    if texts.parameters() and data.texts is None:
        raise DataError("it has features, not texts", source, parameter=texts.parameters())
