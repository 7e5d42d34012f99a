"""Labels that are words, and so their own names."""

import re
from typing import Any

# A label with one of these is a path, an address or a code.
_CODE = re.compile(r"[:/\\@#=|<>]|[^\W\d_]\d|\d[^\W\d_]")
# Two letters in a row: without them a label is a number or a code.
_LETTERS = re.compile(r"[^\W\d_]{2}")
# A word within a path: three letters or more, not part of an identifier.
_WORD = re.compile(r"(?<![0-9A-Za-z])[^\W\d_]{3,}(?![0-9])")
# Characters that join the words of a path.
_JOINTS = re.compile(r"[\s_:/|.+-]+")


def words_of_label(label: Any) -> str:
    """Return the words that a label is made of; "" if it is a number, a path, an address or a
    code.
    """
    if not isinstance(label, str):
        return ""
    if _LETTERS.search(label) is None or _CODE.search(label) is not None:
        return ""
    return label.replace("_", " ")


def words_of_path(label: Any) -> str:
    """Return the words in a label that may be a path, such as that of a product; "" if there are
    none.

    To an encoder the words of a path say something of the label. They are no name that could be
    looked for in a text.
    """
    path = str(label)
    if _WORD.search(path) is None:
        return ""
    return _JOINTS.sub(" ", path).strip()
