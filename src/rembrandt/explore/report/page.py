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
    template = _asset("page.html")
    style = _asset("page.css")
    module = _asset("percent.js").replace("export ", "")
    script = module + _asset("page.js")
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; "
        f"script-src '{_digest(script)}'; img-src data:"
    )
    fields = {
        "title": html.escape(str(contents["title"])),
        "policy": policy,
        "style": style,
        "script": script,
        "data": as_data(contents),
    }
    # One pass over the template, so that a {{name}} in the contents is not replaced.
    beginning, *pieces = template.split("{{")
    page = [beginning]
    for piece in pieces:
        name, following = piece.split("}}", 1)
        page += [fields[name], following]
    return "".join(page)


def as_data(value: Any) -> str:
    """Return JSON that can be embedded in HTML, without characters that have a meaning there."""
    text = json.dumps(finite(value), separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text.encode("utf-8", "replace").decode()  # replaces unpaired surrogates


def _asset(name: str) -> str:
    """Return the text of a file that belongs to this package."""
    return files("rembrandt.explore.report").joinpath(name).read_text("utf-8")


def _digest(text: str) -> str:
    """Return the hash of a script or style sheet as a security policy names it."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
