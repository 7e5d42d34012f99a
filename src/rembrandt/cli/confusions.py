"""``rembrandt confusions``: pairs of labels that a model mixes up."""

from typing import Annotated

import typer

from rembrandt.cli import options
from rembrandt.cli.opened import open_model
from rembrandt.cli.reading import Reading
from rembrandt.cli.screen import Screen

_SHOWN = 100  # characters of an example


def confusions(
    model: options.ModelFolder,
    file: Annotated[str, typer.Argument(metavar="FILE", help="Labelled examples, as for fit; - is standard input.")],
    top_k: Annotated[
        int | None,
        typer.Option("--top-k", "-k", min=1, help="Predictions looked at; if not given, 1 of classes and 5 of labels."),
    ] = None,
    pairs: Annotated[int, typer.Option("--pairs", min=1, help="How many pairs.")] = 20,
    examples: Annotated[int, typer.Option("--examples", min=0, help="Examples of each pair.")] = 1,
    format: options.FormatOption = None,
    text: options.TextOption = None,
    labels: options.LabelsOption = None,
    label_separator: options.SeparatorOption = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Print pairs of labels that are mixed up: one was true and missed, the other predicted and wrong.

    Pairs come in the order of how far they exceed chance.
    """
    from rembrandt.explore.confusions import confusions as find_confusions

    screen = Screen(json, quiet)
    with screen.progress() as report:
        opened = open_model(model)
        data = opened.read(file, Reading.given(format, text, labels, label_separator), report)
        known = data.align_labels(opened.names)
        k = top_k or (1 if opened.classifier.model_.multiclass else 5)
        ranked = opened.classifier.model_.top_k(opened.features(known, report), k, report=report)[0]
        found = find_confusions(known.Y, ranked, pairs, examples)
    screen.say(f"{known.n_examples:,} examples, {k} predictions for each.", "")
    screen.table(
        ["true and missed", "predicted instead", "times", "of its examples", "the other way"],
        (
            [opened.shown(c.true), opened.shown(c.predicted), f"{c.count:,}", f"{c.rate:.0%}", f"{c.reverse:,}"]
            for c in found
        ),
        left=2,
    )
    texts = known.texts
    if texts is not None and examples:
        for c in found:
            screen.say("", f"{opened.shown(c.true)}, taken for {opened.shown(c.predicted)}:")
            screen.say(*(f"  {texts[row][:_SHOWN]}" for row in c.examples))
    screen.result(
        {
            "model": str(model),
            "file": file,
            "top_k": k,
            "confusions": [
                {
                    "true": opened.names[c.true],
                    "true_title": opened.title(c.true),
                    "predicted": opened.names[c.predicted],
                    "predicted_title": opened.title(c.predicted),
                    "count": c.count,
                    "rate": c.rate,
                    "reverse": c.reverse,
                    "expected": c.expected,
                    "examples": c.examples,
                    "texts": None if texts is None else [texts[row] for row in c.examples],
                }
                for c in found
            ],
        }
    )
