"""``rembrandt labels``: the labels of a model and their names."""

from pathlib import Path
from typing import Annotated

from rembrandt.cli import options
from rembrandt.cli.console import Console
from rembrandt.cli.options import option
from rembrandt.cli.saved import open_model
from rembrandt.errors import counted


def labels(
    model: options.ModelFolder,
    *,
    set_names: Annotated[
        Path | None,
        option(
            "Give the labels these names: a table of id, name and description, or SKOS.",
            metavar="FILE",
        ),
    ] = None,
    rows: Annotated[int, option("Number of labels, the most frequent first.", min=1)] = 20,
    console: Console,
) -> None:
    """Print the most frequent labels of a model with their names, or give the labels names and
    descriptions.

    Earlier names are replaced. The model is replaced when the names are complete; predictions do
    not change.
    """
    import numpy as np

    saved = open_model(model)
    if set_names is not None:
        from rembrandt.data.label_names import read_label_names

        saved.classifier.set_label_names(read_label_names(set_names))
        saved.classifier.save(model, force=True, extra=saved.classifier.extra_)
    index = saved.labels
    counts = saved.classifier.label_counts_
    n_named = sum(map(bool, index.titles or ()))
    n_described = sum(map(bool, index.descriptions or ()))
    console.say(
        f"{model} has {counted(len(index), 'label')}, {n_named:,} with a name "
        f"and {n_described:,} with a description.",
        "",
    )
    most_frequent = np.argsort(-counts, kind="stable")[:rows]
    cells = []
    documents = []
    for column in most_frequent.tolist():
        count = int(counts[column])
        cells.append([index.spelled(column), index.title(column), f"{count:,}"])
        documents.append(index.detailed(column) | {"count": count})
    console.table(["label", "name", "in training"], cells, left=(0, 1))
    document = {
        "model": str(model),
        "n_labels": len(index),
        "n_named": n_named,
        "n_described": n_described,
        "labels": documents,
    }
    console.result(document)
