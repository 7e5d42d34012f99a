"""Tables with a text and a label column: CSV, TSV, JSON lines and Parquet, read in batches of
rows.
"""

from collections.abc import Iterator
from pathlib import Path

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
    texts = [options.text] if isinstance(options.text, str) else list(options.text or ())
    table = Table(path, format, options.delimiter)
    if not texts or (options.labels is None and not options.unlabelled):
        columns = ", ".join(table.columns())
        missing = "text" if not texts else "labels"
        message = (
            f"the column with the {missing} is not known; set {missing} to one of the columns: "
            f"{columns}"
        )
        raise DataError(message, path, parameter=missing)
    if options.label_separator == "":
        raise DataError(
            "the label separator is empty; give the character between labels, or leave it out", path
        )
    labels, separator = (
        None if options.labels is None else str(options.labels),
        options.label_separator,
    )
    wanted = [*texts, *(name for name in (labels, options.id) if name is not None)]
    for cells in table.batches(wanted, report):
        for name in (*texts, *([] if options.id is None else [options.id])):
            if any(isinstance(cell, list) for cell in cells[name]):
                raise DataError(f"column {name!r} holds lists; expected text", path)
        joined: list[str] = [
            " ".join([cell or "" for cell in row]).strip()
            for row in zip(*(cells[t] for t in texts), strict=True)
        ]
        own = cells.get(labels or "", [])
        found = [[]] * len(joined) if labels is None else [_labels(cell, separator) for cell in own]
        several = separator is not None or any(isinstance(cell, list) for cell in own)
        ids = None if options.id is None else [str(cell or "") for cell in cells[options.id]]
        yield Batch(
            Ids.of_lists(found), joined, task="multilabel" if several else "multiclass", names=ids
        )


def _labels(cell: Cell, separator: str | None) -> list[str]:
    """The labels in a cell; a text and a list of this one text are the same."""
    items = [cell] if isinstance(cell, str) else cell or []
    if separator is not None:
        items = [part for item in items for part in (item or "").split(separator)]
    return [label for item in items if (label := (item or "").strip())]
