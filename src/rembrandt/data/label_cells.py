"""Labels in a cell of a table: one, several with a separator, or a list that is spelled out."""

import ast
import json
from typing import Any

from rembrandt.data.arrays import is_missing

# What programs write for a missing value. As a label it is most likely a mistake.
MISSING_WORDS = frozenset(("NaN", "nan", "NaT", "None", "null", "NULL", "<NA>"))

_QUOTES = "\"'"
_MAX_LIST_CHARACTERS = 1 << 16  # of a list in a cell; longer ones are left to the JSON parser


class UnreadableList(ValueError):
    """A cell looks like a list of quoted texts and is none."""


def labels_of(cell: Any, separator: str | None, is_verbatim: bool) -> list[str]:
    """The labels in a cell; a text and a list of this one text are the same.

    A text such as ``["a", "b"]`` or ``['a', 'b']`` is the list that it spells, unless labels are
    verbatim.
    """
    items = [cell] if isinstance(cell, str) else cell
    if isinstance(cell, str) and not is_verbatim:
        spelled = spelled_list(cell)
        if spelled is not None:
            items = spelled
    labels = []
    for item in items or ():
        text = item or ""
        pieces = [text] if separator is None else text.split(separator)
        for piece in pieces:
            label = piece.strip()
            if label:
                labels.append(label)
    return labels


def spelled_list(cell: str) -> list[str] | None:
    """The list that a text spells in JSON or Python; None if it is another text."""
    text = cell.strip()
    if not (text.startswith("[") and text.endswith("]")):
        return None
    inside = text[1:-1].strip()
    if not inside:
        return []
    items = _parsed(text)
    if items is not None and _are_labels(items):
        return [str(item) for item in items if not is_missing(item)]
    if inside[0] in _QUOTES and inside[-1] in _QUOTES:
        raise UnreadableList(text)
    return None


def _parsed(text: str) -> Any:
    """The value that a text spells in JSON, or else as a literal of Python; None for another."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    if len(text) > _MAX_LIST_CHARACTERS:
        return None
    try:
        tree = ast.parse(text, mode="eval").body
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None
    if not isinstance(tree, ast.List):
        return None
    encoded = text.encode()
    values = []
    for element in tree.elts:
        if not isinstance(element, ast.Constant) or _is_joined(element, encoded):
            return None
        values.append(element.value)
    return values


def _is_joined(element: ast.Constant, encoded: bytes) -> bool:
    """Whether Python joined texts that stand side by side to this one.

    NumPy writes arrays of texts without commas, and in several lines.
    """
    if not isinstance(element.value, str):
        return False
    if element.end_lineno != 1:
        return True
    source = encoded[element.col_offset : element.end_col_offset]
    quote = source[:1]
    return quote in source[1:-1].replace(b"\\" + quote, b"")


def _are_labels(items: Any) -> bool:
    """Whether these are texts and numbers."""
    if not isinstance(items, list):
        return False
    return all(item is None or isinstance(item, str | int | float) for item in items)
