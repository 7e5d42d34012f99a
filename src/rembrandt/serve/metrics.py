"""Prometheus metrics of the service."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_METHODS = {"GET", "POST", "HEAD", "OPTIONS", "PUT", "DELETE", "PATCH"}
# Upper bounds of the histograms.
_SECONDS_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_TEXTS_BUCKETS = tuple(2**i for i in range(10))


class Metrics:
    """The metrics of one service, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "rembrandt_requests",
            "Requests answered.",
            ["method", "route", "status"],
            registry=self.registry,
        )
        self.seconds = Histogram(
            "rembrandt_request_seconds",
            "Time to answer.",
            ["route"],
            buckets=_SECONDS_BUCKETS,
            registry=self.registry,
        )
        self.batch_texts = Histogram(
            "rembrandt_batch_texts",
            "Texts per batch.",
            buckets=_TEXTS_BUCKETS,
            registry=self.registry,
        )
        self.queue_texts = Gauge(
            "rembrandt_queue_texts",
            "Texts that wait.",
            registry=self.registry,
        )
        self.models = Gauge(
            "rembrandt_model_info",
            "Current version of a model.",
            ["model", "version"],
            registry=self.registry,
        )

    def count_request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request; methods that callers invent are counted together, so that labels stay
        few.
        """
        if method not in _METHODS:
            method = "other"
        self.requests.labels(method, route, str(status)).inc()
        self.seconds.labels(route).observe(seconds)

    def set_version(self, model: str, old: str | None, new: str) -> None:
        """Replace the version of a model."""
        if old is not None and old != new:
            self.models.remove(model, old)
        self.models.labels(model, new).set(1)

    def text(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        return generate_latest(self.registry)
