"""HTTP connections with bounds on what the application does not see: the part of a request that is
read before it, and the part of an answer that the client has not read.
"""

import asyncio
import select
from http import HTTPStatus
from typing import Any

from starlette.requests import Request
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from rembrandt.serve.errors import RequestError
from rembrandt.serve.limits import (
    DRAIN_SECONDS,
    HEAD_SECONDS,
    MAX_HEAD_BYTES,
    MAX_HEADERS,
    MIN_DRAINED_BYTES,
)
from rembrandt.serve.sending import Unsent

_TOO_LARGE = (
    f"the URL and the headers are larger than {MAX_HEAD_BYTES:,} bytes, "
    f"or more than {MAX_HEADERS}; send fewer"
)
_NOT_HTTP = (
    "this is not a valid HTTP/1.1 request; check the request line, the headers and the lengths"
)
_SCOPE_KEY = "rembrandt.connection"  # of requests


class Connection(HttpToolsProtocol):
    """A connection that refuses large headers, many headers (status 431), what is not HTTP (status
    400) and headers that arrive slowly.

    A client that does not read gets no further answer, and its connection is closed after a time.
    """

    _head_bytes = 0  # of the URL and the headers, which may also follow a body
    _n_headers = 0
    _unparsed_bytes = 0  # received since the parser reported something
    _refused = False
    _timer: asyncio.TimerHandle | None = None  # while headers are incomplete
    _drain_timer: asyncio.TimerHandle | None = None  # while an answer is not sent
    _unsent_before = 0  # bytes when that timer was started
    _next_waits = False  # until the client has read the last answer

    def __init__(self, *arguments: Any, unsent: Unsent, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._unsent = unsent

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        # Requests in progress; a client may send several at once.
        self._pending: list[RequestResponseCycle] = []
        self._timer = self.loop.call_later(HEAD_SECONDS, self._close)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        self._stop_drain_timer()
        self._unsent.remove(self)
        self._disconnect()
        super().connection_lost(exc)
        self._forget_requests()

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        self._unparsed_bytes += len(data)
        super().data_received(data)
        if self._unparsed_bytes > MAX_HEAD_BYTES:
            self._refuse()

    def on_message_begin(self) -> None:
        self._head_bytes = 0
        self._n_headers = 0
        self._unparsed_bytes = 0
        if self._timer is None:
            self._timer = self.loop.call_later(HEAD_SECONDS, self._close)
        super().on_message_begin()
        self.scope[_SCOPE_KEY] = self  # type: ignore[literal-required]

    def on_url(self, url: bytes) -> None:
        if self._fits(len(url)):
            super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._n_headers += 1
        if self._fits(len(name) + len(value)):
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._unparsed_bytes = 0
        self._stop_timer()
        if not self._refused:
            super().on_headers_complete()
            incomplete = [cycle for cycle in self._pending if not cycle.response_complete]
            self._pending = [*incomplete, self.cycle]

    def on_body(self, body: bytes) -> None:
        self._unparsed_bytes = 0
        if not self._refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._unparsed_bytes = 0
        if not self._refused:
            super().on_message_complete()

    def pause_writing(self) -> None:
        """Wait for the client to read; called when much is unsent."""
        super().pause_writing()
        self._stop_drain_timer()
        self._watch_draining()
        self._unsent.add(self)

    def resume_writing(self) -> None:
        """Go on with the next request; called when the client has read most of the answer."""
        super().resume_writing()
        self._stop_drain_timer()
        self._unsent.remove(self)
        if self._next_waits:
            self._next_waits = False
            self.on_response_complete()

    def on_response_complete(self) -> None:
        """Start the next request, unless the client has to read the last answer first."""
        if self.transport.is_closing():
            self._watch_draining()
        if self.flow.write_paused:
            self._next_waits = True
            self.flow.pause_reading()
        else:
            super().on_response_complete()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._watch_draining()

    def shutdown(self) -> None:
        super().shutdown()
        if self.transport.is_closing():
            self._watch_draining()

    def has_left(self) -> bool:
        """Return whether the client has closed the connection.

        The event loop does not notice that while it reads nothing from the client, for example
        because several requests were sent at once.
        """
        if self.transport.is_closing():
            return True
        opened = self.transport.get_extra_info("socket")
        return opened is not None and _is_closed_by_peer(opened.fileno())

    def unsent_bytes(self) -> int:
        """Return the bytes that are still held for the client."""
        return self.transport.get_write_buffer_size()

    def abort(self) -> None:
        """Close the connection and drop what is unsent."""
        self.transport.abort()

    def _watch_draining(self) -> None:
        """Close the connection if too little of an unsent answer is sent within a time."""
        if self._drain_timer is None:
            self._unsent_before = self.unsent_bytes()
            self._drain_timer = self.loop.call_later(DRAIN_SECONDS, self._check_draining)

    def _check_draining(self) -> None:
        self._drain_timer = None
        unsent = self.unsent_bytes()
        if unsent == 0:
            return
        if self._unsent_before - unsent < MIN_DRAINED_BYTES:
            self.abort()
        else:
            self._watch_draining()

    def _stop_drain_timer(self) -> None:
        if self._drain_timer is not None:
            self._drain_timer.cancel()
            self._drain_timer = None

    def _fits(self, size: int) -> bool:
        """Count a part of the head; refuse the request if it is too much."""
        self._unparsed_bytes = 0
        self._head_bytes += size
        if self._head_bytes > MAX_HEAD_BYTES or self._n_headers > MAX_HEADERS:
            self._refuse()
        return not self._refused

    def _refuse(self) -> None:
        """Answer that the head is too large, and close."""
        if not self._refused:
            self._end_with(RequestError(431, _TOO_LARGE))

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP, and close; uvicorn would answer a text."""
        if not self._refused:
            self._end_with(RequestError(400, _NOT_HTTP))

    def _end_with(self, error: RequestError) -> None:
        """Send an error, unless it would be taken for the answer to another request; close."""
        self._refused = True
        unanswered = [cycle for cycle in self._pending if not cycle.response_complete]
        is_for_last = len(unanswered) == 1 and _is_arriving(unanswered[0])
        if not unanswered or is_for_last:
            body = error.response().body
            phrase = HTTPStatus(error.status).phrase
            head = (
                f"HTTP/1.1 {error.status} {phrase}\r\n"
                "content-type: application/json\r\n"
                f"content-length: {len(body)}\r\n"
                "connection: close\r\n\r\n"
            )
            self.transport.write(head.encode() + bytes(body))
        self._close()

    def _close(self) -> None:
        self._disconnect()
        self.transport.close()
        self._watch_draining()

    def _disconnect(self) -> None:
        """Tell requests in progress that their connection is closed; writing to it would be an
        error.
        """
        for cycle in self._pending:
            cycle.disconnected = True
            cycle.message_event.set()

    def _forget_requests(self) -> None:
        """Drop the requests of a closed connection.

        They hold the connection in turn. A garbage collection that frees thousands of such cycles
        stops all threads meanwhile.
        """
        self._pending = []
        self.pipeline.clear()
        self.headers = []
        self.cycle = None  # type: ignore[assignment]
        self.scope = None  # type: ignore[assignment]

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def client_of(request: Request) -> Connection | None:
    """Return the connection of a request, or None if it came in another way."""
    connection: Connection | None = request.scope.get(_SCOPE_KEY)
    return connection


def _is_closed_by_peer(file: int) -> bool:
    """Return whether nothing more will arrive on a socket; Windows cannot tell."""
    if not hasattr(select, "poll"):
        return False
    closed = getattr(select, "POLLRDHUP", select.POLLHUP)  # the first is of Linux
    poll = select.poll()
    poll.register(file, closed)
    return bool(poll.poll(0))


def _is_arriving(cycle: RequestResponseCycle) -> bool:
    """Return whether the body of a request is incomplete and nothing was answered."""
    return cycle.more_body and not cycle.response_started
