"""Tables with a text and a label column: CSV, TSV, JSON lines and Parquet, read in batches."""

import csv
import json
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from rembrandt.data.compressed import decode, first_line_not_utf8, head, line_chunks, not_utf8, open_bytes
from rembrandt.data.dataset import Dataset, Notes
from rembrandt.data.sparse import Vocabulary, label_rows
from rembrandt.errors import DataError
from rembrandt.progress import Report, silent

# Arrow wants a block to hold at least one row, so a file with a longer row is read again in larger blocks.
_BLOCKS = (8 << 20, 128 << 20, (1 << 31) - 1)
_LONGEST_HEADER = 1 << 20


def read_table(
    path: Path,
    format: str,
    text: str | Sequence[str] | None,
    labels: str | None,
    label_separator: str | None = None,
    unlabelled: bool = False,
    report: Report = silent,
) -> Dataset:
    """Read the text columns, joined by a space, and the label column, split at ``label_separator`` when it is given.

    Without a separator a cell is one label; a cell that is a list (JSON lines, Parquet) is a list of labels. A missing
    value is an empty text, or no label.
    """
    return next(table_parts(path, format, text, labels, label_separator, unlabelled, report))


def table_parts(
    path: Path,
    format: str,
    text: str | Sequence[str] | None,
    labels: str | None,
    label_separator: str | None = None,
    unlabelled: bool = False,
    report: Report = silent,
    rows: float = math.inf,
) -> Iterator[Dataset]:
    """The table in parts of about ``rows`` examples, each over its own labels."""
    chosen = [text] if isinstance(text, str) else list(text or ())
    if not chosen or (labels is None and not unlabelled):
        found = ", ".join(columns(path, format))
        missing = "text" if not chosen else "labels"
        said = f"the column with the {missing} is not known; set {missing} to one of the columns: {found}"
        raise DataError(said, path, parameter=missing)
    if label_separator == "":
        raise DataError("the label separator is empty; give the character between labels, or leave it out", path)
    wanted = [*chosen, *([] if labels is None else [labels])]

    part = _Part(several=label_separator is not None)
    begun = False
    for batch in _batches(path, format, wanted, report):
        joined = [_as_text(path, batch, name) for name in chosen]
        whole = (
            joined[0] if len(joined) == 1 else pc.binary_join_element_wise(*joined, pa.scalar(" ", pa.large_string()))
        )
        part.texts.extend(pc.utf8_trim_whitespace(whole).to_pylist())
        if labels is None:
            part.per_row.append(np.zeros(batch.num_rows, np.int64))
        else:
            part.add_labels(*_as_lists(path, batch, labels, label_separator), batch.num_rows)
        if len(part.texts) >= rows:
            yield part.assembled()
            part, begun = _Part(part.several), True
    if part.texts:
        yield part.assembled()
    elif not begun:
        raise DataError("there are no rows in this table; expected at least one below the column names", path)


class _Part:
    """Batches on their way to a dataset."""

    def __init__(self, several: bool) -> None:
        self.several = several
        self.texts: list[str] = []
        self.names = Vocabulary()
        self.ids, self.per_row = [np.empty(0, np.int64)], [np.empty(0, np.int64)]

    def add_labels(self, lists: pa.Array, are_lists: bool, n_rows: int) -> None:
        self.several |= are_lists
        cells = pc.utf8_trim_whitespace(pc.fill_null(pc.list_flatten(lists), ""))
        rows = pc.list_parent_indices(lists).to_numpy()
        kept = pc.not_equal(cells, "").to_numpy(zero_copy_only=False)
        encoded = cells.filter(pa.array(kept)).dictionary_encode()
        self.ids.append(self.names.add(encoded.dictionary.to_pylist())[encoded.indices.to_numpy()])
        self.per_row.append(np.bincount(rows[kept], minlength=n_rows))

    def assembled(self) -> Dataset:
        names, place = self.names.in_order()
        Y, repeated = label_rows(np.concatenate(self.per_row), place[np.concatenate(self.ids)], len(names))
        return Dataset.build(
            Y,
            texts=self.texts,
            label_names=names,
            task="multilabel" if self.several else "multiclass",
            notes=Notes(duplicate_labels=repeated),
        )


def columns(path: Path, format: str) -> list[str]:
    """The names of a table's columns."""
    if format == "parquet":
        with _parquet(path) as file:
            return list(file.schema_arrow.names)
    if format == "jsonl":
        first = next(_json_rows(path), None)
        return [] if first is None else list(first[1])
    top = head(path, _LONGEST_HEADER).lstrip(b"\r\n")
    names = decode(re.split(rb"[\r\n]", top, maxsplit=1)[0], path, 1)
    if format == "tsv":
        return names.split("\t")
    try:
        return next(csv.reader([names]), [])
    except csv.Error as error:
        raise DataError(
            f"the column names cannot be read ({error}); expected names with commas between", path, 1
        ) from error


def _batches(path: Path, format: str, wanted: list[str], report: Report) -> Iterator[pa.RecordBatch]:
    if format == "jsonl":
        yield from _json_batches(path, wanted, report)
        return
    found = columns(path, format)
    for name in wanted:
        if name not in found:
            raise DataError(f"there is no column {name!r}; the columns are {', '.join(found)}", path, 1)
        if found.count(name) > 1:
            raise DataError(f"two columns are called {name!r}; rename one of them", path, 1)
    if format == "parquet":
        yield from _parquet_batches(path, wanted, report)
    else:
        yield from _delimited_batches(path, format, wanted, report)


def _delimited_batches(path: Path, format: str, wanted: list[str], report: Report) -> Iterator[pa.RecordBatch]:
    quoted = format == "csv"  # a TSV has no quoting: a quote in it is part of the text
    parse = pa.csv.ParseOptions(
        delimiter="," if quoted else "\t", quote_char='"' if quoted else False, newlines_in_values=quoted
    )
    convert = pa.csv.ConvertOptions(
        include_columns=list(dict.fromkeys(wanted)),
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
        return not_utf8(path, first_line_not_utf8(path))
    row = re.search(r"Row #(\d+): (.*)", said, re.DOTALL)
    detail = (row.group(2) if row else said).split("\n")[0][:200]
    line = _line_of_row(path, int(row.group(1)), quoted) if row else None
    return DataError(f"{detail}; every row needs one cell for each column name", path, line)


def _line_of_row(path: Path, wanted: int, quoted: bool) -> int:
    """The line that a row starts on: Arrow counts no empty lines, and a quoted cell may run over several."""
    row, line, start = 0, 0, 1
    inside_quotes = False
    for chunk in line_chunks(path):
        for text in chunk.splitlines():
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
    line = 1
    for chunk in line_chunks(path, report):
        for number, row in zip(count(line), decode(chunk, path, line).split("\n"), strict=False):
            if not row.strip():
                continue
            try:
                value = json.loads(row)
            except (ValueError, RecursionError) as error:
                raise DataError(
                    f"this line is not JSON ({error}); expected one object per line", path, number
                ) from error
            if not isinstance(value, dict):
                raise DataError(f"found {row.strip()[:40]!r}; expected one object per line", path, number)
            yield number, value
        line += chunk.count(b"\n")


def _json_batches(path: Path, wanted: list[str], report: Report, size: int = 10_000) -> Iterator[pa.RecordBatch]:
    """Rows of cells in batches. A name that some rows lack is a missing value; one that no row has is a mistake."""
    cells: dict[str, list[Any]] = {name: [] for name in wanted}
    seen: set[str] = set()
    met: dict[str, None] = {}
    for number, row in _json_rows(path, report):
        seen.update(name for name in wanted if name in row)
        if len(seen) < len(cells):
            met.update(dict.fromkeys(row))
        for name, column in cells.items():
            column.append(_json_cell(path, number, name, row.get(name)))
        if len(cells[wanted[0]]) == size:
            yield _json_batch(cells)
            cells = {name: [] for name in wanted}
    if cells[wanted[0]]:
        yield _json_batch(cells)
    for name in wanted:
        if met and name not in seen:
            raise DataError(f"no row has {name!r}; the names found are {', '.join(met)}", path)


def _json_cell(path: Path, line: int, name: str, value: Any) -> str | list[str] | None:
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


def _json_batch(cells: dict[str, list[Any]]) -> pa.RecordBatch:
    """A batch of strings, or of lists of strings where any cell of a column is a list."""
    arrays = []
    for column in cells.values():
        if any(isinstance(cell, list) for cell in column):
            lists = [cell if cell is None or isinstance(cell, list) else [cell] for cell in column]
            arrays.append(pa.array(lists, pa.list_(pa.large_string())))
        else:
            arrays.append(pa.array(column, pa.large_string()))
    return pa.record_batch(arrays, names=list(cells))


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
        for batch in file.iter_batches(batch_size=10_000, columns=list(dict.fromkeys(wanted))):
            done += batch.num_rows
            report(f"Reading {path.name}", done, total)
            yield batch


def _as_text(path: Path, batch: pa.RecordBatch, name: str) -> pa.Array:
    """A column as strings, missing values being empty."""
    column = batch.column(name)
    if _is_list(column.type):
        raise DataError(f"column {name!r} holds lists; expected text", path)
    return pc.fill_null(_to_strings(path, column, name), "")


def _as_lists(path: Path, batch: pa.RecordBatch, name: str, separator: str | None) -> tuple[pa.Array, bool]:
    """A column as lists of strings, and whether its cells were lists already."""
    column = batch.column(name)
    if _is_list(column.type):
        lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy()
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        values = _to_strings(path, pc.list_flatten(column), name)
        return pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), values), True
    strings = pc.fill_null(_to_strings(path, column, name), "")
    if separator is not None:
        return pc.split_pattern(strings, separator), False
    return pa.LargeListArray.from_arrays(pa.array(np.arange(len(strings) + 1)), strings), False


def _is_list(kind: pa.DataType) -> bool:
    return pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)


def _to_strings(path: Path, column: pa.Array, name: str) -> pa.Array:
    try:
        return pc.cast(column, pa.large_string())
    except pa.ArrowException as error:
        raise DataError(f"column {name!r} cannot be read as text ({error}); choose another column", path) from error
