"""``rembrandt predict``: the best labels of new examples."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rembrandt.cli import options
from rembrandt.cli.console import Console
from rembrandt.cli.options import flag, option
from rembrandt.cli.output import atomic_file, check_file_target
from rembrandt.cli.reading import TextReading
from rembrandt.cli.saved import open_model
from rembrandt.errors import CONTROL, SettingsError, printable

if TYPE_CHECKING:
    from rembrandt.estimators.predictions import Predictions
    from rembrandt.model.model import Model

DEFAULT_TOP_K = 5
_SUFFIXES = (".csv", ".tsv", ".jsonl", ".parquet", ".txt")


def predict(
    model: options.ModelFolder,
    file: options.Unlabelled,
    *,
    reading: TextReading,
    ranking: options.Ranking,
    id: Annotated[
        str | None, option("Column that identifies an example; else its number.", metavar="COLUMN")
    ] = None,
    top_k: Annotated[
        int | None, options.top_k_option("Labels per example, 5 unless a threshold is set.")
    ] = None,
    threshold: Annotated[
        bool, flag("--threshold", "Only labels that reach the threshold of the model.")
    ] = False,
    min_probability: Annotated[
        float | None,
        option("Only labels with this probability or more.", min=0.0, max=1.0, metavar="P"),
    ] = None,
    include: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LABELS",
            help="Predict only these labels: labels or names, or @FILE with one per line.",
        ),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option(metavar="LABELS", help="Never predict these labels, given in the same way."),
    ] = None,
    output: Annotated[
        Path | None,
        options.output_option("FILE", "Write a .csv, .tsv, .jsonl, .parquet or .txt file."),
    ] = None,
    wide: Annotated[
        bool, flag("--wide", "One row per example in a file, not one per example and label.")
    ] = False,
    force: options.Force = False,
    console: Console,
) -> None:
    """Print the best labels of each example with their probabilities, best first.

    There is one line per example, with tabs between labels; with --json one JSON object. FILE needs
    no labels; for a model of texts it may be plain text, one example per line. A file to write has
    the columns id, label, name, probability and rank. A text without a word that the model knows
    gets no labels.
    """
    from rembrandt.estimators.predictions import Predictions
    from rembrandt.predict import Request, answer

    if output is not None:
        check_file_target(output, force, _SUFFIXES)
    if threshold and min_probability is not None:
        raise SettingsError(
            "the threshold of the model and a probability exclude each other; give one of the two"
        )
    with console.progress() as report:
        saved = open_model(model, ranking.device)
        fitted = saved.classifier.device_model(
            ranking.shortlist, report
        )  # builds the index before anything is read
        chosen = saved.find_all(include), saved.find_all(exclude)
        data = saved.read(file, reading, report, unlabelled=True, id=id)
        rows = saved.classifier.dataset_rows(data, report)
        request = Request(
            rows,
            k=_largest_number(top_k, fitted, threshold, min_probability),
            threshold=_smallest_probability(fitted, threshold, min_probability),
            allowed=saved.classifier.allowed_columns(*chosen),
            tail=(ranking.propensity_a, ranking.propensity_b) if ranking.tail else None,
        )
        ranked = answer(fitted, request, report)
    labels = ranked.labels
    ids = data.ids or range(1, rows.shape[0] + 1)
    found = Predictions(ids, labels, ranked.probabilities, saved.labels)
    if output is None:
        for line in _json_lines(found) if console.json else _text_lines(found):
            typer.echo(line)
    else:
        with atomic_file(output) as target:
            _write(found, output.suffix, wide, target)
        n_empty = int((labels < 0).all(axis=1).sum())
        none = f"; {n_empty:,} have none" if n_empty else ""
        typer.echo(f"Wrote the labels of {len(labels):,} examples to {output}{none}.")


def _largest_number(
    top_k: int | None, model: Model, threshold: bool, min_probability: float | None
) -> int | None:
    """Return the largest number of labels of an example; None for all that reach a threshold."""
    if threshold and model.multiclass:
        return 1
    if top_k is None and not threshold and min_probability is None:
        return DEFAULT_TOP_K
    return top_k


def _smallest_probability(
    model: Model, threshold: bool, min_probability: float | None
) -> float | Any:
    """Return the probability that a label must reach; with one label a row the first is taken."""
    if threshold and not model.multiclass:
        return model.threshold
    return min_probability or 0.0


def _text_lines(found: Predictions) -> Iterator[str]:
    """A line for each example. A probability is never rounded to one."""
    from rembrandt.metrics.percent import probability

    for labels, values in zip(found.labels.tolist(), found.probabilities.tolist(), strict=True):
        pairs = zip(labels, values, strict=True)
        yield "\t".join(
            f"{printable(found.index.shown(i))} {probability(p)}" for i, p in pairs if i >= 0
        )


def _json_lines(found: Predictions) -> Iterator[str]:
    """A JSON object for each example. JSON may contain characters that terminals act on; they are
    escaped.
    """
    for document in found.documents():
        text = json.dumps(document, ensure_ascii=False)
        yield CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _write(found: Predictions, suffix: str, wide: bool, target: Any) -> None:
    if suffix == ".txt" or (suffix == ".jsonl" and wide):
        lines = _text_lines(found) if suffix == ".txt" else _json_lines(found)
        target.writelines(f"{line}\n".encode() for line in lines)
        return
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    table = pa.table(
        {
            name: pa.array(values, from_pandas=True)
            for name, values in (found.wide() if wide else found.long()).items()
        }
    )
    if suffix == ".parquet":
        pyarrow.parquet.write_table(table, target)
    elif suffix == ".csv":
        pyarrow.csv.write_csv(table, target)
    elif suffix == ".jsonl":
        target.writelines(
            f"{json.dumps(row, ensure_ascii=False)}\n".encode() for row in table.to_pylist()
        )
    else:  # as it is read: without quotes, so that a cell has no tab and no line end
        rows = [
            table.column_names,
            *zip(*(column.to_pylist() for column in table.columns), strict=True),
        ]
        cells = (
            ["" if cell is None else " ".join(str(cell).split()) for cell in row] for row in rows
        )
        target.writelines(("\t".join(row) + "\n").encode() for row in cells)
