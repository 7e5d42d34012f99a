"""``rembrandt confusions``: pairs of labels that a model confuses."""

from dataclasses import asdict
from typing import Annotated

import typer

from rembrandt.cli import options
from rembrandt.cli.console import Console
from rembrandt.cli.options import option
from rembrandt.cli.reading import Reading
from rembrandt.cli.saved import open_model

_SHOWN = 100  # characters of an example


def confusions(
    model: options.ModelFolder,
    file: options.Labelled,
    *,
    reading: Reading,
    top_k: Annotated[
        int | None,
        typer.Option("--top-k", "-k", min=1, help="Predictions per example; 1 for multiclass models, else 5."),
    ] = None,
    pairs: Annotated[int, option("Number of pairs.", min=1)] = 20,
    examples: Annotated[int, option("Examples per pair.", min=0)] = 1,
    console: Console,
) -> None:
    """Print pairs of labels that are confused: one is true and was missed, the other was predicted and is wrong.

    Pairs are sorted by how far they exceed chance.
    """
    from rembrandt.explore.confusions import confusions as find_confusions

    with console.progress() as report:
        saved = open_model(model)
        classifier = saved.classifier
        known = saved.read(file, reading, report).align_labels(saved.labels.names)
        k = top_k or (1 if classifier.model_.multiclass else 5)
        ranked = classifier.model_.top_k(classifier.dataset_rows(known, report), k, report=report)[0]
        found = find_confusions(known.Y, ranked, pairs, examples)
    rows, lines, documents = [], [], []
    for c in found:
        (true, predicted), texts = map(saved.shown, (c.true, c.predicted)), None
        rows.append([true, predicted, f"{c.count:,}", f"{c.rate:.0%}", f"{c.reverse:,}"])
        if known.texts is not None:
            texts = [known.texts[row] for row in c.examples]
            lines += ["", f"{true}, predicted as {predicted}:", *(f"  {text[:_SHOWN]}" for text in texts)]
        entries = {"true": saved.entry(c.true), "predicted": saved.entry(c.predicted)}
        labels = {name: entry["label"] for name, entry in entries.items()}
        titles = {f"{name}_title": entry["title"] for name, entry in entries.items()}
        documents.append(asdict(c) | labels | titles | {"texts": texts})
    console.say(f"{known.n_examples:,} examples, {k} predictions each.", "")
    console.table(["true and missed", "predicted instead", "times", "of its examples", "reverse"], rows, left=(0, 1))
    console.say(*(lines if examples else []))
    console.result({"model": str(model), "file": file, "top_k": k, "confusions": documents})
