"""Names of labels in a file: a table of identifiers and names, or a SKOS vocabulary."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rembrandt.data.compressed import open_bytes, plain_suffix
from rembrandt.errors import DataError, RembrandtError

_TABLES = {".tsv": "tsv", ".tab": "tsv", ".txt": "tsv", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}
_SKOS = {".ttl": "turtle", ".nt": "nt", ".rdf": "xml", ".owl": "xml"}  # formats that never fetch anything
_IDS = ("id", "label", "uri", "code", "concept", "identifier", "notation")
_NAMES = ("name", "title", "preflabel", "text", "description", "label")


def read_label_names(path: str | Path, language: str = "en") -> dict[str, str]:
    """Read the names of labels.

    Parameters
    ----------
    path : str or Path
        A TSV, CSV or JSONL file, or SKOS as Turtle, N-Triples or RDF/XML; it may be compressed. The columns of a table
        are called id and name, or the first two are taken; a first line that does not name columns is read as data.
    language : str, default="en"
        For SKOS, the preferred language of the names. A concept has its name under its URI and its notation.

    Returns
    -------
    dict of str to str
        Names by identifier.
    """
    path, suffix = Path(path), plain_suffix(Path(path))
    if suffix in _SKOS:
        found = _read_skos(path, _SKOS[suffix], language)
    elif suffix in _TABLES:
        found = {key: name for key, name in _pairs(path, _TABLES[suffix]) if key and name}
    else:
        known = ", ".join((*_TABLES, *_SKOS))
        raise DataError(
            f"the names of labels cannot be read from {suffix or 'a file without suffix'}; use {known}", path
        )
    if not found:
        raise DataError("there are no names in this file; expected an identifier and a name in each row", path)
    return found


def _pairs(path: Path, format: str) -> Iterator[tuple[str, str]]:
    from rembrandt.data.cells import Table

    table = Table(path, format)
    columns = table.columns()
    folded = [name.strip().casefold() for name in columns]
    key = next((folded.index(name) for name in _IDS if name in folded), 0)
    title = next((i for name in _NAMES for i, found in enumerate(folded) if found == name and i != key), int(key == 0))
    if len(columns) < 2:
        raise DataError("expected two columns, an identifier and a name", path, 1)
    if format == "jsonl":
        batches = table.batches([columns[key], columns[title]])
        rows: Any = ((key or "", name or "") for batch in batches for key, name in zip(*batch.values(), strict=True))
    else:
        rows = table.rows()
        if folded[title] in _NAMES or folded[key] in _IDS:
            next(rows)
        rows = ((row[key], row[title]) if len(row) > max(key, title) else (None, None) for row in rows if row)
    for identifier, name in rows:
        if not isinstance(identifier, str) or not isinstance(name, str):
            raise DataError("a row has no text for the identifier or the name; expected both", path)
        yield _bare(identifier), name.strip()


def _bare(identifier: str) -> str:
    """An identifier without the angle brackets around a URI."""
    stripped = identifier.strip()
    return stripped[1:-1] if stripped.startswith("<") and stripped.endswith(">") else stripped


def _read_skos(path: Path, format: str, language: str) -> dict[str, str]:
    try:
        from rdflib import Graph
        from rdflib.namespace import SKOS
    except ModuleNotFoundError as missing:
        raise RembrandtError("SKOS needs the package rdflib: pip install 'rembrandt[skos]'") from missing
    graph = Graph()
    try:
        with open_bytes(path) as (content, _):
            graph.parse(content, format=format, publicID=path.stem)
    except DataError:
        raise
    except Exception as error:  # each parser of rdflib has exceptions of its own
        raise DataError(f"this is not a file in {format} ({error}); write or fetch it again", path) from error

    def preference(literal: Any) -> tuple[int, str, str]:
        tag = (literal.language or "").casefold()
        exact = [tag == language, tag.startswith(f"{language}-"), tag == "", True].index(True)
        return exact, tag, str(literal)

    best: dict[Any, Any] = {}
    for concept, literal in graph.subject_objects(SKOS.prefLabel):
        if concept not in best or preference(literal) < preference(best[concept]):
            best[concept] = literal
    found = {str(concept): str(literal).strip() for concept, literal in best.items()}
    notations = ((str(code), found.get(str(concept))) for concept, code in graph.subject_objects(SKOS.notation))
    return {code: name for code, name in notations if name} | {key: name for key, name in found.items() if name}
