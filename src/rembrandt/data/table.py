"""Tables with a text and a label column, read in batches of rows.

A table is CSV, TSV, JSON, Excel or Parquet.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rembrandt.data.batches import Batch, Columns, Ids
from rembrandt.data.cells import Cell, Table
from rembrandt.data.columns import TableColumns, choose_columns
from rembrandt.data.detect import ReadOptions
from rembrandt.data.frames import FrameTable
from rembrandt.data.label_cells import UnreadableList, labels_of
from rembrandt.errors import DataError
from rembrandt.progress import Report


def table_batches(
    path: Path, format: str, options: ReadOptions, report: Report
) -> tuple[Iterator[Batch], Columns]:
    """Return batches of the texts and labels of a table, and which columns they are from.

    Text columns are joined by a space. Labels are split at the separator; without one a cell is one
    label. A cell that is a list, or spells one, has the labels of its entries. A missing value is
    an empty text, or no label.
    """
    if options.label_separator == "":
        raise DataError(
            "the label separator is empty; give the character between labels, or leave it out",
            path,
        )
    table = Table(path, format, options.delimiter, options.encoding)
    used = table_columns(table, options)
    return _batches(table, used, options, report), Columns(table=used)


def frame_batches(
    frame: Any, options: ReadOptions, report: Report
) -> tuple[Iterator[Batch], Columns]:
    """As `table_batches`, for a table in memory."""
    table = FrameTable(frame)
    used = table_columns(table, options)
    return _batches(table, used, options, report), Columns(table=used)


def table_columns(table: Table | FrameTable, options: ReadOptions) -> TableColumns:
    """The columns to read: those that the options name, or else those whose names say it."""
    text = [options.text] if isinstance(options.text, str) else list(options.text or ())
    labels = None if options.labels is None else str(options.labels)
    needs_labels = not options.unlabelled
    if text and (labels is not None or not needs_labels):
        return TableColumns(tuple(text), labels)
    return choose_columns(table.path, table.columns(), text, labels, needs_labels)


def _batches(
    table: Table | FrameTable, used: TableColumns, options: ReadOptions, report: Report
) -> Iterator[Batch]:
    """Batches of the texts and labels in these columns."""
    single_columns = list(used.text)  # these may not hold lists
    wanted = list(used.text)
    if used.labels is not None:
        wanted.append(used.labels)
    if options.id is not None:
        single_columns.append(options.id)
        wanted.append(options.id)
    n_read = 0
    for cells in table.batches(wanted, report):
        for name in single_columns:
            if any(isinstance(cell, list) for cell in cells[name]):
                raise DataError(f"column {name!r} holds lists; expected text", table.path)
        texts = _joined([cells[name] for name in used.text])
        label_cells: list[Cell] = [None] * len(texts)
        if used.labels is not None:
            label_cells = cells[used.labels]
        ids = None
        if options.id is not None:
            ids = [str(cell or "") for cell in cells[options.id]]
        labels, has_lists = _label_lists(label_cells, options, table.path, n_read)
        is_multilabel = options.label_separator is not None or has_lists
        yield Batch(
            Ids.of_lists(labels),
            texts,
            task="multilabel" if is_multilabel else "multiclass",
            names=ids,
        )
        n_read += len(texts)


def _label_lists(
    cells: list[Cell], options: ReadOptions, path: Path | None, n_before: int
) -> tuple[list[list[str]], bool]:
    """The labels of each row, and whether some cells are or spell lists."""
    has_lists = False
    lists = []
    for row, cell in enumerate(cells, n_before + 1):
        try:
            labels = labels_of(cell, options.label_separator, options.verbatim_labels)
        except UnreadableList as error:
            raise DataError(
                f"the labels of example {row:,} look like a list, but are not one of JSON or "
                f'Python: {str(error)[:60]!r}; write them like ["a", "b"], or set '
                "verbatim_labels if each cell is one label",
                path,
                parameter="verbatim_labels",
            ) from error
        has_lists = has_lists or isinstance(cell, list) or len(labels) > 1
        lists.append(labels)
    return lists, has_lists


def _joined(columns: list[list[Any]]) -> list[str]:
    """The texts of each row, joined by a space; a missing one is empty."""
    rows = zip(*columns, strict=True)
    return [" ".join(cell or "" for cell in row).strip() for row in rows]
