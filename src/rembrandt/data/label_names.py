"""Names and descriptions of labels in a file.

The file is a table of identifiers and names, or a SKOS vocabulary.
"""

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rembrandt.data.compressed import open_bytes, plain_suffix
from rembrandt.data.labels import Title
from rembrandt.errors import DataError, RembrandtError, RembrandtWarning, counted

if TYPE_CHECKING:
    from rembrandt.data.cells import Table

TABLE_FORMATS = {
    ".tsv": "tsv",
    ".tab": "tsv",
    ".txt": "tsv",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}
# Only formats whose parsers never fetch anything.
SKOS_FORMATS = {
    ".ttl": "turtle",
    ".nt": "nt",
    ".rdf": "xml",
    ".owl": "xml",
}
# Names of columns, in order of preference.
_IDS = ("id", "label", "uri", "code", "concept", "identifier", "notation")
_NAMES = ("name", "title", "preflabel", "text", "description", "label")
_DESCRIPTIONS = ("description", "definition", "scopenote", "scope note")
_SYNONYMS = ("synonyms", "synonym", "aliases", "altlabel")
_SYNONYM_SEPARATOR = "|"


# Identifier, name, description and other names of a label.
Row = tuple[str, str, str, list[str]]


def read_label_names(path: str | Path, language: str = "en") -> dict[str, Title]:
    """Read the names of labels, and their descriptions where the file has them.

    Parameters
    ----------
    path : str or Path
        A TSV, CSV or JSONL file, or SKOS as Turtle, N-Triples or RDF/XML; it may be compressed. The
        columns of a table are called id, name, description and synonyms (several are separated by
        "|"), or the first two are id and name; a first line that does not name columns is read as
        data.
    language : str, default="en"
        For SKOS, the preferred language. A concept has its name under its URI and its notation, and
        is described by its definition, or else by its scope note. Its alternative and hidden
        labels, in any language, are other names of it.

    Returns
    -------
    dict of str to str, or to tuple of str
        Names by identifier, or names with descriptions, which other names follow where there are
        any.
    """
    path = Path(path)
    suffix = plain_suffix(path)
    if suffix in SKOS_FORMATS:
        rows = _read_skos(path, SKOS_FORMATS[suffix], language)
    elif suffix in TABLE_FORMATS:
        rows = _table_rows(path, TABLE_FORMATS[suffix])
    else:
        readable = ", ".join((*TABLE_FORMATS, *SKOS_FORMATS))
        raise DataError(
            f"the names of labels cannot be read from {suffix or 'a file without suffix'}; use "
            f"{readable}",
            path,
        )
    titles: dict[str, Title] = {}
    renamed: dict[str, tuple[Title, Title]] = {}  # names of an identifier that differ
    for identifier, name, description, other_names in rows:
        if not (identifier and name):
            continue
        title: Title = name
        if description or other_names:
            title = (name, description, *other_names)
        if titles.get(identifier, title) != title:
            renamed[identifier] = (titles[identifier], title)
        titles[identifier] = title
    if renamed and suffix in TABLE_FORMATS:
        _warn_renamed(path, renamed)
    if not titles:
        raise DataError(
            "there are no names in this file; expected an identifier and a name in each row", path
        )
    return titles


def is_vocabulary(path: Path) -> bool:
    """Whether a file is in a format of SKOS."""
    return plain_suffix(path) in SKOS_FORMATS


def _warn_renamed(path: Path, renamed: dict[str, tuple[Title, Title]]) -> None:
    """Warn about identifiers with several names."""
    identifier, (first, last) = next(iter(renamed.items()))
    message = (
        f"{path}: {counted(len(renamed), 'id')} with several names, such as {identifier!r} with "
        f"{first!r} and {last!r}; the last one is used"
    )
    warnings.warn(RembrandtWarning(message), stacklevel=3)


def _table_rows(path: Path, format: str) -> Iterator[Row]:
    """Identifier, name, description and other names in each row."""
    from rembrandt.data.cells import Table  # pyarrow takes long to load

    table = Table(path, format)
    columns = table.columns()
    folded = [name.strip().casefold() for name in columns]
    key = id_column(folded)
    title = _name_column(folded, key)
    if len(columns) < 2:
        raise DataError("expected two columns, an identifier and a name", path, 1)
    chosen = [key, title]
    description_column = _column_called(_DESCRIPTIONS, folded, but=title)
    synonym_column = _column_called(_SYNONYMS, folded, but=title)
    for column in (description_column, synonym_column):
        if column >= 0:
            chosen.append(column)
    if format == "jsonl":
        rows = _json_rows(table, [columns[i] for i in chosen])
    else:
        has_header = folded[title] in _NAMES or folded[key] in _IDS
        rows = _delimited_rows(table, chosen, has_header)
    for cells in rows:
        texts = dict(zip(chosen, cells, strict=False))
        synonyms = _synonyms_in(texts.pop(synonym_column, ""))
        if len(texts) < 2 or not all(isinstance(text, str) for text in texts.values()):
            raise DataError(
                "a row has no text for the identifier or the name; expected texts", path
            )
        identifier = _bare(cells[0])
        name = cells[1].strip()
        description = _one_line(texts.get(description_column, ""))
        yield identifier, name, description, synonyms


def _synonyms_in(cell: Any) -> list[str]:
    """The synonyms in a cell: a text with separators, or a list of texts."""
    synonyms = cell
    if isinstance(cell, str):
        synonyms = cell.split(_SYNONYM_SEPARATOR)
    return [_one_line(text) for text in synonyms if text.strip()]


def _column_called(names: tuple[str, ...], folded: list[str], but: int) -> int:
    """The first column with one of these names, -1 if there is none; column ``but`` is another."""
    for i, name in enumerate(folded):
        if name in names and i != but:
            return i
    return -1


def _one_line(text: str) -> str:
    return " ".join(text.split())


def id_column(folded: list[str]) -> int:
    """The column of identifiers among names in folded case; the first if none is called so."""
    for name in _IDS:
        if name in folded:
            return folded.index(name)
    return 0


def _name_column(folded: list[str], key: int) -> int:
    """The column of names; the first one without identifiers if none is called so."""
    for name in _NAMES:
        for i, column in enumerate(folded):
            if column == name and i != key:
                return i
    return 1 if key == 0 else 0


def _json_rows(table: "Table", names: list[str]) -> Iterator[list[Any]]:
    """The cells of these columns in each object; a missing one is empty."""
    for batch in table.batches(names):
        for row in zip(*batch.values(), strict=True):
            yield [cell or "" for cell in row]


def _delimited_rows(table: "Table", chosen: list[int], has_header: bool) -> Iterator[list[Any]]:
    """The cells of these columns in each line; none if identifier or name are missing."""
    rows = table.rows()
    if has_header:
        next(rows)
    for row in rows:
        if not row:
            continue
        if len(row) > max(chosen[:2]):
            yield [row[i] for i in chosen if i < len(row)]
        else:
            yield []


def _bare(identifier: str) -> str:
    """An identifier without the angle brackets around a URI."""
    stripped = identifier.strip()
    if stripped.startswith("<") and stripped.endswith(">"):
        return stripped[1:-1]
    return stripped


def _read_skos(path: Path, format: str, language: str) -> Iterator[Row]:
    """What is known of each concept, by its notations and by its URI."""
    try:
        from rdflib.namespace import SKOS
    except ModuleNotFoundError as missing:
        raise RembrandtError(
            "SKOS needs the package rdflib: pip install 'rembrandt[skos]'"
        ) from missing
    graph = parsed_graph(path, format)
    names = _preferred_texts(graph, SKOS.prefLabel, language)
    scope_notes = _preferred_texts(graph, SKOS.scopeNote, language)
    definitions = _preferred_texts(graph, SKOS.definition, language)
    descriptions = scope_notes | definitions
    identifiers = [(str(code), concept) for concept, code in graph.subject_objects(SKOS.notation)]
    identifiers += [(str(concept), concept) for concept in names]
    others = _texts_of_properties(graph, (SKOS.altLabel, SKOS.hiddenLabel))
    for identifier, concept in identifiers:
        name = names.get(concept, "")
        other_names = [other for other in others.get(concept, []) if other != name]
        yield identifier, name, descriptions.get(concept, ""), other_names


def parsed_graph(path: Path, format: str) -> Any:
    """The graph of rdflib in a file."""
    from rdflib import Graph

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
    return graph


def _texts_of_properties(graph: Any, properties: tuple[Any, ...]) -> dict[Any, list[str]]:
    """The distinct texts of each concept in all languages, in order."""
    from rdflib import Literal

    texts: dict[Any, set[str]] = {}
    for property in properties:
        for concept, literal in graph.subject_objects(property):
            if isinstance(literal, Literal) and str(literal).strip():
                texts.setdefault(concept, set()).add(_one_line(str(literal)))
    return {concept: sorted(distinct) for concept, distinct in texts.items()}


def _preferred_texts(graph: Any, property: Any, language: str) -> dict[Any, str]:
    """The text of each concept in the language that is preferred most."""
    from rdflib import Literal

    literals = [pair for pair in graph.subject_objects(property) if isinstance(pair[1], Literal)]
    literals.sort(key=lambda pair: _preference(pair[1], language), reverse=True)
    # The most preferred text of a concept comes last and replaces the others.
    return {concept: " ".join(str(literal).split()) for concept, literal in literals}


def _preference(literal: Any, language: str) -> tuple[int, str, str]:
    """Sort key of literals: the language, a variant of it, no language, any other."""
    tag = (literal.language or "").casefold()
    if tag == language:
        rank = 0
    elif tag.startswith(f"{language}-"):
        rank = 1
    elif tag == "":
        rank = 2
    else:
        rank = 3
    return rank, tag, str(literal)
