"""``rembrandt evaluate``: how good a model is on labelled examples."""

from typing import Annotated

import typer

from rembrandt.cli import measuring, options
from rembrandt.cli.describing import data_lines
from rembrandt.cli.opened import open_model
from rembrandt.cli.reading import Reading
from rembrandt.cli.screen import Screen


def evaluate(
    model: options.ModelFolder,
    file: Annotated[str, typer.Argument(metavar="FILE", help="Labelled examples, as for fit; - is standard input.")],
    format: options.FormatOption = None,
    text: options.TextOption = None,
    labels: options.LabelsOption = None,
    label_separator: options.SeparatorOption = None,
    tail: options.Tail = False,
    shortlist: options.Shortlist = "all",
    propensity_a: options.PropensityA = 0.55,
    propensity_b: options.PropensityB = 1.5,
    by_frequency: Annotated[
        bool, typer.Option("--by-frequency", help="Add the recall of common to rare labels.")
    ] = False,
    device: options.Device = "cpu",
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Measure a model on labelled examples, beside always predicting the most popular labels.

    The file is read as the training data was; an option says otherwise.
    """
    from rembrandt.evaluation import measure

    screen = Screen(json, quiet)
    looked_at = options.shortlist(shortlist)
    with screen.progress() as report:
        opened = open_model(model, device)
        data = opened.read(file, Reading.given(format, text, labels, label_separator), report)
        measured = measure(opened.classifier, data, report, propensity_a, propensity_b, tail, looked_at)
    screen.say(*data_lines(data, file))
    unseen = measured.data.notes
    if unseen.unseen_labels:
        screen.say(
            f"{unseen.unseen_labels:,} labels never occurred in training; the {unseen.unseen_label_uses:,} times that "
            "they are true count against the model."
        )
    screen.say("")
    measuring.show(screen, measured)
    if by_frequency:
        screen.say("")
        measuring.show_deciles(screen, measured.deciles)
    document = {"model": str(model), "file": file, "tail": tail, **measured.document()}
    screen.result(document | ({"deciles": measured.decile_documents()} if by_frequency else {}))
