"""Parse request bodies, which are not trusted: their size is bounded before, the number of errors
after.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic_core import from_json
from starlette.requests import Request

from rembrandt.kernels import kernel
from rembrandt.serve.errors import RequestError
from rembrandt.serve.limits import Limits
from rembrandt.serve.schemas import CorrectionsRequest, PredictRequest, SuggestRequest

# Content types.
JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
_MAX_SMALL_BYTES = 1 << 15  # of a body that is parsed at once, and not in a thread
# Bytes that one character can take in a form, and in JSON, where it is two escapes of six.
_FORM_CHARACTER_BYTES = 12
_JSON_CHARACTER_BYTES = 12
# Characters that have a meaning in JSON.
_QUOTE = ord('"')
_BACKSLASH = ord("\\")
_COMMA = ord(",")
_ARRAY = ord("[")
_OBJECT = ord("{")

Parsed = TypeVar("Parsed")


class Bodies:
    """Reads and parses the bodies of requests, large ones one after the other in a thread of their
    own.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="parse")
        count_values(b"[]", 0, 0)  # loads compiled code

    async def predict_request(self, request: Request) -> PredictRequest:
        """Return the JSON body of a request for predictions."""
        body = await _read(request, JSON)
        return await self._parsed(self._predict_request, body)

    async def corrections_request(self, request: Request) -> CorrectionsRequest:
        """Return the JSON body of a request with corrections."""
        body = await _read(request, JSON)
        return await self._parsed(self._corrections_request, body)

    async def suggest_request(self, request: Request) -> SuggestRequest:
        """Return the form of a request for suggestions."""
        body = await _read(request, FORM)
        return await self._parsed(self._suggest_request, body)

    def close(self) -> None:
        self._thread.shutdown(cancel_futures=True)

    async def _parsed(self, parse: Callable[[bytes], Parsed], body: bytes) -> Parsed:
        if len(body) <= _MAX_SMALL_BYTES:
            return parse(body)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, parse, body)

    def _predict_request(self, body: bytes) -> PredictRequest:
        return PredictRequest.of(self._document(body))

    def _corrections_request(self, body: bytes) -> CorrectionsRequest:
        return CorrectionsRequest.of(self._document(body))

    def _document(self, body: bytes) -> Any:
        """Return parsed JSON with a bounded number of values."""
        limit = self._limits.values + self._limits.texts
        max_characters = self._limits.characters
        max_length = _JSON_CHARACTER_BYTES * max_characters
        n_values, length = count_values(body, limit, max_length)
        if n_values > limit:
            message = (
                f"more than {limit:,} strings and numbers; send fewer texts or vectors per request"
            )
            raise RequestError(413, message)
        if length > max_length:
            message = f"a text has more than {max_characters:,} characters; send a shorter one"
            raise RequestError(413, message)
        try:
            return from_json(body)
        except ValueError as error:
            raise RequestError(400, f"the body is not valid JSON: {error}") from error

    def _suggest_request(self, body: bytes) -> SuggestRequest:
        max_bytes = _FORM_CHARACTER_BYTES * self._limits.characters + _MAX_SMALL_BYTES
        if len(body) > max_bytes:
            message = (
                f"the form has {len(body):,} bytes; the limit is {max_bytes:,}; send a shorter text"
            )
            raise RequestError(413, message)
        return SuggestRequest.from_form(body)


def count_values(body: bytes, limit: int, longest: int) -> tuple[int, int]:
    """Return the number of values of JSON and the bytes of its longest string, without parsing it.

    It ends at one value more than ``limit`` and in a string of more than ``longest`` bytes. Every
    value in an array or object follows a bracket or a comma; those inside strings do not count.
    """
    if len(body) <= limit:  # every value takes a byte
        return 0, 0
    return _count_values(np.frombuffer(body, dtype=np.uint8), limit, longest)


@kernel()
def _count_values(code: NDArray[np.uint8], limit: int, longest: int) -> tuple[int, int]:
    """Count while other threads run."""
    count = 0
    length = 0
    start = -1  # of the current string, or negative
    i = 0
    while i < len(code) and count <= limit and length <= longest:
        if start >= 0:
            length = max(length, i - start)
            if code[i] == _BACKSLASH:
                i += 1  # the next character is part of the string
            elif code[i] == _QUOTE:
                start = -1
        elif code[i] == _QUOTE:
            start = i + 1
        elif code[i] in (_COMMA, _ARRAY, _OBJECT):
            count += 1
        i += 1
    return count, length


async def _read(request: Request, content_type: str) -> bytes:
    """Return the body of a request with this content type."""
    header = request.headers.get("content-type", "")
    sent_type = header.partition(";")[0].strip().lower()
    if sent_type != content_type:
        message = f"the content type is {sent_type or 'missing'}; send Content-Type: {content_type}"
        raise RequestError(415, message)
    return await request.body()
