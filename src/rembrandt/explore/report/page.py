"""The HTML page of a report: one file made of a template, a style sheet, a script and the contents as JSON.

The script shows the contents as text only. The page's security policy allows this one script and this one style sheet,
by their hashes, and no request.
"""

import base64
import hashlib
import html
import json
from importlib.resources import files
from typing import Any

from rembrandt.errors import RembrandtError
from rembrandt.evaluation import finite

LIMIT = 5_000_000  # bytes


def render(contents: dict[str, Any], limit: int = LIMIT) -> str:
    """Return the page as HTML.

    Parameters
    ----------
    contents : dict
        What `gather` returns.
    limit : int, default=5_000_000
        Size of the page in bytes. Rare labels are removed from the map until it fits.

    Returns
    -------
    str
        The page.
    """
    while True:
        page = _fill(contents)
        size = len(page.encode())
        if size < limit:
            return page
        shown = contents.get("map")
        if not shown or len(shown["names"]) < 100:
            raise RembrandtError(
                f"the report has {size / 1e6:.1f} MB and the limit is {limit / 1e6:.0f} MB; "
                "check that the label names are not whole texts"
            )
        contents = {**contents, "map": _smaller(shown)}


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
    # One pass over the template, so that a {{name}} in the contents is not replaced.
    pieces = template.split("{{")
    return pieces[0] + "".join(parts[name] + rest for name, rest in (piece.split("}}", 1) for piece in pieces[1:]))


def as_data(value: Any) -> str:
    """Return JSON that can be embedded in HTML, without characters that have a meaning there."""
    text = json.dumps(finite(value), separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text.encode("utf-8", "replace").decode()  # replaces unpaired surrogates


def _smaller(shown: dict[str, Any]) -> dict[str, Any]:
    """Return the map without the rarest quarter of its labels."""
    n = len(shown["names"]) * 3 // 4
    kept = {name: value[:n] if isinstance(value, list) else value for name, value in shown.items()}
    kept["neighbours"] = [[other for other in near if other < n] for near in kept["neighbours"]]
    return kept


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
