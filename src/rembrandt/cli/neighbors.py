"""``rembrandt neighbors``: the labels that lie nearest to one."""

from typing import Annotated

import typer

from rembrandt.cli import options
from rembrandt.cli.opened import open_model
from rembrandt.cli.screen import Screen


def neighbors(
    model: options.ModelFolder,
    label: Annotated[str, typer.Argument(metavar="LABEL", help="A label's name or title.")],
    k: Annotated[int, typer.Option("--k", "-k", min=1, help="How many.")] = 10,
    min_count: Annotated[
        int, typer.Option(min=0, help="Leave out labels that are rarer in training; one example places no label.")
    ] = 2,
    json: options.Json = False,
) -> None:
    """Print the labels nearest to one in the embedding, by cosine."""
    from rembrandt.explore.neighbors import nearest_labels, unit_vectors

    screen = Screen(json)
    opened = open_model(model)
    index = opened.find(label)
    counts = opened.classifier.label_counts_
    columns, cosines = nearest_labels(unit_vectors(opened.classifier), k, [index], counts >= min_count)
    found = [
        (i, cosine, int(counts[i]))
        for i, cosine in zip(columns[0].tolist(), cosines[0].tolist(), strict=True)
        if i >= 0
    ]
    screen.say(f"Nearest to {opened.shown(index)}, {counts[index]:,} times in training:")
    screen.table(
        ["label", "cosine", "in training"],
        ([opened.shown(i), f"{cosine:.3f}", f"{count:,}"] for i, cosine, count in found),
    )
    nearest = [
        {"label": opened.names[i], "title": opened.title(i), "cosine": cosine, "count": count}
        for i, cosine, count in found
    ]
    screen.result({"label": opened.names[index], "title": opened.title(index), "neighbors": nearest})
