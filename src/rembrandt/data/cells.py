"""Cells of tables: CSV, TSV, JSON, Excel and Parquet, read in batches of rows.

In JSON and Parquet the name of a column may be a path, such as ``doc.title``.
"""

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from io import StringIO
from itertools import islice
from pathlib import Path
from typing import Any

from rembrandt.data.arrays import is_missing
from rembrandt.data.compressed import line_chunks
from rembrandt.data.json_rows import JsonRow, array_rows, line_rows, paths_of, value_at
from rembrandt.data.sheets import sheet_rows
from rembrandt.errors import DataError
from rembrandt.progress import Report, silent

_BATCH_ROWS = 10_000  # few enough that the cells of a batch take little memory
_DELIMITERS = ",;\t"  # in order of preference
_LONGEST_CELL = 2**31 - 1  # characters; the limit of the csv module is 131,072 by default

_JSON_FORMATS = ("jsonl", "json")

Cell = str | list[str | None] | None
Cells = dict[str, list[Cell]]


@dataclass(frozen=True)
class Table:
    """A table in a file. The delimiter is for CSV; None detects it from the first line."""

    path: Path
    format: str
    delimiter: str | None = None
    encoding: str | None = None

    def __post_init__(self) -> None:
        if self.delimiter is not None and (len(self.delimiter) != 1 or self.delimiter in '"\r\n'):
            raise DataError(
                f"the delimiter {self.delimiter!r} is not one character",
                self.path,
                parameter="delimiter",
            )

    def columns(self) -> list[str]:
        """The names of the columns; those of structures are paths."""
        if self.format == "parquet":
            from rembrandt.data.parquet import column_paths, open_parquet  # pyarrow loads slowly

            with open_parquet(self.path) as file:
                return column_paths(file.schema_arrow)
        if self.format in _JSON_FORMATS:
            names: dict[str, None] = {}  # a set that keeps the order
            for _, row in self._json_rows():
                names.update(dict.fromkeys(paths_of(row)))
            return list(names)
        rows = filter(None, self.rows())  # without empty lines
        first_rows = _take(rows, 1)
        return first_rows[0] if first_rows else []

    def batches(self, wanted: list[str], report: Report = silent) -> Iterator[Cells]:
        """The wanted columns of batches of rows."""
        if self.format in _JSON_FORMATS:
            return _json_cells(self.path, self._json_rows(report), wanted)
        columns = self.columns()
        for name in wanted:
            if name not in columns:
                raise DataError(
                    f"there is no column {name!r}; the columns are {', '.join(columns)}",
                    self.path,
                    1,
                )
            if columns.count(name) > 1:
                raise DataError(
                    f"two columns are called {name!r}; rename one of them", self.path, 1
                )
        if self.format == "parquet":
            from rembrandt.data.parquet import parquet_cells

            return parquet_cells(self.path, wanted, report)
        return self._delimited_cells(wanted, report)

    def _json_rows(self, report: Report = silent) -> Iterator[JsonRow]:
        read_rows = array_rows if self.format == "json" else line_rows
        return read_rows(self.path, report, self.encoding)

    def _delimited_cells(self, wanted: list[str], report: Report) -> Iterator[Cells]:
        rows = filter(None, self.rows(report))  # without empty lines
        [names] = _take(rows, 1)
        while batch := _take(rows, _BATCH_ROWS):
            if any(len(row) != len(names) for row in batch):
                raise self._uneven(len(names))
            cells: Cells = {}
            for i, name in enumerate(names):
                if name in wanted:
                    cells[name] = [row[i] for row in batch]
            yield cells

    def rows(self, report: Report = silent) -> Any:
        """An iterator over the rows of a CSV, TSV or Excel file.

        TSV has no quoting: a quote is part of the text.
        """
        if self.format == "xlsx":
            return sheet_rows(self.path, report)
        lines = _lines(self.path, report, self.encoding)
        if self.format == "tsv":
            return csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
        return csv.reader(lines, delimiter=self.used_delimiter())

    def rows_of_any_length(self) -> Iterator[list[str]]:
        """The rows of a CSV, TSV or Excel file, with cells of any length."""
        rows = self.rows()
        while batch := _take(rows, _BATCH_ROWS):
            yield from batch

    def used_delimiter(self) -> str:
        """What separates the cells of a row; Excel has none, and is written with commas."""
        if self.format == "tsv":
            return "\t"
        if self.format != "csv":
            return ","
        return self.delimiter or self._detected_delimiter()

    def _detected_delimiter(self) -> str:
        """The delimiter that gives the first line the most columns, a comma if several do."""
        lines = (line for line in _lines(self.path, encoding=self.encoding) if line.strip())
        first_line = list(islice(lines, 1))

        def n_columns(delimiter: str) -> int:
            rows = _take(csv.reader(first_line, delimiter=delimiter), 1)
            return len(rows[0]) if rows else 0

        return max(_DELIMITERS, key=n_columns)

    def _uneven(self, expected: int) -> DataError:
        """The error for the first row that does not have a cell for each column name."""
        reader = self.rows()
        while True:
            line = reader.line_num + 1
            [cells] = _take(reader, 1)
            if len(cells) not in (0, expected):
                break
        return DataError(
            f"expected {expected} columns, found {len(cells)}; every row needs one cell for each "
            "column name",
            self.path,
            line,
        )


def _lines(path: Path, report: Report = silent, encoding: str | None = None) -> Iterator[str]:
    """The lines of a file, with their ends."""
    for chunk in line_chunks(path, report, encoding=encoding):
        yield from StringIO(chunk.text(), newline="")


def _take(rows: Iterator[list[str]], n: int) -> list[list[str]]:
    """The next rows of a csv reader, with texts of any length; the csv module allows 128 KB by
    default.
    """
    limit = csv.field_size_limit(_LONGEST_CELL)
    try:
        return list(islice(rows, n))
    finally:
        csv.field_size_limit(limit)


def _json_cells(path: Path, rows: Iterator[JsonRow], wanted: list[str]) -> Iterator[Cells]:
    """Columns of batches.

    A name that some rows lack is a missing value; one that no row has is an error.
    """
    names: dict[str, None] = {}  # a set that keeps the order
    missing = set(wanted)
    while batch := list(islice(rows, _BATCH_ROWS)):
        if missing:
            for _, row in batch:
                names.update(dict.fromkeys(paths_of(row)))
            missing -= names.keys()
        cells: Cells = {}
        for name in wanted:
            cells[name] = [_json_cell(path, line, name, value_at(row, name)) for line, row in batch]
        yield cells
    for name in wanted:
        if names and name in missing:
            raise DataError(f"no row has {name!r}; the names found are {', '.join(names)}", path)


def _json_cell(path: Path, line: int, name: str, value: Any) -> Cell:
    """A value of an object as text, or as a list of texts."""
    is_nested = isinstance(value, list) and any(isinstance(item, list | dict) for item in value)
    if is_nested or isinstance(value, dict):
        raise DataError(
            f"{name!r} holds a structure; expected a text, a number or a list of them", path, line
        )
    if isinstance(value, list):
        return [_printable(path, line, name, item) for item in value if not is_missing(item)]
    if is_missing(value):
        return None
    return _printable(path, line, name, value)


def _printable(path: Path, line: int, name: str, value: Any) -> str:
    """A value as text, which must be valid Unicode."""
    text = value if isinstance(value, str) else json.dumps(value)
    if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
        raise DataError(
            f"{name!r} holds half of a surrogate pair; expected whole characters", path, line
        )
    return text
