"""Checks on every request before it reaches a route: host name, token, size and time.

The body is read here within the limits, so that routes and parsers see small, complete bodies only.
"""

import asyncio
import base64
import hmac
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from rembrandt.serve.errors import ANTICIPATED, INTERNAL_ERROR, RequestError, handle
from rembrandt.serve.limits import Limits
from rembrandt.serve.metrics import Metrics

log = logging.getLogger("rembrandt.serve")

# Nothing is loaded from other hosts, no inline script is run, and no other page may frame this one.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src "
    "'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = [
    (b"content-security-policy", _POLICY.encode()),
    (b"cache-control", b"no-cache"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
_LAST = 1.0  # seconds for a request to arrive at shutdown
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


class Guard:
    """ASGI middleware that checks requests, counts them and adds security headers.

    ``token`` is required for paths under ``/v1`` and for ``/metrics``. ``hosts`` are the host names
    that requests may use, or None for any: without a token, a web page from elsewhere must not
    reach the service under its own name. ``direct`` are frequent routes, by method and path. They
    are called without the routing, the middleware and the dependency injection of the application,
    which take longer than all the rest.
    """

    def __init__(
        self,
        app: Any,
        limits: Limits,
        metrics: Metrics,
        token: str | None = None,
        hosts: Iterable[str] | None = None,
        direct: Mapping[tuple[str, str], Callable[[Request], Awaitable[Response]]] | None = None,
    ) -> None:
        self.app, self.limits, self.metrics, self.direct = app, limits, metrics, direct or {}
        self.token = None if token is None else token.encode()
        self.hosts = None if hosts is None else {host.lower() for host in hosts}
        self._held = 0  # bytes of all requests in progress
        self._arriving: set[asyncio.Timeout] = set()  # of requests whose bodies are incomplete
        self._stopping = False

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, status, handler = time.perf_counter(), None, None

        async def respond(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": [*message.get("headers", []), *_HEADERS]}
            await send(message)

        parts: list[bytes] = []  # of the body
        try:
            self._check_caller(scope["path"], dict(scope["headers"]))
            await self._read(receive, parts)
            replayed = _replay(b"".join(parts), receive)
            if (handler := self.direct.get((scope["method"], scope["path"]))) is None:
                await self.app(scope, replayed, respond)
            else:
                await (await _answer(handler, Request(scope, replayed)))(scope, receive, respond)
        except RequestError as error:
            await error.response()(scope, receive, respond)
        except Exception:
            log.exception("%s %s failed", scope["method"], scope["path"])
            if status is None:
                await INTERNAL_ERROR.response()(scope, receive, respond)
        finally:
            self._held -= sum(map(len, parts))
            route = (
                getattr(scope.get("route"), "path", "none") if handler is None else scope["path"]
            )
            self.metrics.count_request(
                scope["method"], route, status or 500, time.perf_counter() - start
            )

    def stop(self) -> None:
        """Give requests that are still arriving one second; called when the service shuts down."""
        self._stopping = True
        for timeout in self._arriving:
            timeout.reschedule(asyncio.get_running_loop().time() + _LAST)

    def _check_caller(self, path: str, headers: dict[bytes, bytes]) -> None:
        """Refuse unknown host names and callers without the token."""
        if self.hosts is not None:
            host = headers.get(b"host", b"").decode("latin-1").lower()
            name = host if host.endswith("]") else host.rsplit(":", 1)[0]
            if name not in self.hosts:
                message = (
                    f"{name!r} is not a name of this service; use {LOOPBACK[0]}, or start it with "
                    "a token"
                )
                raise RequestError(403, message)
        guarded = path.startswith("/v1") or path == "/metrics"
        if (
            self.token is not None
            and guarded
            and not hmac.compare_digest(_token(headers), self.token)
        ):
            message = "this service needs a token; send it as 'Authorization: Bearer TOKEN'"
            raise RequestError(401, message, {"WWW-Authenticate": 'Bearer realm="rembrandt"'})

    async def _read(self, receive: Any, parts: list[bytes]) -> None:
        """Read the body into ``parts``; raise an error as soon as it is too large."""
        limit, size, close = self.limits.body, 0, {"Connection": "close"}
        try:
            async with asyncio.timeout(
                _LAST if self._stopping else self.limits.timeout
            ) as arriving:
                self._arriving.add(arriving)
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise RequestError(
                            400,
                            "the connection was closed before the body was complete; send it again",
                        )
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    self._held += len(parts[-1])
                    if size > limit:
                        message = (
                            f"the request is larger than {limit:,} bytes; send fewer texts per "
                            "request"
                        )
                        raise RequestError(413, message, close)
                    if self._held > self.limits.bodies:
                        message = "too many large requests at the same time; try again soon"
                        raise RequestError(429, message, {"Retry-After": "1"} | close)
                    if not message.get("more_body", False):
                        return
        except TimeoutError:
            if self._stopping:
                raise RequestError(
                    503, "the service is shutting down; try again later", {"Retry-After": "5"}
                ) from None
            message = f"the request did not arrive within {self.limits.timeout:g} s; send it again"
            raise RequestError(408, message, close) from None
        finally:
            self._arriving.discard(arriving)


async def _answer(handler: Callable[[Request], Awaitable[Response]], request: Request) -> Response:
    """Return the response of a handler, or the error that it raises as a response."""
    try:
        return await handler(request)
    except ANTICIPATED as error:
        return await handle(request, error)


def _token(headers: dict[bytes, bytes]) -> bytes:
    """Return the bearer token of a request, or the password of clients that can only send
    passwords.
    """
    scheme, _, value = headers.get(b"authorization", b"").partition(b" ")
    if scheme.lower() == b"bearer":
        return value.strip()
    if scheme.lower() == b"basic":
        with suppress(ValueError):
            return base64.b64decode(value.strip(), validate=True).partition(b":")[2]
    return b""


def _replay(body: bytes, receive: Any) -> Any:
    """Return a ``receive`` that delivers the body and then passes on what follows."""
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Any:
        return messages.pop() if messages else await receive()

    return replay
