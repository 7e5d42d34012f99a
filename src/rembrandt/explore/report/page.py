"""The page: one file that needs nothing else, made of a template, a style, a script and the contents as data.

The contents are data and nothing else: the script reads them as JSON and shows them as text. The page's own policy
allows this one script and this one style, by their hashes, and no request to anywhere.
"""

import base64
import hashlib
import html
import json
import math
from importlib.resources import files
from typing import Any

from rembrandt.errors import RembrandtError

LIMIT = 5_000_000  # bytes of a page


def render(contents: dict[str, Any], limit: int = LIMIT) -> str:
    """The page as text; rare labels leave the map until it is small enough."""
    while True:
        page = _fill(contents)
        size = len(page.encode())
        if size < limit:
            return page
        drawn = contents.get("map")
        if not drawn or len(drawn["names"]) < 100:
            raise RembrandtError(
                f"the report takes {size / 1e6:.1f} MB and {limit / 1e6:.0f} MB is the most; "
                "are there texts in place of label names?"
            )
        contents = {**contents, "map": _smaller(drawn)}


def _fill(contents: dict[str, Any]) -> str:
    folder = files("rembrandt.explore.report")
    template, style, script = (folder.joinpath(f"page.{kind}").read_text("utf-8") for kind in ("html", "css", "js"))
    parts = {
        "title": html.escape(str(contents["title"])),
        "policy": f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; img-src data:",
        "style": style,
        "script": script,
        "data": as_data(contents),
    }
    # One pass over the template: what is put in is never looked at for further places.
    pieces = template.split("{{")
    return pieces[0] + "".join(parts[name] + rest for name, rest in (piece.split("}}", 1) for piece in pieces[1:]))


def as_data(value: Any) -> str:
    """JSON that can stand in a page: no character that means something in HTML, no number that JSON does not know."""
    text = json.dumps(_plain(value), separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text.encode("utf-8", "replace").decode()  # half of a surrogate pair is no character


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _smaller(drawn: dict[str, Any]) -> dict[str, Any]:
    """The map with its most frequent labels only, three quarters of them."""
    n = len(drawn["names"]) * 3 // 4
    kept = {name: value[:n] if isinstance(value, list) else value for name, value in drawn.items()}
    kept["neighbours"] = [[other for other in near if other < n] for near in kept["neighbours"]]
    return kept


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
