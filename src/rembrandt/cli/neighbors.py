"""``rembrandt neighbors``: the labels that are nearest to a label."""

from typing import Annotated

import typer

from rembrandt.cli import options
from rembrandt.cli.console import Console
from rembrandt.cli.saved import open_model


def neighbors(
    model: options.ModelFolder,
    label: Annotated[str, options.argument("LABEL", "Name or title of a label.")],
    *,
    k: Annotated[int, typer.Option("--k", "-k", min=1, help="Number of neighbors.")] = 10,
    min_count: Annotated[int, options.option("Leave out labels with fewer training examples.", min=0)] = 2,
    console: Console,
) -> None:
    """Print the labels nearest to one in the embedding, by cosine."""
    from rembrandt.explore.neighbors import nearest_labels, unit_vectors

    saved = open_model(model)
    column, counts = saved.find(label), saved.classifier.label_counts_
    columns, cosines = nearest_labels(unit_vectors(saved.classifier), k, [column], counts >= min_count)
    found = [(i, cosine) for i, cosine in zip(columns[0].tolist(), cosines[0].tolist(), strict=True) if i >= 0]
    console.say(f"Nearest to {saved.shown(column)}, {counts[column]:,} times in training:")
    rows = ([saved.shown(i), f"{cosine:.3f}", f"{counts[i]:,}"] for i, cosine in found)
    console.table(["label", "cosine", "in training"], rows)
    nearest = [saved.entry(i) | {"cosine": cosine, "count": int(counts[i])} for i, cosine in found]
    console.result(saved.entry(column) | {"neighbors": nearest})
