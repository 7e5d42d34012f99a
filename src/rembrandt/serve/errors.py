"""Errors of the HTTP service: each is a JSON document with a status and a message."""

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from rembrandt.errors import RembrandtError, bounded, counted


class RequestError(Exception):
    """A request that is refused; the message says why and what to do."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        self.status = status
        self.message = bounded(message)
        self.headers = dict(headers or {})
        super().__init__(self.message)

    def response(self) -> Response:
        """Return the error as a response."""
        detail = {"status": self.status, "message": self.message}
        return JSONResponse({"error": detail}, self.status, self.headers)


# For an unexpected exception, which is written to the log and not to the response.
INTERNAL_ERROR = RequestError(500, "internal error; see the log of the server")


def shutting_down() -> RequestError:
    """Return the error for requests that a service that ends cannot answer."""
    message = "the service is shutting down; try again later"
    return RequestError(503, message, {"Retry-After": "5"})


def client_left() -> RequestError:
    """Return the error for requests whose clients do not wait for the answer; nobody reads it."""
    return RequestError(400, "the connection was closed before the answer was computed")


class ErrorDetail(BaseModel):
    status: int = Field(description="The HTTP status.")
    message: str = Field(description="What is wrong, and what to do.")


class ErrorResponse(BaseModel):
    """The body of every response with an error."""

    error: ErrorDetail


async def handle(request: Request, error: Any) -> Response:
    """Return any error as a response."""
    if isinstance(error, HTTPException):
        message = f"{request.method} {request.url.path}: {error.detail}; see /docs"
        error = RequestError(error.status_code, message, error.headers)
    elif isinstance(error, RequestValidationError | ValidationError):
        error = _invalid(error.errors())
    elif isinstance(error, RembrandtError):
        error = RequestError(422, str(error))
    elif not isinstance(error, RequestError):
        error = INTERNAL_ERROR
    return error.response()


def _invalid(errors: Sequence[Any]) -> RequestError:
    """Return the first error of a pydantic validation."""
    first = errors[0]
    message = first["msg"].removeprefix("Value error, ")
    location = _location(first["loc"])
    if location:
        message = f"{location}: {message}"
    if len(errors) > 1:
        message += f" (and {counted(len(errors) - 1, 'more error')})"
    status = 400 if first["type"] == "json_invalid" else 422
    return RequestError(status, message)


def _location(path: Sequence[str | int]) -> str:
    """Return the path to a value as in Python, such as ``vectors[0].word``."""
    location = ""
    for step in path:
        if isinstance(step, int):
            location += f"[{step}]"
        else:
            location += f".{step}"
    return location.lstrip(".")


# Errors that say what is wrong with a request; any other is the fault of the service.
ANTICIPATED = (
    RequestError,
    HTTPException,
    RequestValidationError,
    ValidationError,
    RembrandtError,
)
HANDLERS: dict[Any, Any] = dict.fromkeys((Exception, *ANTICIPATED), handle)
