"""Label hierarchies: the parents of each label, read from a file or from labels that are paths.

Only the step from a label to its parents is ever used, so graphs with cycles are allowed.
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
from rembrandt.errors import DataError
from rembrandt.progress import Report, silent

FORMATS = ("edges", "tree", "parents", "path")
SEPARATOR = "|"  # between the parents, or the tree numbers, in a cell

_TREE_HEADER = ["id", "name", "tree_numbers"]
_PARENTS_HEADER = ["concept", "descriptors"]
_TREE_NUMBER = re.compile(r"[^.\s]+(?:\.[^.\s]+)*")
_CATEGORY = re.compile(r"[^\W\d_]+(?=\d)")
_LONGEST_SEPARATOR = 3


@dataclass(frozen=True)
class Hierarchy:
    """Labels and their parents.

    Attributes
    ----------
    labels : the c labels.
    parents : the p parents; most of them are labels too.
    matrix : CSR float32, c × p, one where a column is a parent of a row.
    unknown : the number of labels given to `over` that are not in the hierarchy; their rows are empty.
    loops : the number of edges from a label to itself, which are dropped.

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
    def from_edges(cls, edges: Sequence[tuple[str, str]], labels: Sequence[str] = ()) -> Hierarchy:
        """Make a hierarchy from pairs ``(parent, child)`` and labels that may have no parent."""
        kept = list(dict.fromkeys((parent, child) for parent, child in edges if parent != child))
        loops = sum(parent == child for parent, child in edges)
        names = sorted({*labels, *(name for edge in edges for name in edge)})
        parents = sorted({parent for parent, _ in kept})
        row_of = {name: i for i, name in enumerate(names)}
        column_of = {name: i for i, name in enumerate(parents)}
        rows = [row_of[child] for _, child in kept]
        columns = [column_of[parent] for parent, _ in kept]
        shape = (len(names), len(parents))
        matrix = sp.csr_array((np.ones(len(rows), np.float32), (rows, columns)), shape=shape)
        return cls(names, parents, matrix, loops=loops)

    @classmethod
    def from_paths(cls, labels: Sequence[str], separator: str) -> Hierarchy:
        r"""Make a hierarchy from labels that are paths: the parent of ``a:vendor:product`` is
        ``a:vendor``.

        A separator after a backslash is part of a name, as in ``a:perl:file\:\:path``.
        """
        if not separator:
            raise DataError(
                "the separator is empty; give the text between the parts of a label, such as ':'"
            )
        ends = [_last(label, separator) for label in labels]
        edges = [(label[:end], label) for label, end in zip(labels, ends, strict=True) if end >= 0]
        return cls.from_edges(edges, labels).over(labels)

    def over(self, labels: Sequence[str]) -> Hierarchy:
        """Return the hierarchy with a row for each of ``labels``, in this order."""
        names = list(labels)
        row_of = {name: i for i, name in enumerate(self.labels)}
        rows = np.array([row_of.get(name, len(self.labels)) for name in names], dtype=np.int64)
        padded = sp.vstack(
            [self.matrix, sp.csr_array((1, len(self.parents)), dtype=np.float32)], format="csr"
        )
        unknown = int((rows == len(self.labels)).sum())
        return Hierarchy(names, self.parents, sp.csr_array(padded[rows]), unknown, self.loops)

    def edges(self) -> Iterator[tuple[str, str]]:
        """Yield every pair ``(parent, child)``."""
        entries = self.matrix.tocoo()
        for row, column in zip(entries.coords[0].tolist(), entries.coords[1].tolist(), strict=True):
            yield self.parents[column], self.labels[row]

    def joined(self, other: Hierarchy) -> Hierarchy:
        """Return the union of two hierarchies, such as headings and the concepts below them."""
        both = Hierarchy.from_edges([*self.edges(), *other.edges()], [*self.labels, *other.labels])
        return Hierarchy(both.labels, both.parents, both.matrix, loops=self.loops + other.loops)


def read_hierarchy(
    source: str | Path | Sequence[str | Path],
    format: str = "auto",
    labels: Sequence[str] | None = None,
    report: Report = silent,
) -> Hierarchy:
    """Read a hierarchy from files, which may be compressed, or derive it from labels that are
    paths.

    Parameters
    ----------
    source : a file, or several files that form one hierarchy; or, for labels that are paths, the separator of their
        parts, such as ``:``.
    format : the format of the files; "auto" detects it from the first line.

        - "edges": lines ``parent child``, separated by a tab or else by white space.
        - "tree": a tab-separated table with the header ``id name tree_numbers``, with numbers joined by ``|``. The
          parents of a heading are the headings whose number is one of its own without the last
          dotted part. If no heading has that number, the number itself is the parent. The parent of
          a number without a dot is its category: ``A01`` and ``A02`` are both below ``A``.
        - "parents": a tab-separated table with the header ``concept descriptors``, with parents joined by ``|``.
        - "path": ``source`` is a separator, and the parent of a label is the label without its last part. "auto" takes
          ``source`` for a separator if it is one to three characters, none of them a letter, digit
          or space, and not the name of a file.
    labels : the labels of the rows, in this order, such as those of a model. Required by "path".

    Malformed input raises ``DataError``, which names the file and the line.
    """
    sources = [source] if isinstance(source, str | Path) else list(source)
    if not sources:
        raise DataError("there is nothing to read a hierarchy from; name a file or a separator")
    whole = reduce(Hierarchy.joined, [_read(one, format, labels, report) for one in sources])
    return whole if labels is None else whole.over(labels)


def _read(
    source: str | Path, format: str, labels: Sequence[str] | None, report: Report
) -> Hierarchy:
    if format != "auto" and format not in FORMATS:
        raise DataError(
            f"unknown format {format!r}; choose from {', '.join(FORMATS)}, or auto", source
        )
    if format == "path" or (format == "auto" and _is_separator(str(source))):
        if labels is None:
            raise DataError(
                f"{str(source)!r} is a separator of the parts of labels; give the labels too"
            )
        return Hierarchy.from_paths(labels, str(source))
    path = Path(source)
    kind = _detect(path) if format == "auto" else format
    found = {"edges": _read_edges, "tree": _read_tree, "parents": _read_parents}[kind](path, report)
    if not found.matrix.nnz:
        raise DataError(
            f"no label has a parent in this file, read as format={kind}; check the file", path
        )
    return found


def _is_separator(text: str) -> bool:
    short = 1 <= len(text) <= _LONGEST_SEPARATOR
    return (
        short
        and not any(sign.isalnum() or sign.isspace() for sign in text)
        and not Path(text).is_file()
    )


def _last(label: str, separator: str) -> int:
    """Return the position of the last separator without a backslash before it, -1 if there is
    none.
    """
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
        "the format cannot be detected from the first line; give format= one of "
        f"{', '.join(FORMATS[:3])}",
        path,
    )


def _lines(path: Path, report: Report) -> Iterator[tuple[int, str]]:
    """Yield the lines that are not blank, with their numbers."""
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
            raise DataError(
                f"found {len(cells)} cells in {_short(row)}; expected a parent and a child",
                path,
                number,
            )
        if cells != ["parent", "child"]:
            edges.append((cells[0], cells[1]))
    return Hierarchy.from_edges(edges)


def _table(path: Path, columns: list[str], report: Report) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of a tab-separated table without its header."""
    rows = _lines(path, report)
    for position, (number, row) in enumerate(rows):
        cells = [cell.strip() for cell in row.split("\t")]
        if len(cells) != len(columns) or not cells[0]:
            wanted = f"{len(columns)} separated by tabs ({', '.join(columns)}), the first not empty"
            raise DataError(
                f"found {len(cells)} cells in {_short(row)}; expected {wanted}", path, number
            )
        if position:
            yield number, cells


def _read_parents(path: Path, report: Report) -> Hierarchy:
    edges, labels = [], []
    for number, (concept, parents) in _table(path, _PARENTS_HEADER, report):
        labels.append(concept)
        edges += [(parent, concept) for parent in _cells(parents, path, number)]
    return Hierarchy.from_edges(edges, labels)


def _read_tree(path: Path, report: Report) -> Hierarchy:
    owner: dict[str, str] = {}
    headings = []
    for number, (heading, _, positions) in _table(path, _TREE_HEADER, report):
        headings.append(heading)
        for position in _cells(positions, path, number):
            if not _TREE_NUMBER.fullmatch(position):
                raise DataError(
                    f"{_short(position)} is not a tree number; expected one like A01.236",
                    path,
                    number,
                )
            if owner.setdefault(position, heading) != heading:
                raise DataError(
                    f"{heading} and {owner[position]} both have the tree number {position}; it "
                    "must be unique",
                    path,
                    number,
                )
    edges = []
    for position, heading in owner.items():
        above = _above(position)
        if above:
            edges.append((owner.get(above, f"tree number {above}"), heading))
    return Hierarchy.from_edges(edges, headings).over(
        list(dict.fromkeys(headings))
    )  # tree numbers are parents only


def _above(position: str) -> str:
    """Return the tree number above one: without the last dotted part, or the letters of the
    category.
    """
    above = position.rpartition(".")[0]
    category = _CATEGORY.match(position)
    return above or (category[0] if category else "")


def _cells(joined: str, path: Path, number: int) -> list[str]:
    """Return the parts of a cell; an empty cell has none."""
    parts = [part.strip() for part in joined.split(SEPARATOR)] if joined else []
    if not all(parts):
        raise DataError(
            f"an empty part in {_short(joined)}; remove one {SEPARATOR!r}", path, number
        )
    return parts


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:37] + "...")
