"""``rembrandt labels``: the labels of a model and their names."""

import warnings
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rembrandt.cli import options
from rembrandt.cli.console import Console
from rembrandt.cli.failure import about
from rembrandt.cli.options import option
from rembrandt.cli.parents import ParentOptions
from rembrandt.cli.saved import open_model
from rembrandt.errors import RembrandtWarning, counted

if TYPE_CHECKING:
    from rembrandt.data.labels import LabelIndex


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
    add: Annotated[
        Path | None,
        option(
            "Add labels that have a name and no example: a table of id, name and description, or "
            "SKOS.",
            metavar="FILE",
        ),
    ] = None,
    parents: ParentOptions,
    rows: Annotated[int, option("Number of labels, the most frequent first.", min=1)] = 20,
    console: Console,
) -> None:
    """Print the most frequent labels of a model with their names, give the labels names,
    descriptions and parents, or add labels.

    --set-names and --label-parents replace earlier ones. --add needs a model that matches names
    against texts: labels that it has get the names, others are new and are predicted where their
    names match. The model is replaced when the names are complete; predictions change only where
    the model matches names.
    """
    import numpy as np

    from rembrandt.data.label_names import is_vocabulary, read_label_names

    saved = open_model(model)
    names = None
    if set_names is not None:
        names = read_label_names(set_names)
        saved.classifier.set_label_names(names)
        if not is_vocabulary(set_names):  # which has far more concepts than a model has labels
            warn_unknown(set_names, names, saved.labels)
    n_before = len(saved.classifier.classes_)
    if add is not None:
        with about(f"cannot add the labels of {add}"):
            saved.classifier.add_labels(read_label_names(add))
    label_parents = parents.read()
    if label_parents is not None:
        saved.classifier.set_label_parents(label_parents, names)
    if set_names is not None or add is not None or label_parents is not None:
        saved.classifier.save(model, force=True, extra=saved.classifier.extra_)
    n_added = len(saved.classifier.classes_) - n_before
    if add is not None:
        console.say(f"{counted(n_added, 'label')} added.")
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
        "n_added": n_added,
        "labels": documents,
    }
    console.result(document)


def warn_unknown(file: Path, names: Collection[str], labels: "LabelIndex") -> None:
    """Warn about identifiers that are not of a label."""
    known = {labels.spelled(column) for column in range(len(labels))}
    unknown = [identifier for identifier in names if identifier not in known]
    if unknown:
        message = (
            f"{file}: {counted(len(unknown), 'id')} of {len(names):,} are not of a label of the "
            f"model and were left out, such as {unknown[0]!r}; labels are spelled like "
            f"{labels.spelled(0)!r}"
        )
        warnings.warn(RembrandtWarning(message, "set_names"), stacklevel=2)
