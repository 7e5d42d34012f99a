"""One limit on the requests in progress, for all routes; predictions come first."""

from collections.abc import Iterator
from contextlib import contextmanager

from rembrandt.errors import counted
from rembrandt.serve.errors import RequestError
from rembrandt.serve.limits import Limits

_OTHERS_SHARE = 8  # requests that are no predictions may take one in this many places
_ALWAYS_ADMITTED = ("/healthz", "/readyz", "/metrics")  # for those who watch the service


class Admission:
    """Counts the requests in progress; predictions may take all places, others a part of them."""

    def __init__(self, limits: Limits) -> None:
        self._limit = limits.requests
        self._others_limit = max(1, limits.requests // _OTHERS_SHARE)
        self._n_requests = 0
        self._n_others = 0

    @contextmanager
    def place(self, method: str, path: str) -> Iterator[None]:
        """Hold a place for a request; refuse the request if there is none."""
        if path in _ALWAYS_ADMITTED:
            yield
            return
        is_other = not _is_prediction(method, path)
        if is_other and self._n_others >= self._others_limit:
            raise _too_many(self._n_others, "other request")
        if self._n_requests >= self._limit:
            raise _too_many(self._n_requests, "request")
        self._n_requests += 1
        self._n_others += is_other
        try:
            yield
        finally:
            self._n_requests -= 1
            self._n_others -= is_other


def _is_prediction(method: str, path: str) -> bool:
    is_suggestion = path.startswith("/v1/projects/") and path.endswith("/suggest")
    return method == "POST" and (path == "/v1/predict" or is_suggestion)


def _too_many(n_requests: int, noun: str) -> RequestError:
    message = f"the service is busy with {counted(n_requests, noun)}; try again soon"
    return RequestError(429, message, {"Retry-After": "1"})
