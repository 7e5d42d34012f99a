"""Tables with a text and a label column, read in batches of rows.

A table is CSV, TSV, JSON lines or Parquet.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rembrandt.data.batches import Batch, Ids
from rembrandt.data.cells import Cell, Table
from rembrandt.data.detect import ReadOptions
from rembrandt.errors import DataError
from rembrandt.progress import Report


def table_batches(path: Path, format: str, options: ReadOptions, report: Report) -> Iterator[Batch]:
    """Read the texts and labels of a table.

    Text columns are joined by a space. Labels are split at the separator; without one a cell is one
    label. A cell that is a list (JSON lines, Parquet) has the labels of its entries. A missing
    value is an empty text, or no label.
    """
    text_columns = _text_columns(options)
    table = Table(path, format, options.delimiter)
    _check_options(table, text_columns, options)
    label_column = None
    if options.labels is not None:
        label_column = str(options.labels)
    separator = options.label_separator

    single_columns = list(text_columns)  # these may not hold lists
    wanted = list(text_columns)
    if label_column is not None:
        wanted.append(label_column)
    if options.id is not None:
        single_columns.append(options.id)
        wanted.append(options.id)
    for cells in table.batches(wanted, report):
        for name in single_columns:
            if any(isinstance(cell, list) for cell in cells[name]):
                raise DataError(f"column {name!r} holds lists; expected text", path)
        texts = _joined([cells[name] for name in text_columns])
        label_cells: list[Cell] = [None] * len(texts)
        if label_column is not None:
            label_cells = cells[label_column]
        has_lists = any(isinstance(cell, list) for cell in label_cells)
        ids = None
        if options.id is not None:
            ids = [str(cell or "") for cell in cells[options.id]]
        yield Batch(
            Ids.of_lists([_labels(cell, separator) for cell in label_cells]),
            texts,
            task="multilabel" if separator is not None or has_lists else "multiclass",
            names=ids,
        )


def _text_columns(options: ReadOptions) -> list[str]:
    """The columns of the text, which are given as one name or several."""
    if isinstance(options.text, str):
        return [options.text]
    return list(options.text or ())


def _check_options(table: Table, text_columns: list[str], options: ReadOptions) -> None:
    """Refuse to read a table whose columns are not named, and an empty separator."""
    missing = None
    if not text_columns:
        missing = "text"
    elif options.labels is None and not options.unlabelled:
        missing = "labels"
    if missing is not None:
        columns = ", ".join(table.columns())
        raise DataError(
            f"the column with the {missing} is not known; set {missing} to one of the columns: "
            f"{columns}",
            table.path,
            parameter=missing,
        )
    if options.label_separator == "":
        raise DataError(
            "the label separator is empty; give the character between labels, or leave it out",
            table.path,
        )


def _joined(columns: list[list[Any]]) -> list[str]:
    """The texts of each row, joined by a space; a missing one is empty."""
    rows = zip(*columns, strict=True)
    return [" ".join(cell or "" for cell in row).strip() for row in rows]


def _labels(cell: Cell, separator: str | None) -> list[str]:
    """The labels in a cell; a text and a list of this one text are the same."""
    items = [cell] if isinstance(cell, str) else cell
    labels = []
    for item in items or ():
        text = item or ""
        pieces = [text] if separator is None else text.split(separator)
        for piece in pieces:
            label = piece.strip()
            if label:
                labels.append(label)
    return labels
