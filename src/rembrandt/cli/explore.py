"""Commands that show what a model has learned: explain, confusions, neighbors, spectrum, map and
report.
"""

import math
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from rembrandt.cli import options
from rembrandt.cli.console import Console
from rembrandt.cli.options import flag, option
from rembrandt.cli.output import atomic_file, check_file_target, decimal
from rembrandt.cli.reading import Reading, TextReading
from rembrandt.cli.saved import open_model

_TEXT = 110  # characters of a text that are shown
_BAR = 50  # characters of the longest bar
_PER_DECADE = 6  # ranks shown for each factor of ten


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
    from rembrandt.explore.explain import explain as explain_examples

    with console.progress() as report:
        saved = open_model(model)
        chosen = saved.find_all(label)
        data = saved.read(file, reading, report, unlabelled=True)
        data = data.rows(range(min(rows, data.n_examples)))
        found = explain_examples(saved.classifier, data.inputs, chosen, top_k)
    documents = []
    for row, explanations in enumerate(found):
        console.say("", f"example {row + 1}" if data.texts is None else data.texts[row][:_TEXT])
        explained = [
            saved.labels.named(each.column) | each.document(words) for each in explanations
        ]
        documents.append(explained)
        for column, entry in zip((each.column for each in explanations), explained, strict=True):
            parts = [f"{word['word']} {word['contribution']:+.3f}" for word in entry["words"]]
            sum_of = ", ".join(
                [f"base {entry['base']:.3f}", *parts, f"the rest {entry['rest']:+.3f}"]
            )
            sum_of += f", comparison {entry['comparison']:+.3f}"
            console.say(f"  {saved.labels.shown(column)}: {entry['score']:.3f} = {sum_of}")
    console.result({"model": str(model), "file": file, "explanations": documents})


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
    from rembrandt.explore.confusions import confusions as find_confusions
    from rembrandt.metrics.percent import percent

    with console.progress() as report:
        saved = open_model(model)
        classifier = saved.classifier
        known = saved.read(file, reading, report).align_labels(list(map(str, saved.labels.names)))
        k = top_k or (1 if classifier.model_.multiclass else 5)
        ranked = classifier.model_.top_k(classifier.dataset_rows(known, report), k, report=report)[
            0
        ]
        found = find_confusions(known.Y, ranked, pairs, examples)
    rows, lines, documents = [], [], []
    for c in found:
        (true, predicted), texts = map(saved.labels.shown, (c.true, c.predicted)), None
        rows.append([true, predicted, f"{c.count:,}", percent(c.rate, 0), f"{c.reverse:,}"])
        if known.texts is not None:
            texts = [known.texts[row] for row in c.examples]
            lines += [
                "",
                f"{true}, predicted as {predicted}:",
                *(f"  {text[:_TEXT]}" for text in texts),
            ]
        entries = {"true": saved.labels.named(c.true), "predicted": saved.labels.named(c.predicted)}
        labels = {name: entry["label"] for name, entry in entries.items()}
        titles = {f"{name}_name": entry["name"] for name, entry in entries.items()}
        documents.append(asdict(c) | labels | titles | {"texts": texts})
    console.say(f"{known.n_examples:,} examples, {k} predictions each.", "")
    console.table(
        ["true and missed", "predicted instead", "times", "of its examples", "reverse"],
        rows,
        left=(0, 1),
    )
    console.say(*(lines if examples else []))
    console.result({"model": str(model), "file": file, "top_k": k, "confusions": documents})


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
    column, counts = saved.find(label), saved.classifier.label_counts_
    columns, cosines = nearest_labels(
        unit_vectors(saved.classifier), k, [column], counts >= min_count
    )
    found = [
        (i, cosine)
        for i, cosine in zip(columns[0].tolist(), cosines[0].tolist(), strict=True)
        if i >= 0
    ]
    about = saved.labels.detailed(column)
    console.say(*([f"{about['name']}: {about['description']}", ""] if about["description"] else []))
    console.say(f"Nearest to {saved.labels.shown(column)}, {counts[column]:,} times in training:")
    rows = ([saved.labels.shown(i), f"{cosine:.3f}", f"{counts[i]:,}"] for i, cosine in found)
    console.table(["label", "cosine", "in training"], rows)
    nearest = [
        saved.labels.named(i) | {"cosine": cosine, "count": int(counts[i])} for i, cosine in found
    ]
    console.result(about | {"neighbors": nearest})


def spectrum(model: options.ModelFolder, console: Console) -> None:
    """Plot the singular values of a model's embedding on logarithmic axes, and print why its rank
    was chosen.
    """
    classifier = open_model(model).classifier
    values = [float(value) for value in classifier.singular_values_]
    settings, rank = classifier.settings_, len(values)
    if classifier.model_.embedding is None:
        method, reason = "Derived", f"from the label weights of {settings['scorers'][0]}"
    else:
        method, reason = settings["method"], settings["rank_reason"] or "as requested"
    console.say(f"{method} embedding, rank {rank:,}: {reason}.", "")
    console.say(
        f"{'rank':>7}  {'value':>9}", *(_bar(r, values) for r in _plotted_ranks(len(values)))
    )
    console.result(
        {"model": str(model), "rank": rank, "rank_reason": reason, "singular_values": values}
    )


def _plotted_ranks(most: int) -> list[int]:
    """Return ranks from 1 to ``most``, about equally spaced on a logarithmic axis."""
    steps = int(math.log10(most) * _PER_DECADE) if most else 0
    return sorted(
        {round(10 ** (step / _PER_DECADE)) for step in range(steps + 1)}
        | ({most} if most else set())
    )


def _bar(rank: int, values: list[float]) -> str:
    """Return a rank, its value, and a bar with the length of the value's logarithm."""
    value, positive = values[rank - 1], [v for v in values if v > 0]
    low, high = (math.log(min(positive)), math.log(max(positive))) if positive else (0.0, 0.0)
    share = (math.log(value) - low) / (high - low) if value > 0 and high > low else float(value > 0)
    return (
        f"{rank:>7,}  {value:>9.3g}  {'█' * (1 + round(share * (_BAR - 1))) if value > 0 else ''}"
    )


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
        int | None, option("Only the most frequent labels, this many.", min=4)
    ] = None,
    seed: options.Seed = 0,
    force: options.Force = False,
    console: Console,
) -> None:
    """Lay out the labels of a model in the plane, so that labels predicted together are near each
    other.
    """
    from rembrandt.explore.layout import check_installed
    from rembrandt.explore.mapping import WRITERS, label_map

    for path in output:
        check_file_target(path, force, WRITERS)
    check_installed()
    with console.progress() as report:
        found = label_map(open_model(model).classifier, labels, seed, report)
        for path in output:
            with atomic_file(path) as target:
                WRITERS[path.suffix](found, target)
    console.say(
        *(f"Wrote the positions of {len(found.names):,} labels to {path}." for path in output)
    )
    console.result(
        {
            "model": str(model),
            "n_labels": len(found.names),
            "outputs": [str(path) for path in output],
        }
    )


def write_report(
    model: options.ModelFolder,
    file: Annotated[
        str,
        typer.Argument(metavar="TEST", help="Labelled examples that were not used for training."),
    ],
    output: options.NewFile,
    *,
    reading: Reading,
    title: Annotated[str | None, option("Title of the page; else the name of the model.")] = None,
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
    from rembrandt.explore.layout import check_installed
    from rembrandt.explore.report import gather, render

    if not no_map:
        check_installed()
    with console.progress() as report:
        saved = open_model(model)
        data = saved.read(file, reading, report)
        contents = gather(
            saved.classifier, data, title or model.resolve().name, not no_map, seed, report
        )
        page = render(contents).encode()
    with atomic_file(output) as target:
        target.write(page)
    console.say(f"Wrote {output} ({decimal(len(page))}); open it in a browser.")
    kept = ("metrics", "calibration", "deciles", "spectrum", "labels")
    facts = {"model": str(model), "file": file, "output": str(output), "bytes": len(page)}
    console.result(facts | {part: contents[part] for part in kept})
