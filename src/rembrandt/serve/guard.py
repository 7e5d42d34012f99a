"""What every request passes before it reaches a route: who asks, how much, and for how long.

The body is read here, bounded while it arrives, so that routes and their parsers see small, whole bodies only.
"""

import asyncio
import base64
import binascii
import hmac
import logging
import time
from collections.abc import Iterable
from typing import Any

from rembrandt.serve.limits import Limits
from rembrandt.serve.metrics import Metrics
from rembrandt.serve.refusals import Refusal, unforeseen

log = logging.getLogger("rembrandt.serve")

# Nothing from elsewhere is loaded, nothing inline is run, and no other page may frame this one.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = [
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


class Guard:
    """An ASGI application around another.

    ``token`` is asked for on whatever is under ``/v1`` or ``/metrics``. ``hosts`` are the names that the service may be
    called by, or None for any: without a token, a web page elsewhere must not reach it by a name of its own.
    """

    def __init__(
        self, app: Any, limits: Limits, metrics: Metrics, token: str | None = None, hosts: Iterable[str] | None = None
    ) -> None:
        self.app, self.limits, self.metrics = app, limits, metrics
        self.token = None if token is None else token.encode()
        self.hosts = None if hosts is None else {host.lower() for host in hosts}
        self._held = 0  # bytes of the requests under way

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, status = time.perf_counter(), 500
        begun = ended = False

        async def answer(message: Any) -> None:
            nonlocal status, begun, ended
            if message["type"] == "http.response.start":
                status, begun = message["status"], True
                message = {**message, "headers": [*message.get("headers", []), *_HEADERS]}
            else:
                ended = not message.get("more_body", False)
            await send(message)

        parts: list[bytes] = []  # of the body
        try:
            headers = dict(scope["headers"])
            self._admit(scope["path"], headers)
            await self._read(headers, receive, parts)
            await self.app(scope, _replay(b"".join(parts), receive), answer)
        except Refusal as refusal:
            await _refuse(answer, refusal)
        except Exception:
            log.exception("%s %s failed", scope["method"], scope["path"])
            if begun and not ended:
                raise  # the connection is cut, so that half an answer does not look like a whole one
            if not begun:
                await _refuse(answer, unforeseen())
        finally:
            self._held -= sum(map(len, parts))
            route = getattr(scope.get("route"), "path", "none")
            self.metrics.answered(scope["method"], route, status, time.perf_counter() - start)

    def _admit(self, path: str, headers: dict[bytes, bytes]) -> None:
        """Refuse a foreign host name, and a caller without the token."""
        if self.hosts is not None:
            host = headers.get(b"host", b"").decode("latin-1").lower()
            name = host if host.endswith("]") else host.rsplit(":", 1)[0]
            if name not in self.hosts:
                raise Refusal(403, f"this service is not called {name!r}; use {LOOPBACK[0]}, or start it with a token")
        guarded = path.startswith("/v1") or path == "/metrics"
        if self.token is not None and guarded and not hmac.compare_digest(_given(headers), self.token):
            raise Refusal(
                401,
                "this service asks for a token; send it as 'Authorization: Bearer TOKEN'",
                {"WWW-Authenticate": 'Bearer realm="rembrandt"'},
            )

    async def _read(self, headers: dict[bytes, bytes], receive: Any, parts: list[bytes]) -> None:
        """Collect the body; it is refused as soon as it is known to be too large, whether that was announced or not."""
        most = self.limits.body
        announced = headers.get(b"content-length", b"0")
        if announced.isdigit() and int(announced[:20]) > most:
            raise _too_large(most)
        size = 0
        try:
            async with asyncio.timeout(self.limits.seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Refusal(400, "the request ended before its body did; send it again")
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    self._held += len(parts[-1])
                    if size > most:
                        raise _too_large(most)
                    if self._held > self.limits.bodies:
                        raise Refusal(
                            429,
                            "too many large requests at once; try again soon",
                            {"Retry-After": "1", "Connection": "close"},
                        )
                    if not message.get("more_body", False):
                        return
        except TimeoutError:
            raise Refusal(
                408,
                f"the request did not arrive within {self.limits.seconds:g} s; send it again",
                {"Connection": "close"},
            ) from None


def _too_large(most: int) -> Refusal:
    return Refusal(
        413, f"the request is larger than {most:,} bytes; send fewer texts at a time", {"Connection": "close"}
    )


def _given(headers: dict[bytes, bytes]) -> bytes:
    """The token that came with a request: a bearer's, or the password of a user that can send nothing else."""
    scheme, _, value = headers.get(b"authorization", b"").partition(b" ")
    if scheme.lower() == b"bearer":
        return value.strip()
    if scheme.lower() == b"basic":
        try:
            return base64.b64decode(value.strip(), validate=True).partition(b":")[2]
        except (binascii.Error, ValueError):
            return b""
    return b""


def _replay(body: bytes, receive: Any) -> Any:
    """A ``receive`` that hands out the body that was read, and then what really comes: the end of the connection."""
    given = False

    async def again() -> Any:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


async def _refuse(send: Any, refusal: Refusal) -> None:
    body = refusal.body()
    headers = {"Content-Type": "application/json", "Content-Length": str(len(body)), **refusal.headers}
    pairs = [(name.lower().encode(), value.encode("latin-1", "replace")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": refusal.status, "headers": pairs})
    await send({"type": "http.response.body", "body": body})
