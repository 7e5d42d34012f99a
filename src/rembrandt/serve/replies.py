"""Answers as JSON, and every exception as a refusal."""

import json
import math
from typing import Any

from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from rembrandt.errors import RembrandtError
from rembrandt.serve.reading import JSON
from rembrandt.serve.refusals import Refusal, sentence, unforeseen


def json_reply(document: Any) -> Response:
    return Response(json.dumps(document, allow_nan=False, separators=(",", ":")), media_type=JSON)


def finite(value: Any) -> Any:
    """Settings and figures for JSON, which knows no NaN."""
    if isinstance(value, dict):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _refused(refusal: Refusal) -> Response:
    return Response(refusal.body(), refusal.status, refusal.headers, JSON)


async def _on_refusal(request: Request, error: Any) -> Response:
    return _refused(error)


async def _on_http(request: Request, error: Any) -> Response:
    what = {404: f"there is nothing at {request.url.path}", 405: f"{request.method} is not for {request.url.path}"}
    found = what.get(error.status_code, str(error.detail))
    return _refused(Refusal(error.status_code, f"{found}; see /openapi.json", error.headers))


async def _on_invalid(request: Request, error: Any) -> Response:
    findings = list(error.errors())
    unreadable = findings[0]["type"] == "json_invalid"
    return _refused(Refusal(400 if unreadable else 422, sentence(findings)))


async def _on_own(request: Request, error: Any) -> Response:
    return _refused(Refusal(422, str(error)))


async def _on_unforeseen(request: Request, error: Any) -> Response:
    return _refused(unforeseen())


HANDLERS: dict[Any, Any] = {
    Exception: _on_unforeseen,
    Refusal: _on_refusal,
    HTTPException: _on_http,
    RequestValidationError: _on_invalid,
    ValidationError: _on_invalid,
    RembrandtError: _on_own,
}
