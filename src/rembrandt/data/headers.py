"""Whether the first lines of a text are those of a table."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path

from rembrandt.data.compressed import head

_DELIMITERS = {"csv": ",;", "tsv": "\t"}
_COMPARED_LINES = 20
_MIN_LINES = 3  # fewer with the same number of cells are no evidence


def table_format(
    path: Path,
    columns: Sequence[str],
    encoding: str | None = None,
) -> str | None:
    """Return the format of a table whose first line names all of these columns; else None."""
    lines = _first_lines(path, encoding)
    if not lines:
        return None
    header = lines[0].lstrip()
    if header.startswith("[") and _is_object(header[1:], columns):
        return "json"
    if _is_object(header, columns):
        return "jsonl"
    wanted = set(columns)
    for format, delimiters in _DELIMITERS.items():
        for delimiter in delimiters:
            if wanted <= set(_cells(lines[0], delimiter)):
                return format
    return None


def looks_like_table(path: Path, encoding: str | None = None) -> bool:
    """Whether the first lines all have the same number of cells, more than one."""
    lines = _first_lines(path, encoding)
    if len(lines) < _MIN_LINES:
        return False
    all_delimiters = "".join(_DELIMITERS.values())
    for delimiter in all_delimiters:
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
    filled = [line.rstrip("\r") for line in lines if line.strip()]
    return filled[:_COMPARED_LINES]


def _cells(line: str, delimiter: str) -> list[str]:
    """The cells of a line."""
    try:
        rows = list(csv.reader([line], delimiter=delimiter))
    except csv.Error:
        return [line]
    if not rows:
        return []
    return [cell.strip() for cell in rows[0]]


def _is_object(text: str, columns: Sequence[str]) -> bool:
    """Whether a text begins with an object that has these columns, or the roots of these paths."""
    text = text.lstrip()
    if not text.startswith("{"):
        return False
    decoder = json.JSONDecoder()
    try:
        row, _ = decoder.raw_decode(text)
    except (ValueError, RecursionError):
        return False
    for name in columns:
        root, _, _ = name.partition(".")
        if name not in row and root not in row:
            return False
    return True
