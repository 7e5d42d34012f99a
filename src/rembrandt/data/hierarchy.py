"""The hierarchy of labels: which labels lie under which others.

Nodes are the labels of a model, followed by *groups*: those above them that are not labels. A node
may have several parents. There are no cycles.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.data.labels import Title, titles_of
from rembrandt.errors import DataError
from rembrandt.forks import cached_property

Array = NDArray[Any]
Indices = NDArray[np.int64]
# The parents of each node by identifier, or the separator between the parts of a label.
Parents = Mapping[str, Iterable[str]] | str
MAX_DEPTH = 1000  # nodes above each other
MAX_LINKS = 1 << 28  # pairs of a node and one above it
_N_SHOWN = 5  # nodes of a cycle that an error names


@dataclass(frozen=True)
class Hierarchy:
    """Parents of nodes; nodes are numbered, labels first.

    Parameters
    ----------
    n_labels : int
        Number of labels.
    groups : list of str
        Identifiers of the nodes that are not labels.
    children, parents : ndarray of int
        A pair for each node and each parent of it.
    """

    n_labels: int
    groups: list[str]
    children: Indices
    parents: Indices
    group_names: list[str] | None = None  # shown for the groups, "" where there is none
    separator: str = ""  # that labels have between their parts, if parents came from there

    def __post_init__(self) -> None:
        if self.children.shape != self.parents.shape or self.children.ndim != 1:
            raise DataError("a hierarchy needs one parent for each child")
        for nodes in (self.children, self.parents):
            if len(nodes) and not 0 <= nodes.min() <= nodes.max() < self.n_nodes:
                raise DataError("a hierarchy has a parent that is none of its nodes")
        self.depths  # noqa: B018 - raises an error where there is a cycle

    @classmethod
    def of(
        cls,
        labels: Iterable[Any],
        parents: Parents,
        names: Mapping[str, Title] | None = None,
    ) -> "Hierarchy":
        """Return the hierarchy of labels and all that lies above them.

        Parameters
        ----------
        labels : iterable
            Identifiers of the labels.
        parents : mapping of str to iterable of str, or str
            Identifiers of the parents of each node, those of others are ignored; or the separator
            between the parts of a label, whose parent is what comes before the last one.
        names : mapping of str to str or to tuple (str, str), optional
            Names that are shown for nodes.
        """
        numbers = {str(label): number for number, label in enumerate(labels)}
        n_labels = len(numbers)
        separator = ""
        if isinstance(parents, str):
            separator = parents
            parents = parents_by_separator(numbers, separator)
        children: list[int] = []
        above: list[int] = []
        waiting = list(numbers)
        for node in waiting:
            for parent in dict.fromkeys(parents.get(node, ())):
                if parent not in numbers:
                    numbers[parent] = len(numbers)
                    waiting.append(parent)
                children.append(numbers[node])
                above.append(numbers[parent])
        all_names = list(numbers)
        groups = all_names[n_labels:]
        links = (np.array(children, dtype=np.int64), np.array(above, dtype=np.int64))
        cycle = _cycle(len(all_names), *links)
        if len(cycle):
            shown = " → ".join(all_names[node] for node in cycle[:_N_SHOWN].tolist())
            raise DataError(
                f"labels lie above themselves: {shown}; remove one of these parents",
                parameter="label_parents",
            )
        group_names = titles_of(groups, names or {}).names
        return cls(n_labels, groups, *links, group_names, separator)

    def extended(self, labels: Iterable[Any]) -> "Hierarchy":
        """Return the hierarchy of more labels, among them those of this one in the same order."""
        all_labels = [*map(str, labels)]
        parents = self.pairs(all_labels[: self.n_labels])
        if self.separator:
            parents |= parents_by_separator(all_labels, self.separator)
        names: dict[str, Title] = dict(zip(self.groups, self.group_names or (), strict=False))
        extended = Hierarchy.of(all_labels, parents, names)
        return replace(extended, separator=self.separator)

    @property
    def n_nodes(self) -> int:
        return self.n_labels + len(self.groups)

    @cached_property
    def depths(self) -> Indices:
        """The number of nodes on the longest way up from each node."""
        depths = np.zeros(self.n_nodes, dtype=np.int64)
        for _ in range(min(self.n_nodes, MAX_DEPTH) + 1):
            deeper = depths.copy()
            np.maximum.at(deeper, self.children, depths[self.parents] + 1)
            if np.array_equal(deeper, depths):
                return depths
            depths = deeper
        raise DataError(
            f"labels lie above themselves, or more than {MAX_DEPTH:,} above each other; correct "
            "the parents of labels",
            parameter="label_parents",
        )

    @cached_property
    def order(self) -> Indices:
        """All nodes, each after those above it."""
        return np.argsort(self.depths, kind="stable")

    @cached_property
    def _levels(self) -> list[tuple[Indices, Indices, Indices]]:
        """Parents from the deepest on, their children, and where those of each parent start."""
        levels = []
        depths = self.depths[self.parents]
        for depth in range(int(depths.max(initial=-1)), -1, -1):
            of_level = np.flatnonzero(depths == depth)
            of_level = of_level[np.argsort(self.parents[of_level], kind="stable")]
            parents, starts = np.unique(self.parents[of_level], return_index=True)
            levels.append((parents, self.children[of_level], starts))
        return levels

    def largest_below(self, values: Array) -> Array:
        """Return for each node the largest value of a node below it, -inf where there is none.

        Parameters
        ----------
        values : ndarray of shape (n, n_nodes)
            A value for each node, in each row.
        """
        below = np.full(values.shape, -np.inf, dtype=values.dtype)
        values = values.copy()
        for parents, children, starts in self._levels:
            largest = np.maximum.reduceat(values[:, children], starts, axis=1)
            below[:, parents] = largest
            values[:, parents] = np.maximum(values[:, parents], largest)
        return below

    @cached_property
    def _steps(self) -> sparse.csr_array:
        """For each node its parents, as rows of a 0/1 matrix."""
        n = self.n_nodes
        ones = np.ones(len(self.children), dtype=np.int8)
        return _as_ones(sparse.csr_array((ones, (self.children, self.parents)), shape=(n, n)))

    @cached_property
    def _steps_down(self) -> sparse.csr_array:
        """For each node its children, as rows of a 0/1 matrix."""
        return sparse.csr_array(self._steps.T.tocsr())

    @cached_property
    def above(self) -> sparse.csr_array:
        """For each node, itself and all nodes above it, as rows of a 0/1 matrix."""
        n = self.n_nodes
        steps = self._steps
        reached = sparse.csr_array(sparse.eye_array(n, dtype=np.int8))
        frontier = reached
        while frontier.nnz:
            frontier = _as_ones(frontier @ steps)
            reached = _as_ones(reached + frontier)
            if reached.nnz > MAX_LINKS:
                raise DataError(
                    f"labels have more than {MAX_LINKS:,} nodes above them in total; give a "
                    "hierarchy with fewer parents",
                    parameter="label_parents",
                )
        reached.sort_indices()
        return reached

    @cached_property
    def strictly_above(self) -> sparse.csr_array:
        """For each node, all nodes above it."""
        identity = sparse.eye_array(self.n_nodes, dtype=np.int8, format="csr")
        links = sparse.csr_array(self.above - identity)
        links.eliminate_zeros()
        return links

    @cached_property
    def below(self) -> sparse.csr_array:
        """For each node, itself and all nodes below it, as rows of a 0/1 matrix."""
        below = sparse.csr_array(self.above.T.tocsr())
        below.sort_indices()
        return below

    def branch(self, nodes: Iterable[int]) -> Indices:
        """Return nodes and all that lie below them, ascending."""
        rows = self.below[np.fromiter(nodes, np.int64)]
        return np.unique(rows.indices).astype(np.int64)

    def parents_of(self, node: int) -> list[int]:
        """Return the parents of a node."""
        return sorted(self._steps[[node]].indices.tolist())

    def children_of(self, node: int) -> list[int]:
        """Return the children of a node."""
        return sorted(self._steps_down[[node]].indices.tolist())

    def pairs(self, labels: Iterable[Any]) -> dict[str, list[str]]:
        """Return the identifiers of the parents of each node that has some."""
        names = [*map(str, labels), *self.groups]
        parents: dict[str, list[str]] = {}
        for child, parent in zip(self.children.tolist(), self.parents.tolist(), strict=True):
            parents.setdefault(names[child], []).append(names[parent])
        return parents


def parents_by_separator(labels: Iterable[Any], separator: str) -> dict[str, list[str]]:
    """Return the parents of labels that consist of parts: each without its last part.

    Examples
    --------
    >>> parents_by_separator(["Art -- France -- 1900"], " -- ")
    {'Art -- France -- 1900': ['Art -- France'], 'Art -- France': ['Art']}
    """
    if not separator:
        raise DataError(
            "the separator of a hierarchy is empty; give the text between the parts of a label",
            parameter="hierarchy_separator",
        )
    parents: dict[str, list[str]] = {}
    for label in labels:
        for child, parent in _steps(str(label), separator):
            if child in parents:
                break
            parents[child] = [parent]
    return parents


def _steps(label: str, separator: str) -> Iterator[tuple[str, str]]:
    """Each part of a label with the one above it, from the label on."""
    parent, found_separator, _ = label.rpartition(separator)
    while found_separator and parent:
        yield label, parent
        label = parent
        parent, found_separator, _ = label.rpartition(separator)


def _as_ones(matrix: Any) -> sparse.csr_array:
    """The pattern of a matrix as ones."""
    pattern = sparse.csr_array(matrix)
    pattern.data = np.ones(len(pattern.data), dtype=np.int8)
    return pattern


def _cycle(n_nodes: int, children: Indices, parents: Indices) -> Indices:
    """Return the nodes of a cycle in their order, the first one again at the end; or none."""
    is_left = np.ones(n_nodes, dtype=bool)
    # Nodes without a parent that is left are not in a cycle, nor below one of these alone.
    for _ in range(MAX_DEPTH + 1):
        has_parent = np.zeros(n_nodes, dtype=bool)
        has_parent[children[is_left[parents] & is_left[children]]] = True
        is_settled = np.array_equal(has_parent, is_left)
        is_left = has_parent
        if is_settled:
            break
    if not is_settled or not is_left.any():  # too deep a hierarchy is refused by its depths
        return np.empty(0, dtype=np.int64)
    inside = is_left[parents] & is_left[children]
    next_up = np.full(n_nodes, -1, dtype=np.int64)
    next_up[children[inside]] = parents[inside]
    node = int(np.flatnonzero(is_left)[0])
    path = [node]
    seen = {node}
    while True:
        node = int(next_up[node])
        path.append(node)
        if node in seen:
            return np.array(path[path.index(node) :], dtype=np.int64)
        seen.add(node)
