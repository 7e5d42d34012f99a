"""``rembrandt confusions``: pairs of labels that a model confuses."""

from dataclasses import asdict
from typing import Annotated, Any

import typer

from rembrandt.cli import options
from rembrandt.cli.console import Console
from rembrandt.cli.reading import Reading
from rembrandt.cli.saved import SavedModel, open_model

_SHOWN = 100  # characters of an example


def confusions(
    model: options.ModelFolder,
    file: options.Labelled,
    *,
    reading: Reading,
    top_k: Annotated[
        int | None,
        typer.Option(
            "--top-k", "-k", min=1, help="Predictions per example; 1 if there is one label per example, else 5."
        ),
    ] = None,
    pairs: Annotated[int, typer.Option(min=1, help="Number of pairs.")] = 20,
    examples: Annotated[int, typer.Option(min=0, help="Examples per pair.")] = 1,
    console: Console,
) -> None:
    """Print pairs of labels that are confused: one is true and was missed, the other was predicted and is wrong.

    Pairs are sorted by how far they exceed chance.
    """
    from rembrandt.explore.confusions import confusions as find_confusions

    with console.progress() as report:
        saved = open_model(model)
        classifier = saved.classifier
        known = saved.read(file, reading, report).align_labels(saved.names)
        k = top_k or (1 if classifier.model_.multiclass else 5)
        ranked = classifier.model_.top_k(classifier.dataset_rows(known, report), k, report=report)[0]
        found = find_confusions(known.Y, ranked, pairs, examples)
    console.say(f"{known.n_examples:,} examples, {k} predictions each.", "")
    console.table(
        ["true and missed", "predicted instead", "times", "of its examples", "reverse"],
        (
            [saved.shown(c.true), saved.shown(c.predicted), f"{c.count:,}", f"{c.rate:.0%}", f"{c.reverse:,}"]
            for c in found
        ),
        left=(0, 1),
    )
    texts = known.texts
    for c in found if texts is not None and examples else ():
        console.say("", f"{saved.shown(c.true)}, predicted as {saved.shown(c.predicted)}:")
        console.say(*(f"  {(texts or [])[row][:_SHOWN]}" for row in c.examples))
    documents = [_document(saved, c, texts) for c in found]
    console.result({"model": str(model), "file": file, "top_k": k, "confusions": documents})


def _document(saved: SavedModel, confusion: Any, texts: list[str] | None) -> dict[str, Any]:
    true, predicted = confusion.true, confusion.predicted
    return asdict(confusion) | {
        "true": saved.names[true],
        "true_title": saved.title(true),
        "predicted": saved.names[predicted],
        "predicted_title": saved.title(predicted),
        "texts": None if texts is None else [texts[row] for row in confusion.examples],
    }
