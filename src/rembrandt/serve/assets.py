"""The files of the web page, read once from the package."""

import hashlib
from importlib import resources

from starlette.requests import Request
from starlette.responses import Response

from rembrandt.serve.errors import RequestError

_TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
}


class Assets:
    """Files by name, with entity tags so that browsers can cache them."""

    def __init__(self) -> None:
        folder = resources.files("rembrandt.serve") / "page"
        self._files = {file.name: file.read_bytes() for file in folder.iterdir() if _suffix(file.name) in _TYPES}
        self._tags = {name: f'"{hashlib.sha256(data).hexdigest()[:16]}"' for name, data in self._files.items()}

    def respond(self, name: str, request: Request) -> Response:
        if name not in self._files:
            raise RequestError(404, f"the page has no file {name!r}; it starts at /")
        headers = {"ETag": self._tags[name], "Cache-Control": "no-cache"}
        if request.headers.get("if-none-match") == self._tags[name]:
            return Response(status_code=304, headers=headers)
        return Response(self._files[name], media_type=_TYPES[_suffix(name)], headers=headers)


def _suffix(name: str) -> str:
    return name.rpartition(".")[2]
