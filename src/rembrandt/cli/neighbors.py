"""``rembrandt neighbors``: the labels that lie nearest to one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from rembrandt.cli import options
from rembrandt.cli.opened import open_model
from rembrandt.cli.screen import Screen

if TYPE_CHECKING:
    from rembrandt.estimators import RembrandtClassifier


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
    screen = Screen(json)
    opened = open_model(model)
    index = opened.find(label)
    counts = opened.classifier.label_counts_
    found = [
        (i, cosine, int(counts[i]))
        for i, cosine in nearest_rows(scaled_vectors(opened.classifier), index, counts >= min_count, k)
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


def scaled_vectors(classifier: RembrandtClassifier) -> Any:
    """Label vectors whose inner products mean something.

    An embedding's columns are orthonormal: at full rank all labels are at right angles. Scaled by the roots of the
    eigenvalues, the inner products of two labels are those of their predictions over the training examples.
    """
    import numpy as np

    vectors = np.asarray(classifier.embedding_)
    if classifier.method in ("pca", "cs"):  # label means over the features, and random directions
        return vectors
    return vectors * np.sqrt(np.maximum(classifier.singular_values_, 0.0))


def nearest_rows(vectors: Any, index: int, allowed: Any, k: int) -> list[tuple[int, float]]:
    """The ``allowed`` rows at the smallest angle to one, with the cosines; a row of zeros has no direction."""
    import numpy as np

    lengths = np.linalg.norm(vectors, axis=1)
    others = allowed & (lengths > 0)
    others[index] = False
    rows = np.flatnonzero(others) if lengths[index] > 0 else np.empty(0, int)
    cosines = vectors[rows] @ vectors[index] / (lengths[rows] * lengths[index])
    best = np.argsort(-cosines, kind="stable")[:k]
    return list(zip(rows[best].tolist(), cosines[best].tolist(), strict=True))
