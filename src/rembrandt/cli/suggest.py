"""``rembrandt suggest``: which texts a person should label next."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rembrandt.cli import options
from rembrandt.cli.annotating import SUFFIX, Tool, annotated
from rembrandt.cli.console import Console
from rembrandt.cli.options import option
from rembrandt.cli.output import atomic_file, check_file_target
from rembrandt.cli.reading import TextReading
from rembrandt.cli.saved import SavedModel, open_model
from rembrandt.errors import DataError, counted, printable

if TYPE_CHECKING:
    from rembrandt.data import Dataset
    from rembrandt.progress import Report
    from rembrandt.suggesting import Suggested

DEFAULT_ROWS = 100
_N_LABELS = 5  # that are shown with each text
_N_ASSIGNED = 50  # at most, in a file for another tool
_SUFFIXES = (".csv", ".jsonl", ".txt")


def suggest(
    model: options.ModelFolder,
    file: options.Unlabelled,
    *,
    reading: TextReading,
    id: Annotated[
        str | None,
        option("Column with the id of an example; by default its number.", metavar="COLUMN"),
    ] = None,
    rows: Annotated[int, option("Examples to suggest.", min=1, metavar="N")] = DEFAULT_ROWS,
    corrections: Annotated[
        Path | None,
        option(
            "All answers so far: these texts are left out, and texts like them come late.",
            metavar="FILE",
        ),
    ] = None,
    history: Annotated[
        str | None,
        option("The training examples: examples like them come late.", metavar="FILE"),
    ] = None,
    output: Annotated[
        Path | None, options.output_option("FILE", "Write a .csv, .jsonl or .txt file.")
    ] = None,
    tool: Annotated[
        Tool | None,
        typer.Option(
            "--for",
            metavar="TOOL",
            help="Write a .json file for label-studio or argilla, with the labels assigned.",
        ),
    ] = None,
    force: options.Force = False,
    console: Console,
) -> None:
    """Print the examples that a person should label next, the most valuable first.

    The first are those whose labels the model is least certain of, and that many other uncertain
    examples are similar to; examples like an earlier one come late. Name the training file with
    --history and the answers so far with --corrections, so that this holds for them, too. The file
    opens on the Review page of rembrandt serve, or in another tool with --for. After each hundred
    answers, fit again: see fit --corrections.
    """
    from rembrandt.errors import SettingsError
    from rembrandt.estimators.requests import prediction_model, rows_of
    from rembrandt.predict import assigned
    from rembrandt.suggesting import suggest as suggest_rows

    if tool is not None and output is None:
        raise SettingsError("--for writes a file; name it with --output")
    if output is not None:
        check_file_target(output, force, _SUFFIXES if tool is None else (SUFFIX,))
    if reading.vectors is not None and (corrections is not None or history is not None):
        raise SettingsError("--vectors are of FILE; leave out --corrections and --history")
    with console.progress() as report:
        saved = open_model(model)
        data = saved.read(file, reading, report, unlabelled=True, id=id)
        data, numbers, labelled_texts = _unreviewed(data, corrections, report)
        views = _views(saved, data, file, report)
        labelled = None
        if history is not None:
            old = saved.read(history, TextReading(), report, unlabelled=True)
            labelled_texts = [*(old.texts or ()), *labelled_texts]
            labelled = _views(saved, old, history, report)
        if labelled_texts:
            labelled = rows_of(saved.classifier, labelled_texts, report)
        fitted = prediction_model(saved.classifier)
        n_labels = _N_LABELS if tool is None else _N_ASSIGNED
        suggested = suggest_rows(fitted, views, rows, n_labels, labelled, report)
    documents = list(_documents(saved, data, numbers, suggested))
    if tool is not None and output is not None:
        if data.texts is None:
            raise DataError("these tools show texts; the examples are features", file)
        best = suggested.answer
        is_assigned = assigned(fitted, best.labels, best.probabilities)
        annotations = annotated(tool, documents, is_assigned, model.name, fitted.multiclass)
        with atomic_file(output) as target:
            target.write(json.dumps(annotations, ensure_ascii=False, indent=1).encode())
        console.say(f"Wrote {counted(len(documents), 'example')} to {output}, best first.")
        return
    if output is not None:
        with atomic_file(output) as target:
            _write(documents, output.suffix, target)
        console.say(f"Wrote {counted(len(documents), 'example')} to {output}, best first.")
        return
    if console.json:
        console.result({"model": str(model), "suggested": documents})
        return
    cells = []
    for document in documents:
        shown = document.get("text", document["id"])
        labels = ", ".join(label["name"] for label in document["suggested"][:2])
        cells.append([str(document["rank"]), _short(shown), labels])
    console.table(["", "text", "first labels"], cells, left=(1, 2))


def _unreviewed(
    data: Dataset, corrections: Path | None, report: Report
) -> tuple[Dataset, list[int], list[str]]:
    """Return the examples without a correction, their numbers in the file, and the corrected
    texts.
    """
    import numpy as np

    everything = list(range(data.n_examples))
    if corrections is None:
        return data, everything, []
    from rembrandt.data.corrections import read_corrections

    if data.texts is None:
        raise DataError("corrections are of texts; the examples are features", parameter="file")
    reviewed = [correction.text for correction in read_corrections(corrections, report)]
    is_reviewed = set(reviewed)
    kept = [row for row in everything if data.texts[row] not in is_reviewed]
    return data.rows(np.array(kept, dtype=np.int64)), kept, reviewed


def _views(saved: SavedModel, data: Dataset, file: str, report: Report) -> Any:
    """Return the rows in memory: similarities are computed between all of them."""
    from rembrandt.data.views import as_views
    from rembrandt.estimators.requests import dataset_rows

    if data.n_examples == 0:
        raise DataError("all examples were corrected; there is none to suggest", file)
    rows = dataset_rows(saved.classifier, data, report)
    if hasattr(rows, "resident"):  # a store
        rows = rows[:]
    return as_views(rows)


def _documents(
    saved: SavedModel, data: Dataset, numbers: list[int], suggested: Suggested
) -> Iterator[dict[str, Any]]:
    """What is known of each example, in the order of the suggestion."""
    index = saved.labels
    answer = suggested.answer
    for rank, row in enumerate(suggested.rows.tolist()):
        labels = []
        columns = answer.labels[rank].tolist()
        probabilities = answer.probabilities[rank].tolist()
        for column, probability in zip(columns, probabilities, strict=True):
            if column >= 0:
                labels.append(index.named(column) | {"probability": probability})
        identifier = numbers[row] + 1 if data.ids is None else data.ids[row]
        document: dict[str, Any] = {"rank": rank + 1, "id": identifier}
        if data.texts is not None:
            document["text"] = data.texts[row]
        document["suggested"] = labels
        yield document


def _write(documents: list[dict[str, Any]], suffix: str, target: Any) -> None:
    """Write examples in the format of the suffix."""
    if suffix == ".jsonl":
        lines = [json.dumps(document, ensure_ascii=False) for document in documents]
        target.write("".join(f"{line}\n" for line in lines).encode())
    elif suffix == ".txt":
        texts = [
            " ".join(str(document.get("text", document["id"])).split()) for document in documents
        ]
        target.write("".join(f"{text}\n" for text in texts).encode())
    else:
        target.write(_csv(documents).encode())


def _csv(documents: list[dict[str, Any]]) -> str:
    """A table whose texts a spreadsheet shows and does not run."""
    from rembrandt.explore.cells import harmless_cell

    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow(["rank", "id", "text", "suggested"])
    for document in documents:
        names = "; ".join(label["name"] for label in document["suggested"])
        text = document.get("text", "")
        cells = [harmless_cell(str(cell)) for cell in (document["id"], text, names)]
        writer.writerow([document["rank"], *cells])
    return buffer.getvalue()


def _short(text: Any) -> str:
    """The beginning of a text on one line."""
    line = printable(" ".join(str(text).split()))
    if len(line) > 100:
        return line[:99] + "…"
    return line
