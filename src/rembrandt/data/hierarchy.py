"""Which labels are whose children: a directed graph over labels, read from a file or from the labels' own names.

Only one step up is ever taken, from a label to its parents, so a graph with cycles does no harm.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from rembrandt.data.compressed import head, line_chunks
from rembrandt.data.labels import LabelIndex
from rembrandt.errors import DataError
from rembrandt.progress import Report, silent

FORMATS = ("edges", "tree", "parents", "path")
SEPARATOR = "|"  # between several parents, or several tree numbers, in a cell

_TREE_HEADER = ["id", "name", "tree_numbers"]
_PARENTS_HEADER = ["concept", "descriptors"]
_TREE_NUMBER = re.compile(r"[^.\s]+(?:\.[^.\s]+)*")
_CATEGORY = re.compile(r"[^\W\d_]+(?=\d)")
_LONGEST_SEPARATOR = 3


@dataclass(frozen=True)
class Hierarchy:
    """Labels and their parents; a value that is never changed.

    Attributes
    ----------
    labels : the c labels' names.
    parents : the p parents' names; most are labels too.
    matrix : CSR float32, c × p, ones where a column is a parent of a row.
    unknown : how many of the labels were asked for in `over` and are not in the hierarchy; their rows are empty.
    loops : how many edges led from a label to itself; they were dropped.

    >>> tree = Hierarchy.from_edges([("animal", "cat"), ("animal", "dog"), ("plant", "oak")])
    >>> tree.over(["dog", "cat", "cow"]).matrix.toarray().tolist(), tree.over(["dog", "cow"]).unknown
    ([[1.0, 0.0], [1.0, 0.0], [0.0, 0.0]], 1)
    """

    labels: list[str]
    parents: list[str]
    matrix: sp.csr_array
    unknown: int = 0
    loops: int = 0

    @classmethod
    def from_edges(cls, edges: Sequence[tuple[str, str]], alone: Sequence[str] = ()) -> Hierarchy:
        """A hierarchy from pairs ``(parent, child)``, and labels that may have no parent; repeated pairs count once."""
        labels, parents = LabelIndex(), LabelIndex()
        labels.add(alone)
        rows = labels.add(child for _, child in edges)
        labels.add(parent for parent, _ in edges)
        kept = np.fromiter((parent != child for parent, child in edges), bool, len(edges))
        columns = parents.add(parent for parent, child in edges if parent != child)
        (names, row_of), (above, column_of) = labels.in_order(), parents.in_order()
        ones = np.ones(columns.size, np.float32)
        shape = (len(names), len(above))
        matrix = sp.csr_array((ones, (row_of[rows[kept]], column_of[columns])), shape=shape)
        matrix.sum_duplicates()
        matrix.data[:] = 1.0
        return cls(names, above, matrix, loops=int((~kept).sum()))

    @classmethod
    def from_paths(cls, labels: Sequence[str], separator: str) -> Hierarchy:
        r"""Labels that are their own path: the parent of ``a:vendor:product`` is ``a:vendor``.

        A separator after a backslash is part of a name, as in ``a:perl:file\:\:path``.
        """
        if not separator:
            raise DataError("the separator is empty; give what stands between the parts of a label, such as ':'")
        ends = [_last(label, separator) for label in labels]
        edges = [(label[:end], label) for label, end in zip(labels, ends, strict=True) if end >= 0]
        return cls.from_edges(edges, labels).over(labels)

    def over(self, labels: Sequence[str]) -> Hierarchy:
        """The same parents, with a row for each of these labels in this order; those it lacks are counted."""
        wanted = list(labels)
        position = {name: i for i, name in enumerate(self.labels)}
        rows = np.fromiter((position.get(name, -1) for name in wanted), np.int64, len(wanted))
        known = rows >= 0
        lengths = np.zeros(len(wanted), np.int64)
        lengths[known] = np.diff(self.matrix.indptr)[rows[known]]
        part = self.matrix[rows[known]]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        matrix = sp.csr_array((part.data, part.indices, starts), shape=(len(wanted), len(self.parents)))
        return Hierarchy(wanted, self.parents, matrix, int((~known).sum()), self.loops)

    def edges(self) -> Iterator[tuple[str, str]]:
        """Every pair ``(parent, child)``."""
        entries = self.matrix.tocoo()
        for row, column in zip(entries.coords[0].tolist(), entries.coords[1].tolist(), strict=True):
            yield self.parents[column], self.labels[row]

    def joined(self, other: Hierarchy) -> Hierarchy:
        """Both together: where a vocabulary's headings and the concepts under them are in two files."""
        both = Hierarchy.from_edges([*self.edges(), *other.edges()], [*self.labels, *other.labels])
        return Hierarchy(both.labels, both.parents, both.matrix, loops=self.loops + other.loops)


def read_hierarchy(
    source: str | Path | Sequence[str | Path],
    format: str = "auto",
    labels: Sequence[str] | None = None,
    report: Report = silent,
) -> Hierarchy:
    """Read a hierarchy from a file, which may be compressed, or take it from the labels' own names.

    Parameters
    ----------
    source : a file, or several that are parts of one hierarchy; or, for labels that are their own path, the separator
        of its parts, such as ``:``.
    format : how the file looks, or "auto" to go by its first line.

        - "edges": a line is ``parent child``, with a tab between or else white space.
        - "tree": a table with a header and the columns ``id name tree_numbers``, tab-separated, numbers joined by
          ``|``. A heading's parents are the headings whose number is one of its own less the last dotted part. Where no
          heading has that number the number itself is the parent, and so is the category of a number without a dot:
          ``A01`` and ``A02`` are both under ``A``.
        - "parents": a table with a header and the columns ``concept descriptors``, tab-separated, parents joined by
          ``|``.
        - "path": ``source`` is a separator, and the parent of a label is all of it but the last part. "auto" takes one
          to three signs that are neither letters, digits nor spaces, and not a file, for a separator.
    labels : the labels wanted, such as a model's: rows are theirs, in their order. "path" needs them.
    report : told how far the reading is.

    Anything malformed raises ``DataError``, which names the file and the line.
    """
    sources = [source] if isinstance(source, str | Path) else list(source)
    if not sources:
        raise DataError("there is nothing to read a hierarchy from; name a file or a separator")
    whole = reduce(Hierarchy.joined, [_read(one, format, labels, report) for one in sources])
    return whole if labels is None else whole.over(labels)


def _read(source: str | Path, format: str, labels: Sequence[str] | None, report: Report) -> Hierarchy:
    if format != "auto" and format not in FORMATS:
        raise DataError(f"there is no format {format!r}; choose from {', '.join(FORMATS)}, or auto", source)
    if format == "path" or (format == "auto" and _is_separator(str(source))):
        if labels is None:
            raise DataError(f"{str(source)!r} separates the parts of labels; give the labels too")
        return Hierarchy.from_paths(labels, str(source))
    path = Path(source)
    kind = _detect(path) if format == "auto" else format
    found = {"edges": _read_edges, "tree": _read_tree, "parents": _read_parents}[kind](path, report)
    if not found.matrix.nnz:
        raise DataError(f"no label has a parent in this file, read as format={kind}; check the file", path)
    return found


def _is_separator(text: str) -> bool:
    short = 1 <= len(text) <= _LONGEST_SEPARATOR
    return short and not any(sign.isalnum() or sign.isspace() for sign in text) and not Path(text).is_file()


def _last(label: str, separator: str) -> int:
    """Where the last separator begins that no backslash protects; -1 where there is none."""
    end = label.rfind(separator)
    while end > 0 and separator != "\\":
        before = label[:end]
        if (len(before) - len(before.rstrip("\\"))) % 2 == 0:
            break
        end = label.rfind(separator, 0, end)
    return end


def _detect(path: Path) -> str:
    rows = [line for line in head(path).split(b"\n") if line.strip()]
    if not rows:
        raise DataError("the file is empty; expected a hierarchy of labels", path)
    cells = _edge(rows[0].decode(errors="replace"))
    for kind, header in (("tree", _TREE_HEADER), ("parents", _PARENTS_HEADER)):
        if cells == header:
            return kind
    if len(cells) == 2:
        return "edges"
    raise DataError(
        f"the format is not plain from the first line; say which it is, with format= one of {', '.join(FORMATS[:3])}",
        path,
    )


def _lines(path: Path, report: Report) -> Iterator[tuple[int, str]]:
    """Lines that are not blank, with their numbers."""
    for chunk in line_chunks(path, report):
        for number, row in enumerate(chunk.text().split("\n"), chunk.line):
            if row.strip():
                yield number, row.rstrip("\r")


def _edge(row: str) -> list[str]:
    cells = row.strip("\r\n").split("\t") if "\t" in row else row.split()
    return [cell.strip() for cell in cells]


def _read_edges(path: Path, report: Report) -> Hierarchy:
    edges = []
    for number, row in _lines(path, report):
        cells = _edge(row)
        if len(cells) != 2 or not all(cells):
            raise DataError(f"found {len(cells)} cells in {_short(row)}; expected a parent and a child", path, number)
        if cells != ["parent", "child"]:
            edges.append((cells[0], cells[1]))
    return Hierarchy.from_edges(edges)


def _table(path: Path, columns: list[str], report: Report) -> Iterator[tuple[int, list[str]]]:
    """The rows of a tab-separated table below its header."""
    rows = _lines(path, report)
    for place, (number, row) in enumerate(rows):
        cells = [cell.strip() for cell in row.split("\t")]
        if len(cells) != len(columns) or not cells[0]:
            wanted = f"{len(columns)} with tabs between ({', '.join(columns)}), the first not empty"
            raise DataError(f"found {len(cells)} cells in {_short(row)}; expected {wanted}", path, number)
        if place:
            yield number, cells


def _read_parents(path: Path, report: Report) -> Hierarchy:
    edges, alone = [], []
    for number, (concept, parents) in _table(path, _PARENTS_HEADER, report):
        alone.append(concept)
        edges += [(parent, concept) for parent in _cells(parents, path, number)]
    return Hierarchy.from_edges(edges, alone)


def _read_tree(path: Path, report: Report) -> Hierarchy:
    owner: dict[str, str] = {}
    headings = []
    for number, (heading, _, positions) in _table(path, _TREE_HEADER, report):
        headings.append(heading)
        for position in _cells(positions, path, number):
            if not _TREE_NUMBER.fullmatch(position):
                raise DataError(f"{_short(position)} is not a tree number; expected one like A01.236", path, number)
            if owner.setdefault(position, heading) != heading:
                raise DataError(
                    f"{heading} has the tree number {position}, and so has {owner[position]}; a number belongs to one",
                    path,
                    number,
                )
    edges = []
    for position, heading in owner.items():
        above = _above(position)
        if above:
            edges.append((owner.get(above, f"tree number {above}"), heading))
    return Hierarchy.from_edges(edges, headings).over(list(dict.fromkeys(headings)))  # places are no labels


def _above(position: str) -> str:
    """The number of the place above one: without the last dotted part, or the category's letters."""
    above = position.rpartition(".")[0]
    category = _CATEGORY.match(position)
    return above or (category[0] if category else "")


def _cells(joined: str, path: Path, number: int) -> list[str]:
    """The parts of a cell; an empty cell has none."""
    parts = [part.strip() for part in joined.split(SEPARATOR)] if joined else []
    if not all(parts):
        raise DataError(f"nothing between two {SEPARATOR!r} in {_short(joined)}; remove one of them", path, number)
    return parts


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:37] + "...")
