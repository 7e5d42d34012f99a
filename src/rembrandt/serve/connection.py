"""HTTP connections with bounds on the part of a request that is read before the application sees
it.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from rembrandt.serve.errors import RequestError
from rembrandt.serve.limits import HEAD_SECONDS, MAX_HEAD_BYTES, MAX_HEADERS

_TOO_LARGE = (
    f"the URL and the headers are larger than {MAX_HEAD_BYTES:,} bytes, "
    f"or more than {MAX_HEADERS}; send fewer"
)


class Connection(HttpToolsProtocol):
    """A connection that refuses large headers, many headers (status 431) and headers that arrive
    slowly.
    """

    _head_bytes = 0  # of the URL and the headers, which may also follow a body
    _n_headers = 0
    _unparsed_bytes = 0  # received since the parser reported something
    _refused = False
    _timer: asyncio.TimerHandle | None = None  # while headers are incomplete

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        # Requests in progress; a client may send several at once.
        self._pending: list[RequestResponseCycle] = []
        self._timer = self.loop.call_later(HEAD_SECONDS, self._close)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        self._disconnect()
        super().connection_lost(exc)

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

    def _fits(self, size: int) -> bool:
        """Count a part of the head; refuse the request if it is too much."""
        self._unparsed_bytes = 0
        self._head_bytes += size
        if self._head_bytes > MAX_HEAD_BYTES or self._n_headers > MAX_HEADERS:
            self._refuse()
        return not self._refused

    def _refuse(self) -> None:
        """Answer that the head is too large, unless another response is being written; close."""
        if self._refused:
            return
        self._refused = True
        is_writing = self.cycle is not None and not self.cycle.response_complete
        if not is_writing:
            body = RequestError(431, _TOO_LARGE).response().body
            head = (
                "HTTP/1.1 431 Request Header Fields Too Large\r\n"
                "content-type: application/json\r\n"
                f"content-length: {len(body)}\r\n"
                "connection: close\r\n\r\n"
            )
            self.transport.write(head.encode() + bytes(body))
        self._close()

    def send_400_response(self, msg: str) -> None:
        self._disconnect()
        super().send_400_response(msg)

    def _close(self) -> None:
        self._disconnect()
        self.transport.close()

    def _disconnect(self) -> None:
        """Tell requests in progress that their connection is closed; writing to it would be an
        error.
        """
        for cycle in self._pending:
            cycle.disconnected = True
            cycle.message_event.set()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
