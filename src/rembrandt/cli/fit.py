"""``rembrandt fit``: examples to a saved model."""

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from rembrandt.cli import options
from rembrandt.cli.describing import choice_lines, command, data_lines, saved_line
from rembrandt.cli.opened import FIT_SECONDS, READING
from rembrandt.cli.output import check_model_target, folder_size
from rembrandt.cli.reading import Reading, read_training
from rembrandt.cli.screen import Screen
from rembrandt.errors import DataError, RembrandtError


def fit(
    train: Annotated[str, typer.Argument(metavar="TRAIN", help="A file of examples, or the name of a known data set.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="MODEL", help="The folder to write the model to.")],
    format: options.FormatOption = None,
    text: options.TextOption = None,
    labels: options.LabelsOption = None,
    label_separator: options.SeparatorOption = None,
    analyzer: options.AnalyzerOption = None,
    ngrams: options.NGrams = None,
    hashed: options.Hashed = False,
    preset: options.PresetOption = options.Preset.balanced,
    budget: options.Budget = None,
    n_components: options.Components = "auto",
    method: options.MethodOption = options.Method.rembrandt,
    ridge: Annotated[
        float | None, typer.Option(min=0.0, help="Strength of the regression on the features; 1 when not given.")
    ] = None,
    decoder: Annotated[
        options.Decoder, typer.Option(help="How labels are found from the embedding.")
    ] = options.Decoder.auto,
    kernel: Annotated[options.Kernel, typer.Option(help="The kernel that the decoder works in.")] = options.Kernel.auto,
    kernel_scale: Annotated[
        float | None, typer.Option(min=1e-6, help="The kernel's bandwidth, in median distances between examples.")
    ] = None,
    decoder_ridge: Annotated[str, typer.Option(metavar="R|auto", help="Strength of the decoder's penalty.")] = "auto",
    normalize: Annotated[options.YesNo, typer.Option(help="Scale examples to length one.")] = options.YesNo.auto,
    n_random_features: Annotated[
        int | None, typer.Option(min=1, help="Random features that stand for the kernel.")
    ] = None,
    leave_out: Annotated[
        float | None, typer.Option(min=0.0, max=1.0, help="Part of an example's own labels that no decoder sees.")
    ] = None,
    sparse: Annotated[
        bool | None,
        typer.Option(
            "--sparse/--no-sparse", help="Add sparse classifiers of every label, for rare ones; else the preset says."
        ),
    ] = None,
    sparse_trees: Annotated[int | None, typer.Option(min=1, help="Trees of sparse classifiers.")] = None,
    sparse_pairs: Annotated[
        float | None, typer.Option(min=1.0, help="Pairs of an example and a node that a tree's first level may take.")
    ] = None,
    sparse_cost: Annotated[float | None, typer.Option(min=1e-9, help="How near to the training examples.")] = None,
    sparse_power: Annotated[float | None, typer.Option(min=1e-9, help="Of the hinge, in a probability.")] = None,
    sparse_share: Annotated[
        float | None, typer.Option(min=0.0, max=1.0, help="Of the sparse part in the score; at 1 it answers alone.")
    ] = None,
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="Learn on held-out examples how likely scores are right.")
    ] = False,
    threshold: Annotated[
        str, typer.Option(metavar="P|micro|macro", help="Probability from which predict of the library gives a label.")
    ] = "0.5",
    growable: Annotated[
        bool,
        typer.Option("--growable", help="Keep what update and add need to learn from more examples or labels later."),
    ] = False,
    shortlist: Annotated[
        bool, typer.Option("--shortlist", help="Cluster the labels, so that --shortlist of predict starts at once.")
    ] = False,
    n_iter: options.PowerIterations = 1,
    seed: options.Seed = 0,
    device: options.Device = "cpu",
    scheduler: options.Scheduler = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Keep what is done here; the same command goes on after it was stopped."),
    ] = None,
    force: options.Force = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Fit a model to labelled examples and save it.

    Whatever is auto is chosen on a held-out part of the examples, except where the preset has a value for it.
    """
    screen = Screen(json, quiet)
    settings: dict[str, Any] = {
        "preset": preset.value,
        "budget": None if budget is None else options.seconds(budget, "--budget"),
        "n_components": options.whole_or_auto(n_components, "--n-components"),
        "method": method.value,
        "decoder": decoder.value,
        "kernel": None if kernel == "none" else kernel.value,
        "decoder_ridge": options.number_or_auto(decoder_ridge, "--decoder-ridge"),
        "normalize": {"auto": "auto", "yes": True, "no": False}[normalize],
        "growable": growable,
        "calibrate": calibrate,
        "threshold": options.threshold(threshold, "--threshold"),
        "n_iter": n_iter,
        "random_state": seed,
        "device": options.checked_device(device, scheduler, train),
    }
    given = {
        "ridge": ridge,
        "kernel_scale": kernel_scale,
        "n_random_features": n_random_features,
        "leave_out": leave_out,
        "sparse": sparse,
        "sparse_trees": sparse_trees,
        "sparse_pairs": sparse_pairs,
        "sparse_cost": sparse_cost,
        "sparse_power": sparse_power,
        "sparse_share": sparse_share,
    }
    settings |= {name: value for name, value in given.items() if value is not None}
    vectorizer = options.text_settings(analyzer, ngrams, hashed)
    check_model_target(output, force)

    from rembrandt.checkpoints import checkpoints_in
    from rembrandt.estimators import RembrandtClassifier
    from rembrandt.features.text import TextFeatures

    with checkpoints_in(checkpoint) as checkpoints:
        with screen.progress() as report:
            data, reading = read_training(train, Reading.given(format, text, labels, label_separator), report)
        if vectorizer and data.texts is None:
            raise DataError("there are features in it; --analyzer, --ngrams and --hashed are for texts", train)
        screen.say(*data_lines(data, train), *checkpoints.lines())
        with screen.progress() as report:
            start = time.perf_counter()
            try:
                classifier = RembrandtClassifier(**settings, text=TextFeatures(**vectorizer))
                classifier.fit_dataset(data, report, checkpoints)
            except ValueError as error:  # data or settings that the library refuses without knowing the file
                raise RembrandtError(f"cannot fit {train}: {error}", getattr(error, "parameters", ())) from error
            if shortlist:
                classifier.make_shortlist(report)
            seconds = time.perf_counter() - start
            classifier.save(output, force=force, extra={READING: reading.to_remember(), FIT_SECONDS: seconds})
            checkpoints.clear()
    costs = [f"The {stage} took {tally.sentence()}" for stage, tally in classifier.tallies_.items() if tally.passes]
    screen.say(*choice_lines(classifier), *costs)
    screen.say(saved_line(output, seconds), "")
    screen.say(
        "Use it:",
        f"  {command('predict', output, 'FILE')}",
        f"  {command('evaluate', output, 'FILE')}",
        f"  {command('neighbors', output, str(classifier.classes_[classifier.label_counts_.argmax()]))}",
    )
    screen.result(
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
            "blends": classifier.blends_,
        }
    )
