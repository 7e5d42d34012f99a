"""Commands that show what a model has learned: explain, confusions, neighbors, spectrum, map and
report.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rembrandt.cli import options
from rembrandt.cli.console import Console
from rembrandt.cli.options import flag, option
from rembrandt.cli.output import atomic_file, check_file_target, decimal
from rembrandt.cli.reading import Reading, TextReading
from rembrandt.cli.saved import SavedModel, open_model
from rembrandt.errors import RembrandtWarning, counted

if TYPE_CHECKING:
    from rembrandt.explore.confusions import Confusion

_SHOWN_CHARACTERS = 110  # of a text
_BAR_CHARACTERS = 50  # of the longest bar
_RANKS_PER_DECADE = 6  # shown for each factor of ten


def explain(
    model: options.ModelFolder,
    file: options.Unlabelled,
    *,
    reading: TextReading,
    label: Annotated[
        list[str] | None,
        typer.Option("--label", "-l", metavar="LABEL", help="Name or title of a label to explain."),
    ] = None,
    top_k: Annotated[int, options.top_k_option("Labels per example.")] = 3,
    words: Annotated[int, option("Words or features per label.", min=1)] = 8,
    rows: Annotated[int, option("Number of examples.", min=1)] = 10,
    console: Console,
) -> None:
    """Print what each word adds to the log-odds of a label.

    Log-odds are exactly the sum of what an empty example gets, what the words of the example add,
    and what the comparison with its other labels adds.
    """
    with console.progress() as report:
        saved = open_model(model)
        chosen = saved.find_all(label)
        data = saved.read(file, reading, report, unlabelled=True)
        data = data.rows(range(min(rows, data.n_examples)))
        explanations = saved.classifier.explain(data.inputs, chosen, top_k)
    documents = []
    for row, row_explanations in enumerate(explanations):
        heading = f"example {row + 1}"
        if data.texts is not None:
            heading = data.texts[row][:_SHOWN_CHARACTERS]
        console.say("", heading)
        row_documents = []
        for explanation in row_explanations:
            column = explanation.column
            document = saved.labels.named(column) | explanation.document(words)
            row_documents.append(document)
            shown = saved.labels.shown(column)
            console.say(f"  {shown}: {document['log_odds']:.3f} = {_terms(document)}")
            console.say(f"    by part: {_parts(document)}", *_estimates(document))
        documents.append(row_documents)
    console.result({"model": str(model), "file": file, "explanations": documents})


def _estimates(explanation: Mapping[str, Any]) -> list[str]:
    """Return a line for each part that reads a text as a whole."""
    lines = []
    for estimate in explanation["estimates"]:
        words = [f"{word['word']} {word['contribution']:+.3f}" for word in estimate["words"]]
        lines.append(f"    {estimate['part']}, estimated by leaving words out: {', '.join(words)}")
    return lines


def _parts(explanation: Mapping[str, Any]) -> str:
    """Return what each part of the model adds."""
    parts = [f"{part['part']} {part['contribution']:+.3f}" for part in explanation["parts"]]
    return ", ".join(parts)


def _terms(explanation: Mapping[str, Any]) -> str:
    """Return the terms of the sum that an explanation is."""
    words = [f"{word['word']} {word['contribution']:+.3f}" for word in explanation["words"]]
    terms = [
        f"base {explanation['base']:.3f}",
        *words,
        f"the rest {explanation['rest']:+.3f}",
        f"comparison {explanation['comparison']:+.3f}",
    ]
    return ", ".join(terms)


def confusions(
    model: options.ModelFolder,
    file: options.Labelled,
    *,
    reading: Reading,
    top_k: Annotated[
        int | None,
        options.top_k_option("Predictions per example; 1 for multiclass models, else 5."),
    ] = None,
    pairs: Annotated[int, option("Number of pairs.", min=1)] = 20,
    examples: Annotated[int, option("Examples per pair.", min=0)] = 1,
    console: Console,
) -> None:
    """Print pairs of labels that are confused: one is true and was missed, the other was predicted
    and is wrong.

    Pairs are sorted by how far they exceed chance.
    """
    from rembrandt.estimators.requests import dataset_rows
    from rembrandt.explore.confusions import confusions as find_confusions
    from rembrandt.metrics.percent import percent
    from rembrandt.predict import Request, answer

    with console.progress() as report:
        saved = open_model(model)
        classifier = saved.classifier
        label_names = [str(name) for name in saved.labels.names]
        data = saved.read(file, reading, report).align_labels(label_names)
        default_k = 1 if classifier.model_.multiclass else 5
        k = top_k or default_k
        rows = dataset_rows(classifier, data, report)
        ranked = answer(classifier.model_, Request(rows, k), report).labels
        confused = find_confusions(data.Y, ranked, pairs, examples)
    cells = []
    quotes = []
    documents = []
    for confusion in confused:
        true = saved.labels.shown(confusion.true)
        predicted = saved.labels.shown(confusion.predicted)
        count = f"{confusion.count:,}"
        reverse = f"{confusion.reverse:,}"
        cells.append([true, predicted, count, percent(confusion.rate, 0), reverse])
        texts = None
        if data.texts is not None:
            texts = [data.texts[row] for row in confusion.examples]
            quotes += ["", f"{true}, predicted as {predicted}:"]
            quotes += [f"  {text[:_SHOWN_CHARACTERS]}" for text in texts]
        documents.append(_confusion_document(saved, confusion) | {"texts": texts})
    console.say(f"{counted(data.n_examples, 'example')}, {counted(k, 'prediction')} each.", "")
    header = ["true and missed", "predicted instead", "times", "of its examples", "reverse"]
    console.table(header, cells, left=(0, 1))
    if examples:
        console.say(*quotes)
    console.result({"model": str(model), "file": file, "top_k": k, "confusions": documents})


def _confusion_document(saved: SavedModel, confusion: Confusion) -> dict[str, Any]:
    """Return a confusion as JSON, with its labels by name."""
    true = saved.labels.named(confusion.true)
    predicted = saved.labels.named(confusion.predicted)
    return asdict(confusion) | {
        "true": true["label"],
        "predicted": predicted["label"],
        "true_name": true["name"],
        "predicted_name": predicted["name"],
    }


def neighbors(
    model: options.ModelFolder,
    label: Annotated[str, typer.Argument(metavar="LABEL", help="Name or title of a label.")],
    *,
    k: Annotated[int, typer.Option("--k", "-k", min=1, help="Number of neighbors.")] = 10,
    min_count: Annotated[int, option("Leave out labels with fewer training examples.", min=0)] = 2,
    console: Console,
) -> None:
    """Print the labels nearest to one in the embedding, by cosine."""
    from rembrandt.explore.neighbors import nearest_labels, unit_vectors

    saved = open_model(model)
    labels = saved.labels
    column = saved.find(label)
    counts = saved.classifier.label_counts_
    unit = unit_vectors(saved.classifier)
    nearest, cosines = nearest_labels(unit, k, [column], counts >= min_count)
    rows = []
    documents = []
    for other, cosine in zip(nearest[0].tolist(), cosines[0].tolist(), strict=True):
        if other < 0:  # there are fewer neighbours
            continue
        count = int(counts[other])
        rows.append([labels.shown(other), f"{cosine:.3f}", f"{count:,}"])
        documents.append(labels.named(other) | {"cosine": cosine, "count": count})
    about = labels.detailed(column)
    if about["description"]:
        console.say(f"{about['name']}: {about['description']}", "")
    examples = counted(int(counts[column]), "training example")
    console.say(f"Nearest to {labels.shown(column)} ({examples}):")
    console.table(["label", "cosine", "in training"], rows)
    console.result(about | {"neighbors": documents})


def spectrum(model: options.ModelFolder, console: Console) -> None:
    """Plot the singular values of a model's embedding on logarithmic axes, and print why its rank
    was chosen.
    """
    classifier = open_model(model).classifier
    values = [float(value) for value in classifier.singular_values_]
    rank = len(values)
    model_ = classifier.model_
    method = "Derived"
    reason = f"from the label weights of {next(iter(model_.parts))}"
    for name, part in model_.parts.items():
        if part.label_vectors() is not None:
            method = model_.settings.parts[name].settings.method
            reason = part.facts()["rank_reason"] or "as set"
            break
    console.say(f"{method} embedding, rank {rank:,}: {reason}.", "")
    console.say(f"{'rank':>7}  {'value':>9}")
    for plotted in _plotted_ranks(rank):
        value = values[plotted - 1]
        console.say(f"{plotted:>7,}  {value:>9.3g}  {_bar(value, values)}")
    console.result(
        {"model": str(model), "rank": rank, "rank_reason": reason, "singular_values": values}
    )


def _plotted_ranks(max_rank: int) -> list[int]:
    """Return ranks from 1 to ``max_rank``, about equally spaced on a logarithmic axis."""
    if max_rank == 0:
        return []
    n_steps = int(math.log10(max_rank) * _RANKS_PER_DECADE)
    ranks = {round(10 ** (step / _RANKS_PER_DECADE)) for step in range(n_steps + 1)}
    ranks.add(max_rank)
    return sorted(ranks)


def _bar(value: float, values: list[float]) -> str:
    """Return a bar with the length of the logarithm of a value among others; none for zero."""
    if not value > 0:
        return ""
    positive = [other for other in values if other > 0]
    low = math.log(min(positive))
    high = math.log(max(positive))
    share = 1.0
    if high > low:
        share = (math.log(value) - low) / (high - low)
    return "█" * (1 + round(share * (_BAR_CHARACTERS - 1)))


def map_labels(
    model: options.ModelFolder,
    output: Annotated[
        list[Path],
        typer.Option(
            "--output", "-o", metavar="FILE", help="A .csv, .npz or .png file; may be repeated."
        ),
    ],
    *,
    labels: Annotated[
        int | None, option("Number of labels, the most frequent ones; all by default.", min=4)
    ] = None,
    seed: options.Seed = 0,
    verbatim_cells: options.VerbatimCells = False,
    force: options.Force = False,
    console: Console,
) -> None:
    """Lay out the labels of a model in the plane, so that labels predicted together are near each
    other.
    """
    from rembrandt.explore.layout import check_installed
    from rembrandt.explore.mapping import WRITERS, label_map, write_csv

    writers = WRITERS | {".csv": partial(write_csv, verbatim_cells=verbatim_cells)}
    for path in output:
        check_file_target(path, force, writers)
    check_installed()
    with console.progress() as report:
        classifier = open_model(model).classifier
        laid_out = label_map(classifier, labels, seed, report)
        for path in output:
            write = writers[path.suffix]
            with atomic_file(path) as target:
                write(laid_out, target)
    n_labels = len(laid_out.names)
    for path in output:
        console.say(f"Wrote the positions of {counted(n_labels, 'label')} to {path}.")
    outputs = [str(path) for path in output]
    console.result({"model": str(model), "n_labels": n_labels, "outputs": outputs})


def write_report(
    model: options.ModelFolder,
    file: Annotated[
        str,
        typer.Argument(metavar="TEST", help="Labelled examples that were not used for training."),
    ],
    output: options.NewFile,
    *,
    reading: Reading,
    title: Annotated[
        str | None, option("Title of the page; by default the name of the model.")
    ] = None,
    no_map: Annotated[
        bool, flag("--no-map", "Leave out the map of labels, which takes longest.")
    ] = False,
    seed: options.Seed = 0,
    force: options.Force = False,
    console: Console,
) -> None:
    """Write an HTML page on what a model does well and badly, and why. It needs no network.

    The page contains some of the examples with their texts.
    """
    check_file_target(output, force)
    from rembrandt.explore.layout import is_installed
    from rembrandt.explore.report import gather, render

    with_map = not no_map
    if with_map and not is_installed():
        with_map = False
        message = (
            "the report has no map of labels, which needs the package openTSNE: "
            "pip install 'rembrandt[report]'"
        )
        warnings.warn(RembrandtWarning(message), stacklevel=2)
    with console.progress() as report:
        saved = open_model(model)
        data = saved.read(file, reading, report)
        page_title = title or model.resolve().name
        contents = gather(saved.classifier, data, page_title, with_map, seed, report)
        page = render(contents).encode()
    with atomic_file(output) as target:
        target.write(page)
    console.say(f"Wrote {output} ({decimal(len(page))}); open it in a browser.")
    document = {"model": str(model), "file": file, "output": str(output), "bytes": len(page)}
    for section in ("metrics", "calibration", "deciles", "spectrum", "labels"):
        document[section] = contents[section]
    console.result(document)
