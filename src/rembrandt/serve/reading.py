"""Bodies and forms, read with suspicion."""

import math
from urllib.parse import parse_qs

from starlette.requests import Request

from rembrandt.serve.refusals import Refusal

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"


def expect(request: Request, kind: str) -> None:
    found = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if found != kind:
        raise Refusal(415, f"the body is {found or 'of no type'}; send it with Content-Type: {kind}")


def form(body: bytes) -> dict[str, str]:
    """The fields of a form; what is not asked for is passed over, for Annif adds what it knows of a document."""
    try:
        fields = parse_qs(body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=1000)
    except ValueError as error:
        raise Refusal(400, f"the form cannot be read: {error}") from error
    if "text" not in fields:
        raise Refusal(422, "the form has no field 'text'; put the text there")
    return {name: values[-1] for name, values in fields.items()}


def whole(fields: dict[str, str], name: str, otherwise: int) -> int:
    value = fields.get(name, str(otherwise))
    if not (value.isascii() and value.isdecimal() and len(value) < 10 and int(value) >= 1):
        raise Refusal(422, f"{name} is {value[:50]!r}; give a whole number from 1")
    return int(value)


def fraction(fields: dict[str, str], name: str) -> float | None:
    if name not in fields:
        return None
    try:
        value = float(fields[name])
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1:
        raise Refusal(422, f"{name} is {fields[name][:50]!r}; give a number from 0 to 1")
    return value
