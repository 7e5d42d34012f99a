"""The HTML page of a report: one file made of a template, a style sheet, a script and the contents
as JSON.

The script shows the contents as text only. The page's security policy allows this one script and
this one style sheet, by their hashes, and no request.
"""

import base64
import hashlib
import html
import json
from importlib.resources import files
from typing import Any

from rembrandt.evaluation import finite


def render(contents: dict[str, Any]) -> str:
    """Return the page as HTML.

    Parameters
    ----------
    contents : dict
        What `gather` returns.

    Returns
    -------
    str
        The page.
    """
    folder = files("rembrandt.explore.report")
    names = ("page.html", "page.css", "percent.js", "page.js")
    template, style, module, script = (folder.joinpath(name).read_text("utf-8") for name in names)
    script = f"{module.replace('export ', '')}{script}"
    parts = {
        "title": html.escape(str(contents["title"])),
        "policy": (
            f"default-src 'none'; style-src '{_digest(style)}'; "
            f"script-src '{_digest(script)}'; img-src data:"
        ),
        "style": style,
        "script": script,
        "data": as_data(contents),
    }
    # One pass over the template, so that a {{name}} in the contents is not replaced.
    pieces = template.split("{{")
    return pieces[0] + "".join(
        parts[name] + rest for name, rest in (piece.split("}}", 1) for piece in pieces[1:])
    )


def as_data(value: Any) -> str:
    """Return JSON that can be embedded in HTML, without characters that have a meaning there."""
    text = json.dumps(finite(value), separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text.encode("utf-8", "replace").decode()  # replaces unpaired surrogates


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
