"""Parents of labels in a file: a table, or a SKOS vocabulary."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from rembrandt.data.cells import Table
from rembrandt.data.compressed import plain_suffix
from rembrandt.data.label_names import SKOS_FORMATS, TABLE_FORMATS, id_column, parsed_graph
from rembrandt.errors import DataError, RembrandtError

# Names of columns, in order of preference.
_PARENTS = ("parent", "parents", "broader")
_TREE_NUMBERS = ("tree_numbers", "tree numbers", "tree_number")
_SEPARATOR = "|"  # between several parents, or tree numbers, of a label

Links = Iterator[tuple[str, str]]  # a label and a parent of it


def read_label_parents(path: str | Path, columns: Sequence[str] = ()) -> dict[str, list[str]]:
    """Read which labels lie under which others.

    Parameters
    ----------
    path : str or Path
        A TSV, CSV or JSONL file, or SKOS as Turtle, N-Triples or RDF/XML; it may be compressed. A
        table has the identifier of a label in its first column, or in one called id or label, and
        its parents, separated by "|", in one called parent, parents or broader. Instead of parents
        there may be a column tree_numbers, as in MeSH: "C04.588" lies under "C04". In SKOS, parents
        are those of skos:broader, under URIs and under notations.
    columns : sequence of str, default=()
        Columns with the groups of a label, the nearest first: each lies under the next one.

    Returns
    -------
    dict of str to list of str
        Parents by identifier.
    """
    path = Path(path)
    suffix = plain_suffix(path)
    if suffix in SKOS_FORMATS:
        links = _skos_links(path, SKOS_FORMATS[suffix])
    elif suffix in TABLE_FORMATS:
        links = _table_links(path, TABLE_FORMATS[suffix], columns)
    else:
        readable = ", ".join((*TABLE_FORMATS, *SKOS_FORMATS))
        raise DataError(
            f"the parents of labels cannot be read from {suffix or 'a file without suffix'}; use "
            f"{readable}",
            path,
        )
    parents: dict[str, dict[str, None]] = {}
    for label, parent in links:
        if label and parent:
            parents.setdefault(label, {})[parent] = None
    if not parents:
        raise DataError("there are no parents in this file; expected labels and parents", path)
    return {label: list(above) for label, above in parents.items()}


def _table_links(path: Path, format: str, columns: Sequence[str]) -> Links:
    """The links of a table, by the columns that it has."""
    table = Table(path, format)
    names = table.columns()
    folded = [name.strip().casefold() for name in names]
    key = ""
    if names:
        key = names[id_column(folded)]
    if columns:
        missing = [column for column in columns if column not in names]
        if missing:
            raise DataError(
                f"there is no column {missing[0]!r}; there are {', '.join(names)}",
                path,
                parameter="parent_columns",
            )
        return _levels(table, key, columns)
    for column in _PARENTS:
        if column in folded:
            return _parent_cells(table, key, names[folded.index(column)])
    for column in _TREE_NUMBERS:
        if column in folded:
            return _tree_links(table, key, names[folded.index(column)])
    raise DataError(
        f"there is no column {', '.join(_PARENTS)} or {_TREE_NUMBERS[0]}; there are "
        f"{', '.join(names)}; name the columns of groups with --parent-columns",
        path,
        parameter="parent_columns",
    )


def _rows(table: Table, columns: Sequence[str]) -> Iterator[list[str]]:
    """The cells of columns in each row, as texts."""
    for batch in table.batches(list(columns)):
        by_column = [batch[column] for column in columns]
        for cells in zip(*by_column, strict=True):
            yield [_text(cell) for cell in cells]


def _text(cell: Any) -> str:
    """A cell as text; a list, as JSON has it, as one for a column of several parents."""
    if isinstance(cell, list):
        return _SEPARATOR.join(map(str, cell))
    if cell is None:
        return ""
    return str(cell).strip()


def _levels(table: Table, key: str, columns: Sequence[str]) -> Links:
    """Each row is a way up: from the label to its nearest group, and on from there."""
    for row in _rows(table, [key, *columns]):
        way = [node for node in row if node]
        yield from pairwise(way)


def _parent_cells(table: Table, key: str, column: str) -> Links:
    for label, parents in _rows(table, [key, column]):
        for parent in parents.split(_SEPARATOR):
            yield label, parent.strip()


def _tree_links(table: Table, key: str, column: str) -> Links:
    """The parents of a label are the labels at its tree numbers without their last part."""
    numbers_of = {}
    label_at = {}
    for label, cell in _rows(table, [key, column]):
        tree_numbers = [number.strip() for number in cell.split(_SEPARATOR)]
        numbers_of[label] = tree_numbers
        label_at.update(dict.fromkeys(tree_numbers, label))
    links = set()
    for label, tree_numbers in numbers_of.items():
        for number in tree_numbers:
            above = number.rpartition(".")[0]
            parent = label_at.get(above, above)
            if parent != label:
                links.add((label, parent))
    levels = {}
    for label, tree_numbers in numbers_of.items():
        depths = [number.count(".") for number in tree_numbers]
        levels[label] = min(depths)
    return iter(_without_cycles(sorted(links), levels))


def _without_cycles(links: list[tuple[str, str]], levels: dict[str, int]) -> list[tuple[str, str]]:
    """Leave out links inside a cycle that do not go up to a higher level.

    A label that stands in several places of a tree may lie above another in one of them and below
    it in another.
    """
    numbers: dict[str, int] = {}
    for link in links:
        for node in link:
            numbers.setdefault(node, len(numbers))
    children = np.array([numbers[child] for child, _ in links], dtype=np.int64)
    parents = np.array([numbers[parent] for _, parent in links], dtype=np.int64)
    ones = np.ones(len(links), dtype=np.int8)
    shape = (len(numbers), len(numbers))
    graph = sparse.csr_array((ones, (children, parents)), shape=shape)
    _, component = connected_components(graph, directed=True, connection="strong")
    in_cycle = component[children] == component[parents]
    kept = []
    for (child, parent), is_inside in zip(links, in_cycle.tolist(), strict=True):
        if not is_inside or levels[parent] < levels[child]:
            kept.append((child, parent))
    return kept


def _skos_links(path: Path, format: str) -> Links:
    """The links of broader and narrower, by URI and by notation."""
    try:
        from rdflib.namespace import SKOS
    except ModuleNotFoundError as missing:
        raise RembrandtError(
            "SKOS needs the package rdflib: pip install 'rembrandt[skos]'"
        ) from missing
    graph = parsed_graph(path, format)
    codes: dict[Any, list[str]] = {}
    for concept, code in graph.subject_objects(SKOS.notation):
        codes.setdefault(concept, []).append(str(code))
    links = set(graph.subject_objects(SKOS.broader))
    links |= {(child, parent) for parent, child in graph.subject_objects(SKOS.narrower)}
    for child, parent in sorted(links):
        yield str(child), str(parent)
        parent_codes = sorted(codes.get(parent, []))
        parent_label = str(parent)
        if parent_codes:
            parent_label = parent_codes[0]
        for code in sorted(codes.get(child, [])):
            yield code, parent_label
