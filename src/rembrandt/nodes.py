"""Probabilities of the nodes of a hierarchy, from those of labels.

Nodes are numbered so that each comes after those above it. A ranking orders equal probabilities by
number, so a node then comes before those below it, and every beginning of a closed ranking is
closed.
"""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from rembrandt.data.hierarchy import Hierarchy
from rembrandt.errors import SettingsError
from rembrandt.linalg import Array
from rembrandt.model.model import Model
from rembrandt.parts.protocol import Labels

MODES = ("flat", "closed", "specific")


@dataclass(frozen=True)
class NodeSpace:
    """The nodes of a hierarchy in the order of a ranking, for one request."""

    hierarchy: Hierarchy
    is_closed: bool  # otherwise the most specific labels are asked for
    order: Labels  # the node at each position
    position: Labels  # of each node; the last entry stands for no label
    columns: Labels  # positions that are allowed, ascending
    threshold: Array  # of each position
    bar: Array  # probability at which a label hides those above it; by position

    @classmethod
    def of(cls, model: Model, mode: str, threshold: Array, allowed: Labels | None) -> "NodeSpace":
        """Return the nodes for a request with a threshold of each label."""
        hierarchy = model.hierarchy
        if hierarchy is None:
            raise SettingsError(
                f"hierarchy={mode!r} needs parents of labels, and the model has none; set them "
                "with set_label_parents, or fit with label_parents",
                "hierarchy",
            )
        order = hierarchy.order
        n = hierarchy.n_nodes
        c = hierarchy.n_labels
        is_closed = mode == "closed"
        position = np.full(n + 1, -1)
        position[order] = np.arange(n)
        if allowed is None and is_closed:
            allowed = np.arange(n)
        elif allowed is None:
            allowed = np.arange(c)
        # A node is predicted where a label below it is.
        thresholds = np.full(n, np.inf)
        thresholds[:c] = threshold
        if is_closed:
            smallest_below = -hierarchy.largest_below(-thresholds[None])[0]
            thresholds = np.minimum(thresholds, smallest_below)
        bar = np.full(n, np.inf)
        bar[:c] = np.where(threshold > 0, threshold, model.threshold)
        is_allowed = np.zeros(n, dtype=np.bool_)
        is_allowed[allowed] = True
        bar[~is_allowed] = np.inf
        return cls(
            hierarchy=hierarchy,
            is_closed=is_closed,
            order=order,
            position=position,
            columns=np.sort(position[allowed]),
            threshold=thresholds[order],
            bar=bar[order],
        )

    def numbers(self, positions: Labels) -> Labels:
        """Return the nodes at positions, -1 for -1."""
        return np.where(positions < 0, -1, self.order[positions])

    def is_settled(self, smallest: Array) -> Array:
        """Return for which rows no unlisted label hides a listed one.

        ``smallest`` is the probability that unlisted labels stay below.
        """
        if self.is_closed:
            return np.ones(len(smallest), dtype=np.bool_)
        return np.asarray(smallest <= self.bar.min(initial=np.inf))

    def of_listed(self, labels: Labels, probabilities: Array) -> tuple[Labels, Array]:
        """Return positions and probabilities from those of listed labels, -1 for none (n × m)."""
        rows, entries = np.nonzero(labels >= 0)
        columns = labels[rows, entries]
        values = probabilities[rows, entries]
        n = self.hierarchy.n_nodes
        if self.is_closed:
            above = self.hierarchy.above
            keys, largest = _largest_above(above, rows, columns, values)
            positions = self.position[keys % n]
            return _as_lists(keys // n, positions, largest, len(labels))
        hiding = self._hiding(values, self.position[columns])
        strictly_above = self.hierarchy.strictly_above
        keys, largest = _largest_above(strictly_above, rows, columns, hiding)
        keys_of_labels = rows * n + columns
        kept = np.ones(len(values), dtype=np.bool_)
        if len(keys):
            insertion = np.searchsorted(keys, keys_of_labels)
            places = np.minimum(insertion, len(keys) - 1)
            is_above_another = keys[places] == keys_of_labels
            is_hidden = is_above_another & (largest[places] >= values)
            kept = ~is_hidden
        positions = self.position[columns[kept]]
        return _as_lists(rows[kept], positions, values[kept], len(labels))

    def of_all(self, P: Array) -> Array:
        """Return probabilities of all positions, from those of all labels (n × labels)."""
        shape = (len(P), self.hierarchy.n_nodes)
        values = np.zeros(shape, dtype=P.dtype)
        values[:, : P.shape[1]] = P
        if self.is_closed:
            values = np.maximum(values, self.hierarchy.largest_below(values))
            return values[:, self.order]
        positions = np.arange(len(self.order))
        hiding = np.empty_like(values)
        hiding[:, self.order] = self._hiding(values[:, self.order], positions)
        is_hidden = self.hierarchy.largest_below(hiding) >= values
        left = np.where(is_hidden, -np.inf, values)
        return left[:, self.order]

    def _hiding(self, values: Array, positions: Labels) -> Array:
        """Return the probability up to which labels hide those above them; -inf for others."""
        bar = self.bar[positions]
        reaching = np.where(values >= bar, np.inf, values)
        return np.where(np.isinf(bar), -np.inf, reaching)


def closed_probabilities(model: Model, P: Array) -> Array:
    """Return probabilities of labels (n × c) of which none is below that of a label under it."""
    hierarchy = model.hierarchy
    if hierarchy is None:
        raise SettingsError("the model has no parents of labels", "hierarchy")
    values = np.zeros((len(P), hierarchy.n_nodes), dtype=P.dtype)
    values[:, : hierarchy.n_labels] = P
    below = hierarchy.largest_below(values)
    return np.maximum(P, below[:, : hierarchy.n_labels])


def _largest_above(
    above: sparse.csr_array,
    rows: Labels,
    columns: Labels,
    values: Array,
) -> tuple[Labels, Array]:
    """Pass the value of each label to all nodes above it, and keep the largest of each node.

    Returns row × number of nodes + node for each of them, ascending, and the largest value.
    """
    n_nodes = above.shape[1]
    starts = above.indptr[columns].astype(np.int64)
    counts = above.indptr[columns + 1] - starts
    places = np.repeat(starts, counts) + _positions_within(counts)
    nodes = above.indices[places]
    rows_of_nodes = np.repeat(rows, counts)
    keys = rows_of_nodes * n_nodes + nodes
    spread = np.repeat(values, counts)
    order = np.argsort(keys, kind="stable")
    distinct, begins = np.unique(keys[order], return_index=True)
    if len(distinct) == 0:
        return distinct, spread
    largest = np.maximum.reduceat(spread[order], begins)
    return distinct, largest


def _as_lists(rows: Labels, positions: Labels, values: Array, n: int) -> tuple[Labels, Array]:
    """Return entries of rows, which ascend, as lists; -1 and 0 after the last entry of a row."""
    counts = np.bincount(rows, minlength=n)
    width = int(counts.max(initial=0))
    labels = np.full((n, width), -1, dtype=np.int64)
    probabilities = np.zeros((n, width), dtype=values.dtype)
    entries = _positions_within(counts)
    labels[rows, entries] = positions
    probabilities[rows, entries] = values
    return labels, probabilities


def _positions_within(counts: Array) -> Array:
    """Return 0, 1, 2, … for each of some groups that follow each other and have these sizes."""
    firsts = np.cumsum(counts) - counts
    total = int(counts.sum())
    return np.arange(total) - np.repeat(firsts, counts)
