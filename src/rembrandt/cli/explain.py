"""``rembrandt explain``: why a model predicts these labels."""

from typing import Annotated

import typer

from rembrandt.cli import options
from rembrandt.cli.console import Console
from rembrandt.cli.reading import TextReading
from rembrandt.cli.saved import open_model

_SHOWN = 110  # characters of a text


def explain(
    model: options.ModelFolder,
    file: options.Unlabelled,
    *,
    reading: TextReading,
    label: Annotated[
        list[str] | None,
        typer.Option("--label", "-l", metavar="LABEL", help="Name or title of a label to explain, not the best ones."),
    ] = None,
    top_k: options.TopK = 3,
    words: Annotated[int, options.option("Words or features per label.", min=1)] = 8,
    rows: Annotated[int, options.option("Number of examples.", min=1)] = 10,
    console: Console,
) -> None:
    """Print what each word adds to the score of a label.

    A score is exactly the sum of what an empty example gets and what the words of the example add.
    """
    from rembrandt.explore.explain import explain as explain_examples

    with console.progress() as report:
        saved = open_model(model)
        chosen = saved.find_all(label)
        data = saved.read(file, reading, report, unlabelled=True)
        data = data.rows(range(min(rows, data.n_examples)))
        found = explain_examples(saved.classifier, data.X if data.texts is None else data.texts, chosen, top_k)
    documents = []
    for row, explanations in enumerate(found):
        console.say("", f"example {row + 1}" if data.texts is None else data.texts[row][:_SHOWN])
        explained = [each.document(words) for each in explanations]
        documents.append(explained)
        for column, entry in zip((each.column for each in explanations), explained, strict=True):
            parts = [f"{word['word']} {word['contribution']:+.3f}" for word in entry["words"]]
            sum_of = ", ".join([f"base {entry['base']:.3f}", *parts, f"the rest {entry['rest']:+.3f}"])
            console.say(f"  {saved.shown(column)}: {entry['score']:.3f} = {sum_of}")
    console.result({"model": str(model), "file": file, "explanations": documents})
