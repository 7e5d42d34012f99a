"""Checks on every request before it reaches a route: host name, token, size, time and number.

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

from rembrandt.serve.admission import Admission
from rembrandt.serve.errors import ANTICIPATED, INTERNAL_ERROR, RequestError, handle, shutting_down
from rembrandt.serve.limits import Limits
from rembrandt.serve.metrics import Metrics

log = logging.getLogger("rembrandt.serve")

# Nothing is loaded from other hosts, no inline script is run, and no other page may frame this one.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = [
    (b"content-security-policy", _POLICY.encode()),
    (b"cache-control", b"no-cache"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
_SHUTDOWN_SECONDS = 1.0  # for a request to arrive at shutdown
_CLOSE = {"Connection": "close"}  # a header: the rest of the body is not read
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


class Guard:
    """ASGI middleware that checks requests, counts them and adds security headers.

    ``token`` is required for paths under ``/v1`` and for ``/metrics``. ``hosts`` are the host names
    that requests may use, or None for any: without a token, a web page from elsewhere must not
    reach the service under its own name. ``direct`` are frequent routes, by method and path. They
    are called without the routing, the middleware and the dependency injection of the application,
    which take longer than all the rest. ``on_stop`` is called when the service shuts down.
    """

    def __init__(
        self,
        app: Any,
        limits: Limits,
        metrics: Metrics,
        token: str | None = None,
        hosts: Iterable[str] | None = None,
        direct: Mapping[tuple[str, str], Callable[[Request], Awaitable[Response]]] | None = None,
        on_stop: Callable[[], None] | None = None,
    ) -> None:
        self.app = app
        self.limits = limits
        self.metrics = metrics
        self.direct = direct or {}
        self.token = None if token is None else token.encode()
        self.hosts = None if hosts is None else {host.lower() for host in hosts}
        self._held_bytes = 0  # of all requests in progress
        self._arriving: set[asyncio.Timeout] = set()  # of requests whose bodies are incomplete
        self._stopping = False
        self._on_stop = on_stop
        self._admission = Admission(limits)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        method = scope["method"]
        path = scope["path"]
        start = time.perf_counter()
        status: int | None = None
        handler = None

        async def respond(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = [*message.get("headers", []), *_HEADERS]
                message = {**message, "headers": headers}
            await send(message)

        chunks: list[bytes] = []  # of the body
        try:
            self._check_caller(path, dict(scope["headers"]))
            await self._read(receive, chunks)
            replayed = _replay(b"".join(chunks), receive)
            handler = self.direct.get((method, path))
            # Requests that are still arriving hold no place, so that slow clients do not take all.
            with self._admission.place(method, path):
                if handler is None:
                    await self.app(scope, replayed, respond)
                else:
                    response = await _answer(handler, Request(scope, replayed))
                    await response(scope, receive, respond)
        except RequestError as error:
            await error.response()(scope, receive, respond)
        except Exception:
            log.exception("%s %s failed", method, path)
            if status is None:
                await INTERNAL_ERROR.response()(scope, receive, respond)
        finally:
            self._held_bytes -= sum(len(chunk) for chunk in chunks)
            seconds = time.perf_counter() - start
            # The application adds the route that it chose to the scope.
            route = path if handler is not None else getattr(scope.get("route"), "path", "none")
            self.metrics.count_request(method, route, status or 500, seconds)

    def stop(self) -> None:
        """Give requests that are still arriving one second; called when the service shuts down."""
        self._stopping = True
        deadline = asyncio.get_running_loop().time() + _SHUTDOWN_SECONDS
        for timeout in self._arriving:
            timeout.reschedule(deadline)
        if self._on_stop is not None:
            self._on_stop()

    def _check_caller(self, path: str, headers: dict[bytes, bytes]) -> None:
        """Refuse unknown host names and callers without the token."""
        if self.hosts is not None:
            self._check_host(headers, self.hosts)
        needs_token = path.startswith("/v1") or path == "/metrics"
        if self.token is not None and needs_token:
            self._check_token(headers, self.token)

    def _check_host(self, headers: dict[bytes, bytes], hosts: set[str]) -> None:
        host = headers.get(b"host", b"").decode("latin-1").lower()
        name = host
        if not host.endswith("]"):  # the end of an IPv6 address without a port
            name = host.rsplit(":", 1)[0]
        if name not in hosts:
            message = (
                f"{name!r} is not a name of this service; use {LOOPBACK[0]}, or start it with "
                "a token"
            )
            raise RequestError(403, message)

    def _check_token(self, headers: dict[bytes, bytes], token: bytes) -> None:
        if not hmac.compare_digest(_token(headers), token):
            message = "this service needs a token; send it as 'Authorization: Bearer TOKEN'"
            raise RequestError(401, message, {"WWW-Authenticate": 'Bearer realm="rembrandt"'})

    async def _read(self, receive: Any, chunks: list[bytes]) -> None:
        """Read the body into ``chunks`` within the limits of time and size."""
        seconds = _SHUTDOWN_SECONDS if self._stopping else self.limits.timeout
        try:
            async with asyncio.timeout(seconds) as arriving:
                self._arriving.add(arriving)
                await self._read_chunks(receive, chunks)
        except TimeoutError:
            if self._stopping:
                raise shutting_down() from None
            message = f"the request did not arrive within {self.limits.timeout:g} s; send it again"
            raise RequestError(408, message, _CLOSE) from None
        finally:
            self._arriving.discard(arriving)

    async def _read_chunks(self, receive: Any, chunks: list[bytes]) -> None:
        """Read the body into ``chunks``; raise an error as soon as it is too large."""
        limit = self.limits.body
        n_bytes = 0
        is_complete = False
        while not is_complete:
            event = await receive()
            if event["type"] == "http.disconnect":
                message = "the connection was closed before the body was complete; send it again"
                raise RequestError(400, message)
            chunk = event.get("body", b"")
            chunks.append(chunk)
            n_bytes += len(chunk)
            self._held_bytes += len(chunk)
            if n_bytes > limit:
                message = (
                    f"the request is larger than {limit:,} bytes; send fewer texts per request"
                )
                raise RequestError(413, message, _CLOSE)
            if self._held_bytes > self.limits.bodies:
                message = "too many large requests at the same time; try again soon"
                raise RequestError(429, message, {"Retry-After": "1"} | _CLOSE)
            is_complete = not event.get("more_body", False)


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
            credentials = base64.b64decode(value.strip(), validate=True)
            _, _, password = credentials.partition(b":")
            return password
    return b""


def _replay(body: bytes, receive: Any) -> Any:
    """Return a ``receive`` that delivers the body and then passes on what follows."""
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Any:
        if messages:
            return messages.pop()
        return await receive()

    return replay
