"""What the service says when it does not answer: one shape of JSON, with a sentence in it."""

import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, Field

Headers = Mapping[str, str]


class Refusal(Exception):
    """A request that is not answered; ``message`` says why, and what to do."""

    def __init__(self, status: int, message: str, headers: Headers | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = dict(headers or {})

    def body(self) -> bytes:
        return json.dumps({"error": {"status": self.status, "message": self.message}}).encode()


def unforeseen() -> Refusal:
    """The answer to a mistake of ours; what it was stands in the log, not in the answer."""
    return Refusal(500, "something nobody foresaw; the server's log has it")


class Problem(BaseModel):
    """Why there is no answer."""

    status: int = Field(description="The HTTP status again.")
    message: str = Field(description="What was found, and what to do.")


class Failure(BaseModel):
    """What every refused request gets."""

    error: Problem


_MEANINGS = {
    400: "The request cannot be read.",
    401: "The token is missing or wrong.",
    403: "This is not allowed here.",
    404: "There is no such model or label.",
    408: "The request did not arrive in time.",
    409: "Another request is doing this now.",
    413: "The request is larger than a limit.",
    415: "The body is of a type that is not read here.",
    422: "The request is understood, and cannot be answered.",
    429: "The queue is full; Retry-After says when to come back.",
    500: "Something nobody foresaw; the server's log has it.",
    503: "Not now: it took too long, or the service is closing.",
}


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The failures of a route, for its OpenAPI description; those that any request can meet are added."""
    wanted = sorted({*statuses, 400, 401, 403, 408, 413, 429, 500})
    return {status: {"model": Failure, "description": _MEANINGS[status]} for status in wanted}


def sentence(errors: list[Any]) -> str:
    """The first of pydantic's findings as a sentence."""
    first = errors[0]
    where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"]).lstrip(".")
    what = first["msg"].removeprefix("Value error, ")
    more = f" ({len(errors) - 1} more like this)" if len(errors) > 1 else ""
    return f"{where}: {what}{more}" if where else f"{what}{more}"
