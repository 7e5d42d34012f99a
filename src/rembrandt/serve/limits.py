"""Limits of the HTTP service."""

from dataclasses import dataclass

MAX_HEAD_BYTES = 64 << 10  # of the URL and the headers of a request
MAX_HEADERS = 100  # of a request
HEAD_SECONDS = 30.0  # for the headers to arrive
DRAIN_SECONDS = 10.0  # in which a client must read MIN_DRAINED_BYTES of an answer, or all of it
MIN_DRAINED_BYTES = 160 << 10


@dataclass(frozen=True)
class Limits:
    """Limits on requests; a request that exceeds one is refused with an error that names it."""

    body: int = 8 << 20  # bytes of one request
    bodies: int = 256 << 20  # bytes of all requests in progress
    requests: int = 1024  # in progress; those that are no predictions may be an eighth of them
    texts: int = 256  # per request
    characters: int = 200_000  # per text
    values: int = 50_000  # strings and numbers in the JSON of one request, not counting texts
    labels: int = 1000  # per text
    answer: int = 64 << 20  # bytes of one answer
    unsent: int = 256 << 20  # bytes of all answers that clients have not read
    explained: int = 200  # explained labels per request
    explained_characters: int = 2_000_000  # of the texts, counted once for each explained label
    batch: int = 64  # texts per batch; 1 turns batching off
    queue: int = 1024  # texts that wait
    label_characters: int = 1000  # of a label in a correction
    corrections: int = 4 << 30  # bytes of the file of corrections
    timeout: float = 30.0  # seconds for a request to arrive, and then to be answered
    load: float = 300.0  # seconds for a new version of a model to be loaded
