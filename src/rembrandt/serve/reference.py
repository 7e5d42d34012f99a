"""The reference of the API as a page: OpenAPI as HTML, which needs no other host."""

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from pydantic_core import to_json

from rembrandt.errors import counted

_HEAD = """<!doctype html>
<html lang="en">
<head>
  <meta charset="utf-8">
  <meta name="viewport" content="width=device-width, initial-scale=1">
  <meta name="color-scheme" content="light dark">
  <title>Rembrandt API</title>
  <link rel="icon" href="/page/icon.svg" type="image/svg+xml">
  <link rel="stylesheet" href="/page/style.css">
  <script src="/page/theme.js"></script>
</head>
<body>
  <main class="reference">
"""
_TAIL = "</main>\n</body>\n</html>\n"
_BOUNDS = {
    "minimum": "at least",
    "maximum": "at most",
    "minItems": "at least, item",
    "maxItems": "at most, item",
    "maxLength": "at most, character",
}


def reference_page(description: Mapping[str, Any]) -> str:
    """Return the page for an OpenAPI description."""
    info = description["info"]
    operations = list(_operations(description))
    contents = ""
    for name, title, operation in operations:
        link = f'<a href="#{escape(name)}"><code>{escape(title)}</code></a>'
        text = operation.get("description", operation["summary"])
        contents += f"<li>{link} {escape(text)}</li>"
    sections = "".join(_section(*operation, description) for operation in operations)
    return (
        f"{_HEAD}<h1>{escape(info['title'])} {escape(info['version'])}: API</h1>\n"
        f"<p>{escape(info['description'])} Programs read the same as "
        '<a href="/openapi.json">/openapi.json</a>. <a href="/">To the page of the models</a></p>\n'
        f"<ul>{contents}</ul>\n{sections}{_TAIL}"
    )


def _operations(description: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """The identifier, the title and the description of each operation."""
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            yield operation["operationId"], f"{method.upper()} {path}", operation


def _section(
    name: str, title: str, operation: Mapping[str, Any], description: Mapping[str, Any]
) -> str:
    """Return one operation: what it does, what it takes, an example, and what it answers."""
    text = operation.get("description", operation["summary"])
    lines = [
        f'<section class="card" id="{escape(name)}">',
        f"<h2><code>{escape(title)}</code></h2>",
        f"<p>{escape(text)}</p>",
    ]
    parameters = operation.get("parameters", ())
    if parameters:
        rows = [
            _row(parameter["name"], parameter["schema"], parameter, parameter["required"])
            for parameter in parameters
        ]
        lines += ["<h3>Parameters</h3>", _table(rows)]
    for content_type, content in operation.get("requestBody", {}).get("content", {}).items():
        schema = _resolved(content["schema"], description)
        lines += [f"<h3>Body, {escape(content_type)}</h3>", _fields(schema)]
        for example in schema.get("examples", ()):
            text = escape(to_json(example, indent=2).decode())
            lines.append(f"<h3>Example</h3><pre tabindex='0'>{text}</pre>")
    answer = operation["responses"]["200"].get("content", {}).get("application/json", {})
    fields = _fields(_resolved(answer.get("schema", {}), description))
    if fields:
        lines += ["<h3>Answer</h3>", fields]
    return "\n".join([*lines, "</section>\n"])


def _resolved(schema: Mapping[str, Any], description: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema that a reference stands for."""
    reference = schema.get("$ref")
    if reference is None:
        return schema
    resolved: Mapping[str, Any] = description["components"]["schemas"][reference.split("/")[-1]]
    return resolved


def _fields(schema: Mapping[str, Any]) -> str:
    """Return the fields of an object as a table; nothing for another schema."""
    required = schema.get("required", ())
    rows = [
        _row(name, field, field, name in required)
        for name, field in schema.get("properties", {}).items()
    ]
    return _table(rows) if rows else ""


def _row(name: str, schema: Mapping[str, Any], about: Mapping[str, Any], required: bool) -> str:
    details = [about.get("description", "")]
    for key, words in _BOUNDS.items():
        if key in schema:
            bound, _, unit = words.partition(", ")
            value = schema[key]
            if unit:
                limit = counted(value, unit)
            else:
                limit = f"{value:,.15g}"
            details.append(f"{bound.capitalize()} {limit}.")
    if schema.get("default") not in (None, "", []):
        default = schema["default"]
        if not isinstance(default, str):
            default = to_json(default).decode()
        details.append(f"By default {default}.")
    elif required:
        details.append("Required.")
    text = " ".join(filter(None, details))
    cells = f"<td>{escape(_kind(schema))}</td><td>{escape(text)}</td>"
    return f"<tr><th scope='row'><code>{escape(name)}</code></th>{cells}</tr>"


def _table(rows: list[str]) -> str:
    head = "".join(f"<th scope='col'>{title}</th>" for title in ("Name", "Type", "Meaning"))
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    return f"<div class='scroll' tabindex='0'>{table}</div>"


def _kind(schema: Mapping[str, Any]) -> str:
    """Return the type of a value in words."""
    if "$ref" in schema:
        return str(schema["$ref"].split("/")[-1])
    if "anyOf" in schema:
        return " or ".join(_kind(option) for option in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(map(str, schema["enum"]))
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    if schema.get("type") == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of {_kind(schema['additionalProperties'])}"
    return str(schema.get("type", "any"))
