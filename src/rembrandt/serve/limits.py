"""How much one caller may ask for, and how much the service takes on at once."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Everything that is bounded; a request beyond a limit is refused with a sentence that names it."""

    body: int = 8 << 20  # bytes of one request
    bodies: int = 256 << 20  # bytes of all requests under way
    texts: int = 256  # in one request
    characters: int = 200_000  # in one text
    answers: int = 1000  # labels for one text
    explained: int = 200  # labels explained in one request
    explained_characters: int = 2_000_000  # of the texts, once for each label explained
    batch: int = 64  # texts in one product; 1 is one request after the other
    queue: int = 1024  # texts that wait
    seconds: float = 30.0  # until a request is answered or given up
