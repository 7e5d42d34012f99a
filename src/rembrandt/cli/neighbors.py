"""``rembrandt neighbors``: the labels that lie nearest to one."""

from typing import Annotated, Any

import typer

from rembrandt.cli import options
from rembrandt.cli.opened import open_model
from rembrandt.cli.screen import Screen


def neighbors(
    model: options.ModelFolder,
    label: Annotated[str, typer.Argument(metavar="LABEL", help="A label's name or title.")],
    k: Annotated[int, typer.Option("--k", "-k", min=1, help="How many.")] = 10,
    json: options.Json = False,
) -> None:
    """Print the labels nearest to one in the embedding, by cosine."""
    screen = Screen(json)
    opened = open_model(model)
    index = opened.find(label)
    nearest, cosines = nearest_rows(opened.classifier.embedding_, index, k)
    counts = opened.classifier.label_counts_
    screen.say(f"Nearest to {opened.shown(index)}, {counts[index]:,} times in training:")
    screen.table(
        ["label", "cosine", "in training"],
        ([opened.shown(i), f"{cosine:.3f}", f"{counts[i]:,}"] for i, cosine in zip(nearest, cosines, strict=True)),
    )
    found = [
        {"label": opened.names[i], "title": opened.title(i), "cosine": cosine, "count": counts[i]}
        for i, cosine in zip(nearest, cosines, strict=True)
    ]
    screen.result({"label": opened.names[index], "title": opened.title(index), "neighbors": found})


def nearest_rows(vectors: Any, index: int, k: int) -> tuple[list[int], list[float]]:
    """The rows at the smallest angle to one, and the cosines; a row of zeros has no direction and is left out."""
    import numpy as np

    lengths = np.linalg.norm(vectors, axis=1)
    directed = lengths > 0
    cosines = np.full(len(lengths), -np.inf)
    if directed[index]:
        cosines[directed] = vectors[directed] @ vectors[index] / (lengths[directed] * lengths[index])
    cosines[index] = -np.inf
    nearest = [i for i in np.argsort(-cosines, kind="stable")[:k].tolist() if np.isfinite(cosines[i])]
    return nearest, cosines[nearest].tolist()
