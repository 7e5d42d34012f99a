"""Names and descriptions of labels in a file: a table of identifiers and names, or a SKOS
vocabulary.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rembrandt.data.compressed import open_bytes, plain_suffix
from rembrandt.data.labels import Title
from rembrandt.errors import DataError, RembrandtError

_TABLES = {
    ".tsv": "tsv",
    ".tab": "tsv",
    ".txt": "tsv",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}
_SKOS = {
    ".ttl": "turtle",
    ".nt": "nt",
    ".rdf": "xml",
    ".owl": "xml",
}  # formats that never fetch anything
_IDS = ("id", "label", "uri", "code", "concept", "identifier", "notation")
_NAMES = ("name", "title", "preflabel", "text", "description", "label")
_DESCRIPTIONS = ("description", "definition", "scopenote", "scope note")


def read_label_names(path: str | Path, language: str = "en") -> dict[str, Title]:
    """Read the names of labels, and their descriptions where the file has them.

    Parameters
    ----------
    path : str or Path
        A TSV, CSV or JSONL file, or SKOS as Turtle, N-Triples or RDF/XML; it may be compressed. The
        columns of a table are called id, name and description, or the first two are id and name; a
        first line that does not name columns is read as data.
    language : str, default="en"
        For SKOS, the preferred language. A concept has its name under its URI and its notation, and
        is described by its definition, or else by its scope note.

    Returns
    -------
    dict of str to str, or to tuple (str, str)
        Names by identifier, or names and descriptions.
    """
    path, suffix = Path(path), plain_suffix(Path(path))
    if suffix in _SKOS:
        rows = _read_skos(path, _SKOS[suffix], language)
    elif suffix in _TABLES:
        rows = _table_rows(path, _TABLES[suffix])
    else:
        known = ", ".join((*_TABLES, *_SKOS))
        raise DataError(
            f"the names of labels cannot be read from {suffix or 'a file without suffix'}; use "
            f"{known}",
            path,
        )
    found: dict[str, Title] = {
        key: (name, description) if description else name
        for key, name, description in rows
        if key and name
    }
    if not found:
        raise DataError(
            "there are no names in this file; expected an identifier and a name in each row", path
        )
    return found


def _table_rows(path: Path, format: str) -> Iterator[tuple[str, str, str]]:
    """Identifier, name and description in each row."""
    from rembrandt.data.cells import Table

    table = Table(path, format)
    columns = table.columns()
    folded = [name.strip().casefold() for name in columns]
    key = next((folded.index(name) for name in _IDS if name in folded), 0)
    title = next(
        (i for name in _NAMES for i, found in enumerate(folded) if found == name and i != key),
        int(key == 0),
    )
    if len(columns) < 2:
        raise DataError("expected two columns, an identifier and a name", path, 1)
    chosen = [
        key,
        title,
        *(i for i, name in enumerate(folded) if name in _DESCRIPTIONS and i != title),
    ][:3]
    if format == "jsonl":
        batches = table.batches([columns[i] for i in chosen])
        rows: Any = (
            [cell or "" for cell in row]
            for batch in batches
            for row in zip(*batch.values(), strict=True)
        )
    else:
        rows = table.rows()
        if folded[title] in _NAMES or folded[key] in _IDS:
            next(rows)
        rows = (
            [row[i] for i in chosen if i < len(row)] if len(row) > max(key, title) else []
            for row in rows
            if row
        )
    for cells in rows:
        if len(cells) < 2 or not all(isinstance(cell, str) for cell in cells):
            raise DataError(
                "a row has no text for the identifier or the name; expected texts", path
            )
        yield _bare(cells[0]), cells[1].strip(), " ".join("".join(cells[2:]).split())


def _bare(identifier: str) -> str:
    """An identifier without the angle brackets around a URI."""
    stripped = identifier.strip()
    return stripped[1:-1] if stripped.startswith("<") and stripped.endswith(">") else stripped


def _read_skos(path: Path, format: str, language: str) -> Iterator[tuple[str, str, str]]:
    try:
        from rdflib import Graph, Literal
        from rdflib.namespace import SKOS
    except ModuleNotFoundError as missing:
        raise RembrandtError(
            "SKOS needs the package rdflib: pip install 'rembrandt[skos]'"
        ) from missing
    graph = Graph()
    try:
        with open_bytes(path) as (content, _):
            graph.parse(content, format=format, publicID=path.stem)
    except DataError:
        raise
    except Exception as error:  # each parser of rdflib has exceptions of its own
        raise DataError(
            f"this is not a file in {format} ({error}); write or fetch it again", path
        ) from error

    def preference(literal: Any) -> tuple[int, str, str]:
        tag = (literal.language or "").casefold()
        exact = [tag == language, tag.startswith(f"{language}-"), tag == "", True].index(True)
        return exact, tag, str(literal)

    def best(property: Any) -> dict[Any, str]:
        """The text of each concept in the language that is preferred most."""
        found = [pair for pair in graph.subject_objects(property) if isinstance(pair[1], Literal)]
        found.sort(key=lambda pair: preference(pair[1]), reverse=True)
        return {concept: " ".join(str(literal).split()) for concept, literal in found}

    names, descriptions = best(SKOS.prefLabel), best(SKOS.scopeNote) | best(SKOS.definition)
    codes = [(str(code), concept) for concept, code in graph.subject_objects(SKOS.notation)]
    for identifier, concept in [*codes, *((str(concept), concept) for concept in names)]:
        yield identifier, names.get(concept, ""), descriptions.get(concept, "")
