"""``rembrandt predict``: the best labels of new examples."""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from rembrandt.cli import options
from rembrandt.cli.console import Console
from rembrandt.cli.options import flag, option
from rembrandt.cli.output import atomic_file, check_file_target
from rembrandt.cli.reading import TextReading
from rembrandt.cli.saved import open_model
from rembrandt.errors import CONTROL, RembrandtWarning, SettingsError, counted, printable

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
        str | None,
        option("Column with the id of an example; by default its number.", metavar="COLUMN"),
    ] = None,
    top_k: Annotated[
        int | None, options.top_k_option("Labels per example, 5 unless a threshold is set.")
    ] = None,
    above_threshold: Annotated[
        bool, flag("--above-threshold", "Only labels that reach the threshold of the model.")
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
    hierarchy: Annotated[
        Literal["auto", "closed", "specific", "flat"],
        option(
            "How parents of labels count: closed adds them, specific leaves them out, flat ignores "
            "them."
        ),
    ] = "auto",
    branches: Annotated[
        bool, flag("--branches", "LABELS stand for all labels below them, too.")
    ] = False,
    output: Annotated[
        Path | None,
        options.output_option("FILE", "Write a .csv, .tsv, .jsonl, .parquet or .txt file."),
    ] = None,
    wide: Annotated[
        bool, flag("--wide", "One row per example in a file, not one per example and label.")
    ] = False,
    verbatim_cells: options.VerbatimCells = False,
    force: options.Force = False,
    console: Console,
) -> None:
    """Print the best labels of each example with their probabilities, best first.

    There is one line per example, with tabs between labels; with --json one JSON object. FILE needs
    no labels; for a model of texts it may be plain text, one example per line. A file to write has
    the columns id, label, name, probability and rank. In .csv and .tsv files, texts that a
    spreadsheet would run as formulas have a ' before them. A text without a word that the model
    knows gets no labels.
    """
    from rembrandt.estimators.predictions import Predictions
    from rembrandt.estimators.requests import (
        allowed_columns,
        checked_hierarchy,
        dataset_rows,
        prediction_model,
    )
    from rembrandt.predict import Request, answer

    if output is not None:
        check_file_target(output, force, _SUFFIXES)
    if above_threshold and min_probability is not None:
        raise SettingsError(
            "--above-threshold and --min-probability exclude each other; give one of the two"
        )
    with console.progress() as report:
        saved = open_model(model, ranking.device)
        # Builds the index before anything is read.
        fitted = prediction_model(saved.classifier, ranking.shortlist, report)
        mode = checked_hierarchy(fitted, hierarchy)
        with_groups = branches or mode == "closed"
        included = saved.find_all(include, with_groups)
        excluded = saved.find_all(exclude, with_groups)
        data = saved.read(file, reading, report, unlabelled=True, id=id)
        if data.ids is not None:
            warn_repeated(file, id, data.ids)
        rows = dataset_rows(saved.classifier, data, report)
        tail = None
        if ranking.tail:
            tail = (ranking.propensity_a, ranking.propensity_b)
        request = Request(
            rows,
            k=_largest_number(top_k, fitted, above_threshold, min_probability),
            threshold=_smallest_probability(fitted, above_threshold, min_probability),
            allowed=allowed_columns(
                saved.classifier, included, excluded, branches, mode == "closed"
            ),
            tail=tail,
            hierarchy=mode,
        )
        ranked = answer(fitted, request, report)
    ids = data.ids or range(1, len(ranked.labels) + 1)
    predictions = Predictions(ids, ranked.labels, ranked.probabilities, fitted.nodes)
    if output is not None:
        with atomic_file(output) as target:
            _write(predictions, output.suffix, wide, verbatim_cells, target)
        typer.echo(_summary(predictions, output))
    elif console.json:
        _print(_json_lines(predictions))
    else:
        _print(_text_lines(predictions))


def warn_repeated(file: str, column: str | None, ids: Sequence[str]) -> None:
    """Warn about identifiers that stand for several examples."""
    counts = Counter(ids)
    repeated = [identifier for identifier, n in counts.items() if n > 1]
    if repeated:
        n_rows = sum(counts[identifier] for identifier in repeated)
        message = (
            f"{file}: {counted(len(repeated), 'value')} of the column {column!r} stand for several "
            f"examples ({n_rows:,}), such as {repeated[0]!r}; predictions with the same id cannot "
            "be told apart. Name a column without repetitions"
        )
        warnings.warn(RembrandtWarning(message, "id"), stacklevel=2)


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        typer.echo(line)


def _summary(predictions: Predictions, output: Path) -> str:
    """Return what was written, and how many examples have no label."""
    n_examples = counted(len(predictions.labels), "example")
    sentence = f"Wrote the labels of {n_examples} to {output}"
    n_empty = int((predictions.labels < 0).all(axis=1).sum())
    if n_empty == 1:
        sentence += "; 1 has none"
    elif n_empty:
        sentence += f"; {n_empty:,} have none"
    return f"{sentence}."


def _largest_number(
    top_k: int | None, model: Model, above_threshold: bool, min_probability: float | None
) -> int | None:
    """Return the largest number of labels of an example; None for all that reach a threshold."""
    if above_threshold and model.multiclass:
        return 1
    if top_k is None and not above_threshold and min_probability is None:
        return DEFAULT_TOP_K
    return top_k


def _smallest_probability(
    model: Model, above_threshold: bool, min_probability: float | None
) -> float | Any:
    """Return the probability that a label must reach; with one label a row the first is taken."""
    if above_threshold and not model.multiclass:
        return model.threshold
    return min_probability or 0.0


def _text_lines(predictions: Predictions) -> Iterator[str]:
    """A line for each example. A probability is never rounded to one."""
    from rembrandt.metrics.percent import probability

    labels = predictions.labels.tolist()
    probabilities = predictions.probabilities.tolist()
    for row_labels, row_probabilities in zip(labels, probabilities, strict=True):
        cells = []
        for column, value in zip(row_labels, row_probabilities, strict=True):
            if column >= 0:
                label = printable(predictions.index.shown(column))
                cells.append(f"{label} {probability(value)}")
        yield "\t".join(cells)


def _json_lines(predictions: Predictions) -> Iterator[str]:
    """A JSON object for each example. JSON may contain characters that terminals act on; they are
    escaped.
    """
    for document in predictions.documents():
        text = json.dumps(document, ensure_ascii=False)
        yield CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _write(
    predictions: Predictions, suffix: str, wide: bool, verbatim_cells: bool, target: Any
) -> None:
    """Write predictions to a file in the format of its suffix."""
    if suffix == ".txt":
        _write_lines(_text_lines(predictions), target)
        return
    if suffix == ".jsonl" and wide:
        _write_lines(_json_lines(predictions), target)
        return
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    columns = predictions.long()
    if wide:
        columns = predictions.wide()
    table = pa.table({name: pa.array(cells, from_pandas=True) for name, cells in columns.items()})
    if suffix in (".csv", ".tsv") and not verbatim_cells:
        table = _harmless(table)
    if suffix == ".parquet":
        pyarrow.parquet.write_table(table, target)
    elif suffix == ".csv":
        pyarrow.csv.write_csv(table, target)
    elif suffix == ".jsonl":
        _write_lines((json.dumps(row, ensure_ascii=False) for row in table.to_pylist()), target)
    else:
        _write_lines(_tsv_lines(table), target)


def _harmless(table: Any) -> Any:
    """Return a table whose texts a spreadsheet shows and does not run; each distinct text is
    checked once.
    """
    import pyarrow as pa

    from rembrandt.explore.cells import harmless_cell

    for position, name in enumerate(table.column_names):
        column = table.column(position)
        if not pa.types.is_string(column.type):
            continue
        chunks = []
        for chunk in column.chunks:
            encoded = chunk.dictionary_encode()
            cells = [harmless_cell(text) for text in encoded.dictionary.to_pylist()]
            chunks.append(pa.array(cells, pa.string()).take(encoded.indices))
        table = table.set_column(position, name, pa.chunked_array(chunks, pa.string()))
    return table


def _tsv_lines(table: Any) -> Iterator[str]:
    """The lines of a table as it is read: without quotes, so that a cell has no tab and no line
    end.
    """
    yield "\t".join(table.column_names)
    columns = [column.to_pylist() for column in table.columns]
    for row in zip(*columns, strict=True):
        yield "\t".join(_tsv_cell(value) for value in row)


def _tsv_cell(value: Any) -> str:
    if value is None:
        return ""
    return printable(" ".join(str(value).split()))


def _write_lines(lines: Iterable[str], target: Any) -> None:
    target.writelines(f"{line}\n".encode() for line in lines)
