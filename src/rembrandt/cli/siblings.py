"""``rembrandt siblings``: whether an embedding puts together what a hierarchy does."""

from enum import StrEnum
from typing import Annotated, Any

import typer

from rembrandt.cli import options
from rembrandt.cli.opened import Opened, open_model
from rembrandt.cli.reading import Reading
from rembrandt.cli.screen import Screen
from rembrandt.errors import DataError

# The names are the library's; importing them would slow every command down.
HierarchyFormat = StrEnum("HierarchyFormat", ["auto", "edges", "tree", "parents", "path"])


def siblings(
    model: options.ModelFolder,
    hierarchy: Annotated[
        list[str],
        typer.Argument(
            metavar="HIERARCHY", help="Files of a hierarchy; or a separator such as : where labels are paths."
        ),
    ],
    format: Annotated[
        HierarchyFormat,
        typer.Option("--format", help="edges: parent child; tree: id name tree_numbers; parents: concept descriptors."),
    ] = HierarchyFormat.auto,
    examples: Annotated[
        str | None,
        typer.Option(
            "--examples", metavar="FILE", help="Labelled examples: compare labels by what is predicted of them."
        ),
    ] = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Measure how often a label's nearest neighbour in the embedding is its sibling in a hierarchy.

    Siblings share a parent. Labels that the hierarchy gives no parent, and those without a direction in the embedding,
    are left out. Labels are near when their vectors are; with --examples, when one scores high where the other is true.
    """
    from rembrandt.data.hierarchy import read_hierarchy
    from rembrandt.explore.neighbors import scaled_vectors
    from rembrandt.metrics import asking_vectors, sibling_fraction

    screen = Screen(json, quiet)
    with screen.progress() as report:
        opened = open_model(model)
        known = read_hierarchy(hierarchy, format.value, opened.names, report)
        vectors, asking = scaled_vectors(opened.classifier), None
        if examples is not None:
            data = opened.read(examples, Reading(), report).align_labels(opened.names)
            projected = opened.classifier.model_.project(opened.features(data, report))
            asking, vectors = asking_vectors(projected, data.Y, opened.classifier.embedding_)
        found = sibling_fraction(vectors, known.matrix, report, asking)
    if not found["n_labels"]:
        n, names = len(opened.names), ", ".join(hierarchy)
        raise DataError(f"none of the {n:,} labels of {model} has a parent here; check that the names agree", names)
    screen.say(*_counted(found, len(opened.names), known.unknown), "")
    screen.table(["the nearest is", "a sibling, %"], _rows(opened, found))
    found |= {"most_fraternal_label": opened.names[found["most_fraternal_label"]], "unknown_labels": known.unknown}
    screen.result({"model": str(model), "hierarchy": hierarchy, "examples": examples, **found})


def _counted(found: dict[str, Any], n: int, unknown: int) -> list[str]:
    """Which labels the figures are about, as sentences."""
    left_out = [
        f"{count:,} {why}"
        for count, why in (
            (unknown, "are not in the hierarchy"),
            (found["without_parent"] - unknown, "have no parent in it"),
            (found["without_vector"], "have no direction"),
        )
        if count
    ]
    said = [f"{found['n_labels']:,} of {n:,} labels count" + (f"; {', '.join(left_out)}." if left_out else ".")]
    if found["without_sibling"]:
        said.append(f"{found['without_sibling']:,} of them are only children: no answer is right for those.")
    return said


def _rows(opened: Opened, found: dict[str, Any]) -> list[list[str]]:
    k = opened.classifier.embedding_.shape[1]
    fractions = {
        f"in this embedding ({opened.classifier.method}, {k:,} dimensions)": found["fraction"],
        f"always the most fraternal label, {opened.shown(found['most_fraternal_label'])}": found["most_fraternal"],
        "any other label (chance)": found["chance"],
    }
    return [[who, f"{100 * fraction:.2f}"] for who, fraction in fractions.items()]
