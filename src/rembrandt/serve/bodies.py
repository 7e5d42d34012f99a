"""Parse request bodies, which are not trusted: their size is bounded before, the number of errors
after.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
from numba import njit
from numpy.typing import NDArray
from pydantic_core import from_json
from starlette.requests import Request

from rembrandt.serve.errors import RequestError
from rembrandt.serve.limits import Limits
from rembrandt.serve.schemas import PredictRequest, SuggestRequest

JSON, FORM = "application/json", "application/x-www-form-urlencoded"
_SMALL = 1 << 15  # bytes that are parsed at once
_QUOTE, _BACKSLASH, _COMMA, _ARRAY, _OBJECT = b'"\\,[{'
_ENCODED = 12  # bytes that one character can take in a form
_ESCAPED = 12  # and in JSON: two escapes of six

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
        return await self._parsed(self._predict_request, await _read(request, JSON))

    async def suggest_request(self, request: Request) -> SuggestRequest:
        """Return the form of a request for suggestions."""
        return await self._parsed(self._suggest_request, await _read(request, FORM))

    def close(self) -> None:
        self._thread.shutdown(cancel_futures=True)

    async def _parsed(self, parse: Callable[[bytes], Parsed], body: bytes) -> Parsed:
        if len(body) <= _SMALL:
            return parse(body)
        return await asyncio.get_running_loop().run_in_executor(self._thread, parse, body)

    def _predict_request(self, body: bytes) -> PredictRequest:
        limit, longest = (
            self._limits.values + self._limits.texts,
            _ESCAPED * self._limits.characters,
        )
        n_values, length = count_values(body, limit, longest)
        if n_values > limit:
            raise RequestError(
                413,
                f"more than {limit:,} strings and numbers; send fewer texts or vectors per request",
            )
        if length > longest:
            raise RequestError(
                413,
                f"a text has more than {self._limits.characters:,} characters; send a shorter one",
            )
        try:
            found = from_json(body)
        except ValueError as error:
            raise RequestError(400, f"the body is not valid JSON: {error}") from error
        return PredictRequest.of(found)

    def _suggest_request(self, body: bytes) -> SuggestRequest:
        longest = _ENCODED * self._limits.characters + _SMALL
        if len(body) > longest:
            raise RequestError(
                413,
                f"the form has {len(body):,} bytes; the limit is {longest:,}; send a shorter text",
            )
        return SuggestRequest.from_form(body)


def count_values(body: bytes, limit: int, longest: int) -> tuple[int, int]:
    """Return the number of values of JSON and the bytes of its longest string, without parsing it.

    It ends at one value more than ``limit`` and in a string of more than ``longest`` bytes. Every
    value in an array or object follows a bracket or a comma; those inside strings do not count.
    """
    return (
        _count_values(np.frombuffer(body, dtype=np.uint8), limit, longest)
        if len(body) > limit
        else (0, 0)
    )


@njit(nogil=True, cache=True)
def _count_values(code: NDArray[np.uint8], limit: int, longest: int) -> tuple[int, int]:
    """Count while other threads run."""
    count, length, i, start = 0, 0, 0, -1  # start is that of the current string, or negative
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
    found = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if found != content_type:
        raise RequestError(
            415, f"the content type is {found or 'missing'}; send Content-Type: {content_type}"
        )
    return await request.body()
