"""``rembrandt fit``: fit a model and save it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

from rembrandt.cli import options
from rembrandt.cli.console import Console
from rembrandt.cli.describe import choice_lines, command, data_lines, saved_line
from rembrandt.cli.failure import about
from rembrandt.cli.options import ADVANCED, flag, option
from rembrandt.cli.output import check_model_target, folder_size
from rembrandt.cli.parents import ParentOptions
from rembrandt.cli.reading import Reading, read_training
from rembrandt.cli.saved import fit_facts
from rembrandt.cli.settings import Settings, TextSettings
from rembrandt.errors import DataError, SettingsError, counted

if TYPE_CHECKING:
    from rembrandt.data import Dataset
    from rembrandt.estimators import RembrandtClassifier


def fit(
    train: options.Train,
    output: options.NewModel,
    *,
    reading: Reading,
    settings: Settings,
    texts: TextSettings,
    label_names: options.LabelNames = None,
    label_text: Annotated[
        Path | None,
        option(
            "Texts of labels as extra examples: a table of id and text.",
            options.DATA,
            metavar="FILE",
        ),
    ] = None,
    parents: ParentOptions,
    groups: Annotated[
        str | None,
        option(
            "Column of a table: its equal values are held out together.",
            options.DATA,
            metavar="COLUMN",
        ),
    ] = None,
    time: Annotated[
        str | None,
        option(
            "Column of dates or numbers: the latest are held out.", options.DATA, metavar="COLUMN"
        ),
    ] = None,
    corrections: Annotated[
        Path | None,
        option(
            "Answers of people to suggestions; they replace the labels of the same texts.",
            options.DATA,
            metavar="FILE",
        ),
    ] = None,
    shortlist: Annotated[
        bool, flag("--shortlist", "Build the index for predict --shortlist.", ADVANCED)
    ] = False,
    checkpoint: Annotated[
        Path | None,
        option("Save completed steps here; the same command resumes.", ADVANCED, metavar="DIR"),
    ] = None,
    examples: Annotated[
        int, option("First texts to save, as examples on the page of serve.", ADVANCED, min=0)
    ] = 0,
    scheduler: options.Scheduler = None,
    force: options.Force = False,
    console: Console,
) -> None:
    """Fit a model to labelled examples and save it.

    Settings that are auto come from the preset or are chosen on held-out examples.
    """
    check_model_target(output, force)
    from rembrandt.storage.checkpoints import checkpoints_in

    with checkpoints_in(checkpoint) as checkpoints:
        _check_exclusive(groups, time, label_text or corrections)
        classifier, data, used_reading = prepare(
            console, train, reading, settings, texts, scheduler, groups or time
        )
        held_out: dict[str, Any] = {}
        if groups:
            held_out["groups"] = data.ids
        elif time:
            held_out["times"] = data.ids
        if corrections is not None:
            data = corrected(console, data, corrections)
        if label_text is not None:
            data = described(console, data, label_text)
        if label_names is not None:
            data = named(console, data, label_names)
        label_parents = parents.read()
        if label_parents is not None:
            data = replace(data, label_parents=label_parents)
        console.say(*checkpoints.lines())
        with console.progress() as report:
            start = perf_counter()
            with about(f"cannot fit {train}"):
                classifier.fit_dataset(data, report, checkpoints, **held_out)
            if shortlist:
                classifier.build_shortlist(report)
            seconds = perf_counter() - start
            facts = fit_facts(used_reading, seconds)
            if corrections is not None:
                facts |= learned_facts(corrections)
            if examples:
                facts["examples"] = list((data.texts or ())[:examples])
            classifier.save(output, force=force, extra=facts)
            checkpoints.clear()
    console.say(*choice_lines(classifier), *_cost_lines(classifier))
    console.say(saved_line(output, seconds), "")
    console.say("Next:", *_next_steps(classifier, output, reading))
    document = {
        "model": str(output),
        "bytes": folder_size(output),
        "seconds": seconds,
        "task": data.task,
        "n_examples": data.n_examples,
        "n_features": classifier.n_features_in_,
        "n_labels": data.n_labels,
        "settings": classifier.settings_,
        "facts": classifier.facts_.to_json(),
        "selection": classifier.selection_,
        "notes": data.notes.sentences(),
    }
    console.result(document)


def _check_exclusive(groups: str | None, time: str | None, added: Path | None) -> None:
    """Examples that are added have neither a group nor a time, and one of the two is enough."""
    if sum(map(bool, [groups, time, added])) > 1:
        raise SettingsError(
            "only one of --groups, --time, and --label-text or --corrections can be used",
            ("groups", "time"),
        )


def _cost_lines(classifier: RembrandtClassifier) -> list[str]:
    """Return how often the stages of a fit have read data on disk."""
    lines = []
    for stage, tally in classifier.tallies_.items():
        if tally.passes:
            lines.append(f"The {stage} took {tally.sentence()}")
    return lines


def _next_steps(classifier: RembrandtClassifier, output: Path, reading: Reading) -> list[str]:
    """Return commands that use the model."""
    needed = []  # what a model does not remember
    if reading.vectors is not None:
        needed += ["--vectors", f"VECTORS{reading.vectors.suffix}"]
    if reading.encoding is not None:
        needed += ["--encoding", reading.encoding]
    most_frequent = int(classifier.label_counts_.argmax())
    label = classifier.model_.labels.title(most_frequent)
    steps = [
        command("predict", output, "FILE", *needed),
        command("evaluate", output, "FILE", *needed),
        command("neighbors", output, label),
    ]
    return [f"  {step}" for step in steps]


def corrected(console: Console, data: Dataset, file: Path) -> Dataset:
    """Return the data with the corrections of a file."""
    from rembrandt.data.corrections import with_corrections

    joined, sentence = with_corrections(data, file)
    console.say(sentence)
    return joined


def learned_facts(corrections: Path) -> dict[str, Any]:
    """Return what is kept with a model that has learned corrections: an update leaves them out."""
    from rembrandt.cli.learned import NAME, Learned
    from rembrandt.data.corrections import read_corrections

    learned = Learned()
    learned.add_answers(read_corrections(corrections))
    return {NAME: learned.to_json()}


def described(console: Console, data: Dataset, file: Path) -> Dataset:
    """Return the data with the texts of labels as examples."""
    from rembrandt.data.label_names import read_label_names
    from rembrandt.data.label_text import with_label_texts

    joined = with_label_texts(data, read_label_names(file))
    n_texts = joined.n_examples - data.n_examples
    n_new = joined.n_labels - data.n_labels
    console.say(
        f"{file} has a text for {counted(n_texts, 'label')}, {n_new:,} of them without another "
        "example."
    )
    return joined


def named(console: Console, data: Dataset, file: Path) -> Dataset:
    """Return the data with the names of its labels, before the fit starts."""
    from rembrandt.data.label_names import read_label_names
    from rembrandt.data.labels import check_titles

    names = read_label_names(file)
    n_named = check_titles(names, data.label_ids, "label_names")
    console.say(f"{file} has a name for {n_named:,} of {counted(data.n_labels, 'label')}.")
    return replace(data, label_names=names)


def prepare(
    console: Console,
    train: str,
    reading: Reading,
    settings: Settings,
    texts: TextSettings,
    scheduler: str | None,
    column: str | None = None,
) -> tuple[RembrandtClassifier, Dataset, Reading]:
    """Check the settings, then read the examples; return the classifier, the examples and how they
    were read.

    The values of ``column`` become the ids of the examples.
    """
    from rembrandt.estimators import RembrandtClassifier

    device = options.checked_device(settings.device, scheduler, train)
    text = texts.features()
    parameters = settings.parameters() | {"device": device, "text": text}
    classifier = RembrandtClassifier(**parameters)
    with console.progress() as report:
        data, used_reading = read_training(train, reading, report, column)
    for_texts = list(texts.parameters())
    if parameters["encoder"] is not None:
        for_texts.append("encoder")
    if for_texts and data.texts is None:
        raise DataError("it has features, not texts", train, parameter=for_texts)
    console.say(*data_lines(data, train))
    return classifier, data, used_reading
