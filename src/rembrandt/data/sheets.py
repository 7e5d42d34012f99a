"""Rows of Excel files (.xlsx), by openpyxl.

A sheet is a compressed archive: a small file can describe billions of cells, so sizes are checked
before and while it is read.
"""

import datetime
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rembrandt.errors import DataError, RembrandtError
from rembrandt.progress import Report, silent

_MAX_EXPANDED_BYTES = 1 << 28  # of all members, allowed in any file
_MAX_EXPANSION = 64  # an archive with more bytes needs a file in proportion
_MAX_CELLS = 1 << 24
_REPORTED_ROWS = 1000


class SheetRows(Iterator[list[str]]):
    """The rows of the first sheet that has any, as texts; empty cells are empty texts."""

    def __init__(self, path: Path, report: Report = silent) -> None:
        self.path = path
        self.line_num = 0
        self._rows = _rows(path, report)
        self._width: int | None = None
        self._n_cells = 0

    def __next__(self) -> list[str]:
        values = next(self._rows)
        self.line_num += 1
        self._n_cells += max(1, len(values))
        if self._n_cells > _MAX_CELLS:
            raise DataError(
                f"the sheet has more than {_MAX_CELLS:,} cells; save it as .csv", self.path
            )
        cells = [_as_text(value) for value in values]
        while cells and not cells[-1]:
            cells.pop()
        if not cells:
            return cells
        if self._width is None:
            self._width = len(cells)
        # Empty cells at the end of a row are not in the file.
        cells += [""] * (self._width - len(cells))
        return cells


sheet_rows = SheetRows


def _rows(path: Path, report: Report) -> Iterator[tuple[Any, ...]]:
    try:
        import openpyxl
    except ModuleNotFoundError as missing:
        raise RembrandtError(
            "Excel files need the package openpyxl: pip install 'rembrandt[excel]'"
        ) from missing
    _check_archive(path)
    unreadable = (zipfile.BadZipFile, KeyError, ValueError, TypeError, OSError, SyntaxError)
    try:
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
        try:
            yield from _sheet(book, path, report)
        finally:
            book.close()
    except DataError:
        raise
    except unreadable as error:
        raise DataError(
            f"this is not a whole .xlsx file ({error}); save it again, or as .csv", path
        ) from error


def _sheet(book: Any, path: Path, report: Report) -> Iterator[tuple[Any, ...]]:
    """The rows of the first sheet with a cell that is not empty."""
    for sheet in book.worksheets:
        sheet.reset_dimensions()  # which anybody can make up
        has_cells = False
        for number, values in enumerate(sheet.iter_rows(values_only=True), 1):
            has_cells = has_cells or any(value is not None for value in values)
            if number % _REPORTED_ROWS == 0:
                report(f"Reading {path.name}", number, None)
            yield values
        if has_cells:
            return


def _check_archive(path: Path) -> None:
    """Refuse what is no archive, and one that expands to far more than its size."""
    try:
        with zipfile.ZipFile(path) as archive:
            n_bytes = sum(member.file_size for member in archive.infolist())
    except FileNotFoundError as error:
        raise DataError("there is no such file; check the path", path) from error
    except (zipfile.BadZipFile, OSError, ValueError) as error:
        raise DataError(
            f"this is not a whole .xlsx file ({error}); save it again, or as .csv", path
        ) from error
    file_bytes = path.stat().st_size
    if n_bytes > max(_MAX_EXPANDED_BYTES, _MAX_EXPANSION * file_bytes):
        raise DataError(
            f"the sheets expand to {n_bytes:,} bytes from a file of {file_bytes:,} bytes; save it "
            "as .csv",
            path,
        )


def _as_text(value: Any) -> str:
    """The value of a cell as people see it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    return str(value).strip()
