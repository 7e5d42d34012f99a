"""Objects of JSON files: one in each line, or those of one array."""

import codecs
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rembrandt.data.compressed import MAX_LINE_BYTES, line_chunks, open_bytes
from rembrandt.data.encodings import as_utf8
from rembrandt.errors import DataError
from rembrandt.progress import Report, silent

JsonRow = tuple[int, dict[str, Any]]  # the line of a file, and the object that starts there

_BLOCK_BYTES = 1 << 20  # read at a time
_MAX_DEPTH = 8  # of objects within objects whose names are listed
_SPACE = re.compile(r"[ \t\n\r]*")


def line_rows(
    path: Path, report: Report = silent, encoding: str | None = None
) -> Iterator[JsonRow]:
    """The objects of a file with one in each line; empty lines are skipped."""
    for chunk in line_chunks(path, report, encoding=encoding):
        for line, text in enumerate(chunk.text().split("\n"), chunk.line):
            if not text.strip():
                continue
            try:
                row = json.loads(text)
            except (ValueError, RecursionError) as error:
                raise DataError(
                    f"this line is not JSON ({error}); expected one object per line", path, line
                ) from error
            if not isinstance(row, dict):
                raise DataError(
                    f"found {text.strip()[:40]!r}; expected one object per line", path, line
                )
            yield line, row


def array_rows(
    path: Path, report: Report = silent, encoding: str | None = None
) -> Iterator[JsonRow]:
    """The objects of a file that is one array, in bounded memory."""
    text = _Text(path, report, encoding)
    with text:
        if text.next_letter() != "[":
            raise text.error("expected an array of objects, such as [{...}, {...}]")
        text.skip(1)
        if text.next_letter() == "]":
            return
        while True:
            if text.next_letter() != "{":
                raise text.error("expected an object, such as {...}")
            line = text.line
            yield line, text.object()
            separator = text.next_letter()
            text.skip(1)
            if separator == "]":
                break
            if separator != ",":
                raise text.error("expected a comma or the end of the array after an object")
        if text.next_letter():
            raise text.error("expected the end of the file after the array")


class _Text:
    """The text of a file from a position that moves forward."""

    def __init__(self, path: Path, report: Report, encoding: str | None) -> None:
        self.path = path
        self.line = 1  # of the position
        self._report = report
        self._total = path.stat().st_size if path.exists() else 0
        self._opened = open_bytes(path)
        self._encoding = encoding
        self._text = ""
        self._position = 0
        self._utf8 = codecs.getincrementaldecoder("utf-8")()
        self._is_complete = False
        self._decoder = json.JSONDecoder()

    def __enter__(self) -> "_Text":
        encoded, self._raw = self._opened.__enter__()
        self._content = as_utf8(encoded, self._encoding, self.path)
        return self

    def __exit__(self, *error: Any) -> bool | None:
        return self._opened.__exit__(*error)

    def error(self, message: str) -> DataError:
        """An error at the position."""
        shown = self._text[self._position : self._position + 40].split("\n")[0]
        if shown:
            message = f"{message}; found {shown!r}"
        return DataError(message, self.path, self.line)

    def skip(self, count: int) -> None:
        """Move the position forward."""
        end = self._position + count
        self.line += self._text.count("\n", self._position, end)
        self._position = end

    def next_letter(self) -> str:
        """Move to the next character that is not white space and return it; empty at the end."""
        while True:
            match = _SPACE.match(self._text, self._position)
            self.skip(match.end() - self._position if match else 0)
            if self._position < len(self._text):
                return self._text[self._position]
            if self._is_complete:
                return ""
            self._read(_BLOCK_BYTES)

    def object(self) -> dict[str, Any]:
        """The object at the position, which moves behind it."""
        while True:
            try:
                row, end = self._decoder.raw_decode(self._text, self._position)
            except (ValueError, RecursionError) as error:
                length = len(self._text) - self._position
                if length > MAX_LINE_BYTES:
                    raise self.error(
                        f"no object ends within {MAX_LINE_BYTES:,} characters"
                    ) from error
                if self._is_complete or isinstance(error, RecursionError):
                    raise self.error(f"this object is not JSON ({error})") from error
                self._read(max(_BLOCK_BYTES, length))  # twice as much: the whole is read again
                continue
            self.skip(end - self._position)
            return dict(row)

    def _read(self, size: int) -> None:
        """Append text, and forget what is before the position."""
        data = self._content.read(size)
        self._report(f"Reading {self.path.name}", self._raw.tell(), self._total)
        self._is_complete = not data
        try:
            decoded = self._utf8.decode(data, final=self._is_complete)
        except UnicodeDecodeError as error:
            raise DataError(
                "the text below this line is not UTF-8; set encoding to that of the file, for "
                "instance cp1252",
                self.path,
                self.line + self._text.count("\n", self._position),
                "encoding",
            ) from error
        self._text = self._text[self._position :] + decoded
        self._position = 0


def paths_of(row: dict[str, Any], depth: int = 0) -> list[str]:
    """The names of an object; those of objects within it are joined by dots."""
    names = []
    for name, value in row.items():
        names.append(name)
        nested = value
        if isinstance(value, list) and value and isinstance(value[0], dict):
            nested = value[0]
        if isinstance(nested, dict) and depth < _MAX_DEPTH:
            names += [f"{name}.{inner}" for inner in paths_of(nested, depth + 1)]
    return names


def value_at(row: dict[str, Any], path: str) -> Any:
    """The value with this name or path; None if there is none.

    In a list of objects the path leads to the list of their values.
    """
    if path in row:
        return row[path]
    name, dot, rest = path.partition(".")
    nested = row.get(name)
    if not dot or nested is None:
        return None
    if isinstance(nested, dict):
        return value_at(nested, rest)
    if isinstance(nested, list) and all(isinstance(item, dict) for item in nested):
        return [value_at(item, rest) for item in nested]
    return None
