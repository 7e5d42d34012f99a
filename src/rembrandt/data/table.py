"""Tables with a text and a label column: CSV, TSV, JSON lines and Parquet, read in batches of rows."""

import csv
import json
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from rembrandt.data.batches import Batch, Ids, datasets
from rembrandt.data.compressed import line_chunks, open_bytes
from rembrandt.data.dataset import Dataset
from rembrandt.data.detect import ReadOptions
from rembrandt.errors import DataError
from rembrandt.progress import Report, silent

_ROWS = 10_000  # in a batch

Cell = str | list[str | None] | None
Cells = dict[str, list[Cell]]


def table_parts(path: Path, format: str, options: ReadOptions, report: Report, rows: float) -> Iterator[Dataset]:
    """Read a table in parts of about ``rows`` examples, each over its own labels.

    Text columns are joined by a space. Labels are split at the separator; without one a cell is one label. A cell that
    is a list (JSON lines, Parquet) is a list of labels. A missing value is an empty text, or no label.
    """
    text, labels, separator = options.text, options.labels, options.label_separator
    chosen = [text] if isinstance(text, str) else list(text or ())
    if not chosen or (labels is None and not options.unlabelled):
        found = ", ".join(columns(path, format))
        missing = "text" if not chosen else "labels"
        message = f"the column with the {missing} is not known; set {missing} to one of the columns: {found}"
        raise DataError(message, path, parameter=missing)
    if separator == "":
        raise DataError("the label separator is empty; give the character between labels, or leave it out", path)
    batches = _batches(path, format, chosen, None if labels is None else str(labels), separator, report)
    return datasets(path, batches, rows, "at least one row below the column names")


def _batches(
    path: Path, format: str, texts: list[str], labels: str | None, separator: str | None, report: Report
) -> Iterator[Batch]:
    for cells in _cells(path, format, [*texts, *([] if labels is None else [labels])], report):
        for name in texts:
            if any(isinstance(cell, list) for cell in cells[name]):
                raise DataError(f"column {name!r} holds lists; expected text", path)
        joined: list[str] = [
            " ".join([cell or "" for cell in row]).strip() for row in zip(*(cells[t] for t in texts), strict=True)
        ]
        found = [[]] * len(joined) if labels is None else [_labels(cell, separator) for cell in cells[labels]]
        several = separator is not None or any(isinstance(cell, list) for cell in cells.get(labels or "", ()))
        yield Batch(Ids.of_lists(found), joined, task="multilabel" if several else "multiclass")


def _labels(cell: Cell, separator: str | None) -> list[str]:
    """The labels in a cell."""
    if isinstance(cell, str):
        cell = [cell] if separator is None else list(cell.split(separator))
    return [label for item in cell or () if (label := (item or "").strip())]


def columns(path: Path, format: str) -> list[str]:
    """The names of the columns of a table."""
    if format == "parquet":
        with _parquet(path) as file:
            return list(file.schema_arrow.names)
    if format == "jsonl":
        return next((list(row) for _, row in _json_rows(path)), [])
    return next(iter(_take(filter(None, _reader(path, format)), 1)), [])


def _cells(path: Path, format: str, wanted: list[str], report: Report) -> Iterator[Cells]:
    """The wanted columns of batches of rows."""
    if format == "jsonl":
        return _json_cells(path, wanted, report)
    found = columns(path, format)
    for name in wanted:
        if name not in found:
            raise DataError(f"there is no column {name!r}; the columns are {', '.join(found)}", path, 1)
        if found.count(name) > 1:
            raise DataError(f"two columns are called {name!r}; rename one of them", path, 1)
    if format == "parquet":
        return _parquet_cells(path, wanted, report)
    return _delimited_cells(path, format, wanted, report)


def _delimited_cells(path: Path, format: str, wanted: list[str], report: Report) -> Iterator[Cells]:
    rows = filter(None, _reader(path, format, report))  # without empty lines
    [names] = _take(rows, 1)
    while batch := _take(rows, _ROWS):
        if {*map(len, batch)} != {len(names)}:
            raise _uneven(path, format, len(names))
        yield {name: [row[i] for row in batch] for i, name in enumerate(names) if name in wanted}


def _reader(path: Path, format: str, report: Report = silent) -> Any:
    """An iterator over rows of cells. TSV has no quoting: a quote is part of the text."""
    lines = chain.from_iterable(StringIO(chunk.text(), newline="") for chunk in line_chunks(path, report))
    return csv.reader(lines) if format == "csv" else csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)


def _take(rows: Iterator[list[str]], n: int) -> list[list[str]]:
    """The next rows of a csv reader, whatever the length of their texts; the csv module allows 128 KB by default."""
    limit = csv.field_size_limit(2**31 - 1)
    try:
        return list(islice(rows, n))
    finally:
        csv.field_size_limit(limit)


def _uneven(path: Path, format: str, expected: int) -> DataError:
    """The error for the first row that does not have a cell for each column name."""
    reader, line = _reader(path, format), 1
    while len(cells := _take(reader, 1)[0]) in (0, expected):
        line = reader.line_num + 1
    found = f"expected {expected} columns, found {len(cells)}"
    return DataError(f"{found}; every row needs one cell for each column name", path, line)


def _json_cells(path: Path, wanted: list[str], report: Report) -> Iterator[Cells]:
    """Columns of batches. A name that some rows lack is a missing value; one that no row has is an error."""
    rows, names, missing = _json_rows(path, report), dict[str, None](), {*wanted}
    while batch := list(islice(rows, _ROWS)):
        if missing:
            names.update((name, None) for _, row in batch for name in row)
            missing -= names.keys()
        yield {name: [_json_cell(path, line, name, row.get(name)) for line, row in batch] for name in wanted}
    for name in wanted:
        if names and name in missing:
            raise DataError(f"no row has {name!r}; the names found are {', '.join(names)}", path)


def _json_rows(path: Path, report: Report = silent) -> Iterator[tuple[int, dict[str, Any]]]:
    """The line and the object of each row; empty lines are skipped."""
    for chunk in line_chunks(path, report):
        for line, text in enumerate(chunk.text().split("\n"), chunk.line):
            if not text.strip():
                continue
            try:
                row = json.loads(text)
            except (ValueError, RecursionError) as error:
                raise DataError(f"this line is not JSON ({error}); expected one object per line", path, line) from error
            if not isinstance(row, dict):
                raise DataError(f"found {text.strip()[:40]!r}; expected one object per line", path, line)
            yield line, row


def _json_cell(path: Path, line: int, name: str, value: Any) -> Cell:
    if isinstance(value, list) and not any(isinstance(item, list | dict) for item in value):
        return [_printable(path, line, name, item) for item in value if item is not None]
    if isinstance(value, list | dict):
        raise DataError(f"{name!r} holds a structure; expected a text, a number or a list of them", path, line)
    return None if value is None else _printable(path, line, name, value)


def _printable(path: Path, line: int, name: str, value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
        raise DataError(f"{name!r} holds half of a surrogate pair; expected whole characters", path, line)
    return text


@contextmanager
def _parquet(path: Path) -> Iterator[Any]:
    """An open Parquet file; errors of Arrow become a ``DataError``."""
    try:
        with open_bytes(path) as (_, raw), pa.parquet.ParquetFile(raw) as file:
            yield file
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise DataError(f"this is not a whole Parquet file ({error}); write or fetch it again", path) from error


def _parquet_cells(path: Path, wanted: list[str], report: Report) -> Iterator[Cells]:
    with _parquet(path) as file:
        done, total = 0, file.metadata.num_rows
        for batch in file.iter_batches(batch_size=_ROWS, columns=list(dict.fromkeys(wanted))):
            done += batch.num_rows
            report(f"Reading {path.name}", done, total)
            yield {name: _as_strings(path, batch.column(name), name) for name in wanted}


def _as_strings(path: Path, column: pa.Array, name: str) -> list[Cell]:
    kind = pa.large_string()
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type) or pa.types.is_fixed_size_list(column.type):
        kind = pa.list_(kind)
    try:
        return pc.cast(column, kind).to_pylist()
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise DataError(f"column {name!r} cannot be read as text ({error}); choose another column", path) from error
