"""Tables with a text and a label column: CSV, TSV, JSON lines and Parquet, read in batches."""

import csv
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from rembrandt.data.batches import Batch, Ids, datasets
from rembrandt.data.compressed import Chunk, head, line_chunks, open_bytes
from rembrandt.data.dataset import Dataset
from rembrandt.data.detect import ReadOptions
from rembrandt.errors import DataError
from rembrandt.progress import Report, silent

# Arrow wants a block to hold at least one row, so a file with a longer row is read again in larger blocks.
_BLOCKS = (8 << 20, 128 << 20, (1 << 31) - 1)
_LONGEST_HEADER = 1 << 20
_ROWS = 10_000  # in a batch

Cell = str | list[str | None] | None


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
        raise DataError(f"say which column holds the {missing}, with {missing}=...; the columns are {found}", path)
    if separator == "":
        raise DataError("the label separator is empty; give the character between labels, or leave it out", path)
    batches = _batches(path, format, chosen, None if labels is None else str(labels), separator, report)
    return datasets(path, batches, rows, "at least one row below the column names")


def _batches(
    path: Path, format: str, texts: list[str], labels: str | None, separator: str | None, report: Report
) -> Iterator[Batch]:
    for cells in _cells(path, format, [*texts, *([] if labels is None else [labels])], report):
        if any(isinstance(cell, list) for name in texts for cell in cells[name]):
            raise DataError(f"column {' or '.join(map(repr, texts))} holds lists; expected text", path)
        joined = [" ".join(cell or "" for cell in row).strip() for row in zip(*(cells[t] for t in texts), strict=True)]
        found = [_labels(cell, separator) for cell in cells[labels]] if labels is not None else [[]] * len(joined)
        several = separator is not None or any(isinstance(cell, list) for cell in cells.get(labels or "", ()))
        yield Batch(Ids.of_lists(found), joined, task="multilabel" if several else "multiclass")


def _labels(cell: Cell, separator: str | None) -> list[str]:
    """The labels in a cell."""
    if isinstance(cell, str):
        cell = [cell] if separator is None else list(cell.split(separator))
    return [label for item in cell or () if (label := (item or "").strip())]


def columns(path: Path, format: str) -> list[str]:
    """The names of a table's columns."""
    if format == "parquet":
        with _parquet(path) as file:
            return list(file.schema_arrow.names)
    if format == "jsonl":
        first = next(_json_rows(path), None)
        return [] if first is None else list(first[1])
    top = head(path, _LONGEST_HEADER).lstrip(b"\r\n")
    names = Chunk(re.split(rb"[\r\n]", top, maxsplit=1)[0], path, 1).text()
    if format == "tsv":
        return names.split("\t")
    try:
        return next(csv.reader([names]), [])
    except csv.Error as error:
        raise DataError(
            f"the column names cannot be read ({error}); expected names with commas between", path, 1
        ) from error


def _cells(path: Path, format: str, wanted: list[str], report: Report) -> Iterator[dict[str, list[Cell]]]:
    """The wanted columns of batches of rows."""
    if format == "jsonl":
        yield from _json_cells(path, wanted, report)
        return
    found = columns(path, format)
    for name in wanted:
        if name not in found:
            raise DataError(f"there is no column {name!r}; the columns are {', '.join(found)}", path, 1)
        if found.count(name) > 1:
            raise DataError(f"two columns are called {name!r}; rename one of them", path, 1)
    batches = _parquet_batches if format == "parquet" else partial(_delimited_batches, format == "csv")
    for batch in batches(path, list(dict.fromkeys(wanted)), report):
        yield {name: _as_strings(path, batch.column(name), name) for name in wanted}


def _as_strings(path: Path, column: pa.Array, name: str) -> list[Cell]:
    kind = pa.large_string()
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type) or pa.types.is_fixed_size_list(column.type):
        kind = pa.list_(kind)
    try:
        return pc.cast(column, kind).to_pylist()
    except pa.ArrowException as error:
        raise DataError(f"column {name!r} cannot be read as text ({error}); choose another column", path) from error


def _delimited_batches(quoted: bool, path: Path, wanted: list[str], report: Report) -> Iterator[pa.RecordBatch]:
    """Batches of a CSV file, or of a TSV file, which has no quoting: a quote in it is part of the text."""
    parse = pa.csv.ParseOptions(
        delimiter="," if quoted else "\t", quote_char='"' if quoted else False, newlines_in_values=quoted
    )
    convert = pa.csv.ConvertOptions(
        include_columns=wanted,
        column_types=dict.fromkeys(wanted, pa.string()),
        strings_can_be_null=False,
    )
    total = path.stat().st_size
    handed_out = 0
    for block in _BLOCKS:
        options = pa.csv.ReadOptions(block_size=block, use_threads=False)
        skip = handed_out
        with open_bytes(path) as (content, raw):
            try:
                for batch in pa.csv.open_csv(content, options, parse, convert):
                    report(f"Reading {path.name}", raw.tell(), total)
                    fresh = batch.slice(skip)
                    skip = max(0, skip - batch.num_rows)
                    handed_out += fresh.num_rows
                    yield fresh
                return
            except pa.ArrowException as error:
                if block == _BLOCKS[-1] or "straddling" not in str(error):
                    raise _delimited_error(path, str(error), quoted) from error


def _delimited_error(path: Path, said: str, quoted: bool) -> DataError:
    if "UTF8" in said:
        for chunk in line_chunks(path):
            chunk.text()  # raises, with the line
    row = re.search(r"Row #(\d+): (.*)", said, re.DOTALL)
    detail = (row.group(2) if row else said).split("\n")[0][:200]
    line = _line_of_row(path, int(row.group(1)), quoted) if row else None
    return DataError(f"{detail}; every row needs one cell for each column name", path, line)


def _line_of_row(path: Path, wanted: int, quoted: bool) -> int:
    """The line that a row starts on: Arrow counts no empty lines, and a quoted cell may run over several."""
    row, line, start = 0, 0, 1
    inside_quotes = False
    for chunk in line_chunks(path):
        for text in chunk.data.splitlines():
            line += 1
            if not inside_quotes:
                start = line
                row += bool(text)
            if row == wanted:
                return start
            inside_quotes ^= quoted and text.count(b'"') % 2 == 1
    return line


def _json_rows(path: Path, report: Report = silent) -> Iterator[tuple[int, dict[str, Any]]]:
    """Each line's number and object; empty lines are passed over."""
    for chunk in line_chunks(path, report):
        for line, row in enumerate(chunk.text().split("\n"), chunk.line):
            if not row.strip():
                continue
            try:
                value = json.loads(row)
            except (ValueError, RecursionError) as error:
                raise DataError(f"this line is not JSON ({error}); expected one object per line", path, line) from error
            if not isinstance(value, dict):
                raise DataError(f"found {row.strip()[:40]!r}; expected one object per line", path, line)
            yield line, value


def _json_cells(path: Path, wanted: list[str], report: Report) -> Iterator[dict[str, list[Cell]]]:
    """Batches of rows. A name that some rows lack is a missing value; one that no row has is an error."""
    rows, names, seen = _json_rows(path, report), dict[str, None](), set[str]()
    while batch := list(islice(rows, _ROWS)):
        for _, row in batch:
            seen.update(name for name in wanted if name in row)
            if len(seen) < len(set(wanted)):
                names.update(dict.fromkeys(row))
        yield {name: [_json_cell(path, line, name, row.get(name)) for line, row in batch] for name in wanted}
    for name in wanted:
        if names and name not in seen:
            raise DataError(f"no row has {name!r}; the names found are {', '.join(names)}", path)


def _json_cell(path: Path, line: int, name: str, value: Any) -> Cell:
    if value is None:
        return None
    if isinstance(value, list) and not any(isinstance(item, list | dict) for item in value):
        return [_printable(path, line, name, item) for item in value if item is not None]
    if isinstance(value, list | dict):
        raise DataError(f"{name!r} holds a structure; expected a text, a number or a list of them", path, line)
    return _printable(path, line, name, value)


def _printable(path: Path, line: int, name: str, value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
        raise DataError(f"{name!r} holds half of a surrogate pair; expected whole characters", path, line)
    return text


@contextmanager
def _parquet(path: Path) -> Iterator[Any]:
    """An open Parquet file whose troubles come out as errors of ours."""
    try:
        with open_bytes(path) as (_, raw), pa.parquet.ParquetFile(raw) as file:
            yield file
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"this is not a whole Parquet file ({error}); write or fetch it again", path) from error


def _parquet_batches(path: Path, wanted: list[str], report: Report) -> Iterator[pa.RecordBatch]:
    with _parquet(path) as file:
        done, total = 0, file.metadata.num_rows
        for batch in file.iter_batches(batch_size=_ROWS, columns=wanted):
            done += batch.num_rows
            report(f"Reading {path.name}", done, total)
            yield batch
