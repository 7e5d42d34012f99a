"""``rembrandt explain``: why a model gives these labels."""

from typing import Annotated

import typer

from rembrandt.cli import options
from rembrandt.cli.opened import open_model
from rembrandt.cli.reading import Reading
from rembrandt.cli.screen import Screen

_SHOWN = 110  # characters of a text


def explain(
    model: options.ModelFolder,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="Examples as in fit, or lines of text; - is standard input.")
    ],
    label: Annotated[
        list[str] | None,
        typer.Option("--label", "-l", metavar="LABEL", help="Why this label: its name or title; else the best ones."),
    ] = None,
    top_k: Annotated[int, typer.Option("--top-k", "-k", min=1, help="Labels for each example, if none is given.")] = 3,
    words: Annotated[int, typer.Option("--words", min=1, help="Words, or features, for each label.")] = 8,
    rows: Annotated[int, typer.Option("--rows", min=1, help="Explain so many examples at most, the first ones.")] = 10,
    format: options.FormatOption = None,
    text: options.TextOption = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Print what each word adds to the score of a label.

    A score is what an empty example would get, and what the words of this one add: exactly, nothing is left over.
    """
    from rembrandt.explore.explain import explain as explain_examples

    screen = Screen(json, quiet)
    with screen.progress() as report:
        opened = open_model(model)
        chosen = opened.find_all(label)
        data = opened.read(file, Reading.given(format, text), report, unlabelled=True)
        data = data.rows(range(min(rows, data.n_examples)))
        found = explain_examples(opened.classifier, data.X if data.texts is None else data.texts, chosen, top_k)
    answers = []
    for row in range(data.n_examples):
        screen.say("", f"example {row + 1}" if data.texts is None else data.texts[row][:_SHOWN])
        explained = [found.document(row, column, words) for column in range(found.labels.shape[1])]
        answers.append(explained)
        for index, entry in zip(found.labels[row].tolist(), explained, strict=True):
            parts = [f"{word['word']} {word['contribution']:+.3f}" for word in entry["words"]]
            said = ", ".join([*parts, f"the rest {entry['rest']:+.3f}"])
            screen.say(f"  {opened.shown(index)}: {entry['score']:.3f} = {entry['base']:.3f} at first, {said}")
    screen.result({"model": str(model), "file": file, "explanations": answers})
