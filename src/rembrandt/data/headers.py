"""Whether the first lines of a text are those of a table."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path

from rembrandt.data.compressed import head

_DELIMITERS = {"csv": ",;", "tsv": "\t"}
_COMPARED_LINES = 20
_MIN_LINES = 3  # fewer with the same number of cells are no evidence


def table_format(path: Path, columns: Sequence[str], encoding: str | None = None) -> str | None:
    """Return the format of a table whose first line names all of these columns; else None."""
    lines = _first_lines(path, encoding)
    if not lines:
        return None
    if lines[0].lstrip().startswith("[") and _is_object(lines[0].lstrip()[1:], columns):
        return "json"
    if _is_object(lines[0], columns):
        return "jsonl"
    for format, delimiters in _DELIMITERS.items():
        for delimiter in delimiters:
            if set(columns) <= set(_cells(lines[0], delimiter)):
                return format
    return None


def looks_like_table(path: Path, encoding: str | None = None) -> bool:
    """Whether the first lines all have the same number of cells, more than one."""
    lines = _first_lines(path, encoding)
    if len(lines) < _MIN_LINES:
        return False
    for delimiter in "".join(_DELIMITERS.values()):
        widths = {len(_cells(line, delimiter)) for line in lines}
        if len(widths) == 1 and widths != {1}:
            return True
    return False


def _first_lines(path: Path, encoding: str | None) -> list[str]:
    """The first whole lines that are not empty; one that does not end is whole if it is the only
    one.
    """
    text = head(path, encoding=encoding).decode("utf-8", "replace")
    lines = text.split("\n")
    if len(lines) > 1:
        lines = lines[:-1]
    return [line.rstrip("\r") for line in lines if line.strip()][:_COMPARED_LINES]


def _cells(line: str, delimiter: str) -> list[str]:
    """The cells of a line."""
    try:
        rows = list(csv.reader([line], delimiter=delimiter))
    except csv.Error:
        return [line]
    return [cell.strip() for cell in rows[0]] if rows else []


def _is_object(text: str, columns: Sequence[str]) -> bool:
    """Whether a text begins with an object that has these columns, or the roots of these paths."""
    if not text.lstrip().startswith("{"):
        return False
    try:
        row, _ = json.JSONDecoder().raw_decode(text.lstrip())
    except (ValueError, RecursionError):
        return False
    return all(name in row or name.split(".")[0] in row for name in columns)
