"""Answers that clients do not read: a bound on the bytes that all connections hold together."""

import time
from typing import Protocol


class Receiver(Protocol):
    """A connection whose client has not read all that was sent to it."""

    def unsent_bytes(self) -> int:
        """Return the bytes that are still held for the client."""

    def abort(self) -> None:
        """Close the connection and drop what is unsent."""


class Unsent:
    """The connections whose clients do not keep up with reading.

    If they hold more than ``max_bytes`` together, those of the slowest clients are closed; of
    several that read nothing, the one that has waited longest.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        # By connection, the longest waiting first: when it began to wait, and with how many bytes.
        self._waiting: dict[Receiver, tuple[float, int]] = {}

    def add(self, receiver: Receiver) -> None:
        """Count a connection that waits for its client from now on."""
        now = time.monotonic()
        n_unsent = receiver.unsent_bytes()
        self._waiting[receiver] = (now, n_unsent)
        n_bytes = sum(waiting.unsent_bytes() for waiting in self._waiting)
        while n_bytes > self._max_bytes:
            slowest = min(self._waiting, key=self._rate)
            n_bytes -= slowest.unsent_bytes()
            self.remove(slowest)
            slowest.abort()

    def remove(self, receiver: Receiver) -> None:
        """Stop to count a connection that has sent everything, or is closed."""
        self._waiting.pop(receiver, None)

    def _rate(self, receiver: Receiver) -> float:
        """Return the bytes per second that a client reads."""
        start, n_bytes = self._waiting[receiver]
        seconds = time.monotonic() - start
        seconds = max(1.0, seconds)
        n_read = n_bytes - receiver.unsent_bytes()
        return n_read / seconds
