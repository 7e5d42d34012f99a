"""Texts as cells of tables that people open in spreadsheets."""

import re

from rembrandt.errors import printable

# A spreadsheet takes a cell that begins with one of these for a formula, and runs it.
_FORMULA_STARTS = ("=", "+", "-", "@")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def harmless_cell(text: str) -> str:
    """Return a text that a spreadsheet shows and does not run.

    Control characters, among them tabs and line ends, are escaped, and ``'`` is put before what
    would be a formula.

    >>> harmless_cell("=1+1"), harmless_cell("-1.5"), harmless_cell("\\t=a"), harmless_cell("a-b")
    ("'=1+1", '-1.5', '\\\\t=a', 'a-b')
    """
    shown = printable(text)
    if shown.startswith(_FORMULA_STARTS) and _NUMBER.fullmatch(shown) is None:
        return f"'{shown}"
    return shown
