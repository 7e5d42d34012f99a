"""``rembrandt tune``: the best settings for labelled examples that a given time finds."""

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from rembrandt.cli import options, searching, trials
from rembrandt.cli.describing import command, data_lines, saved_line
from rembrandt.cli.opened import FIT_SECONDS, READING
from rembrandt.cli.output import check_model_target, folder_size
from rembrandt.cli.reading import Reading, read_training
from rembrandt.cli.screen import Screen
from rembrandt.errors import DataError, RembrandtError


def tune(
    train: Annotated[str, typer.Argument(metavar="TRAIN", help="A file of examples, or the name of a known data set.")],
    budget: Annotated[str, typer.Option("--budget", metavar="TIME", help="How long to search: 90s, 5m, 1h.")] = "5m",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="MODEL", help="Fit what was chosen, and save it here.")
    ] = None,
    format: options.FormatOption = None,
    text: options.TextOption = None,
    labels: options.LabelsOption = None,
    label_separator: options.SeparatorOption = None,
    analyzer: options.AnalyzerOption = None,
    ngrams: options.NGrams = None,
    hashed: options.Hashed = False,
    preset: options.PresetOption = options.Preset.balanced,
    n_components: options.Components = "auto",
    method: options.MethodOption = options.Method.rembrandt,
    decoder: Annotated[options.Decoder, typer.Option(help="The decoder, where it is known.")] = options.Decoder.auto,
    kernel: Annotated[options.Kernel, typer.Option(help="The kernel, where it is known.")] = options.Kernel.auto,
    sparse: Annotated[
        bool | None, typer.Option("--sparse/--no-sparse", help="With sparse classifiers, or without; else both.")
    ] = None,
    seed: options.Seed = 0,
    device: options.Device = "cpu",
    force: options.Force = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Search for the settings that do best on a held-out part of the examples, and say how to fit with them.

    Many candidates are tried on few examples, the best third of them on three times as many, and so on. The preset says
    how large a sparse part may be. The time is that of the search; a fit comes after it.
    """
    screen = Screen(json, quiet)
    given: dict[str, Any] = {"preset": preset.value, "method": method.value, "random_state": seed}
    given["device"] = options.checked_device(device, None, train)
    known: dict[str, Any] = {
        "n_components": options.whole_or_auto(n_components, "--n-components"),
        "decoder": decoder.value,
        "kernel": None if kernel == "none" else kernel.value,
        "sparse": "auto" if sparse is None else sparse,
    }
    wanted = options.seconds(budget, "--budget")
    vectorizer = options.text_settings(analyzer, ngrams, hashed)
    if output is not None:
        check_model_target(output, force)

    from rembrandt.estimators import RembrandtClassifier
    from rembrandt.features.text import TextFeatures
    from rembrandt.search import parameters_of

    with screen.progress() as report:
        data, reading = read_training(train, Reading.given(format, text, labels, label_separator), report)
    if vectorizer and data.texts is None:
        raise DataError("there are features in it; --analyzer, --ngrams and --hashed are for texts", train)
    screen.say(*data_lines(data, train))
    classifier = RembrandtClassifier(**given, **known, budget=wanted, text=TextFeatures(**vectorizer))
    start = time.perf_counter()
    with searching.shown(quiet) as (display, report):
        try:
            if output is None:
                found = classifier.search_dataset(data, report, display.watch).trials
            else:
                found = classifier.fit_dataset(data, report, watch=display.watch).selection_
        except ValueError as error:  # data or settings that the library refuses without knowing the file
            raise RembrandtError(f"cannot search on {train}: {error}", getattr(error, "parameters", ())) from error
    seconds = time.perf_counter() - start
    chosen = next((parameters_of(trial) for trial in found if trial["outcome"] == "chosen"), None)
    settled = {name: value for name, value in known.items() if value != "auto"} | (chosen or {})
    fitting = _command(train, output, reading, vectorizer, given, settled)
    document = {"budget": wanted, "chosen": chosen, "trials": found, "command": fitting}
    if display.progress is not None:
        p = display.progress
        document |= {"seconds": p.seconds, "ended": p.ended, "untried": p.untried}
        screen.say("")
        screen.table(trials.HEADER, map(trials.row, trials.by_quality(found)), left_too=trials.LEFT)
        never = f", and {p.untried} candidates never had their turn" if p.untried else ""
        screen.say("", f"Searched for {p.seconds:.0f} s: {p.ended}{never}.", f"{searching.best_line(p)}.")
    else:
        screen.say("There was nothing to choose: everything is given, or there are too few examples to hold any out.")
    if output is not None:
        classifier.save(output, force=force, extra={READING: reading.to_remember(), FIT_SECONDS: seconds})
        screen.say(saved_line(output, seconds))
        document |= {"model": str(output), "bytes": folder_size(output), "settings": classifier.settings_}
    screen.say("", "The same model without a search:", f"  {fitting}")
    screen.result(document)


def _command(
    train: str,
    output: Path | None,
    reading: Reading,
    vectorizer: dict[str, Any],
    given: dict[str, Any],
    settled: dict[str, Any],
) -> str:
    """What to type for the same model."""
    words = ["--format", reading.format] if reading.format else []
    words += ["--text", ",".join(reading.text)] if reading.text else []
    words += ["--labels", reading.labels] if reading.labels else []
    words += ["--label-separator", reading.label_separator] if reading.label_separator else []
    if "analyzer" in vectorizer:
        words += ["--analyzer", vectorizer["analyzer"]]
    if "ngram_range" in vectorizer:
        words += ["--ngrams", "-".join(map(str, vectorizer["ngram_range"]))]
    words += ["--hashed"] if "weighting" in vectorizer else []
    usual = {"preset": "balanced", "method": "rembrandt", "random_state": 0, "device": "cpu"}
    for name, value in given.items():
        if value != usual[name]:
            words += [f"--{'seed' if name == 'random_state' else name}", str(value)]
    return command("fit", train, "--output", output or "MODEL", *words, *trials.as_options(settled))
