"""Sparse linear classifiers over label trees: which cluster of labels, then which label.

Every label has weights of its own, on features that its examples have. Labels with similar examples
share a cluster, and a classifier at any node learns from the examples of its parent alone: the cost
is pairs of examples and siblings, not examples × labels. When examples × labels is affordable there
are no clusters, and each label learns from all examples. With several trees, each with its own
clusters, a score is the mean over trees.

A label's score is a probability, ``exp(−Σ max(0, 1 − (xᵀs + b))^power)`` over the nodes on its
path.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

import numpy as np
from scipy import sparse

from rembrandt.linalg.blocks import spans
from rembrandt.linalg.inverted import (
    add_lists,
    add_products,
    best_members,
    csr_arrays,
    lists_by_cluster,
)
from rembrandt.linalg.ranking import look_up, rank, top_k
from rembrandt.linalg.sparse import Matrix, as_csr, unit_rows
from rembrandt.linalg.threads import Workspace, for_each, n_threads
from rembrandt.scorers.explanations import Contributions, secant
from rembrandt.scorers.protocol import BLOCK_ROWS, Array, Labels, Scorer
from rembrandt.storage.arrays import as_half, checked, pack_csr, positive, unpack_csr

ROWS, MOST_ROWS = 512, 4096  # rows scored by one call, at least and at most
FEW_ROWS = 8  # of which one thread scores all trees
ROUNDED = 1 << 20  # weights rounded at a time
CANDIDATES = (
    10  # labels that each of several trees contributes, and that all of them score, at least
)
CLUSTERS = 1 << 25  # log-probabilities of clusters that are kept for a block of rows


@dataclass(frozen=True)
class Level:
    """The nodes of one level: weights (nodes × features), biases, and the parent of each node."""

    weights: sparse.csr_array
    bias: Array
    parent: Array

    @classmethod
    def rounded(cls, weights: sparse.csr_array, bias: Array, parent: Array) -> Level:
        """Round the weights to half precision, in which they are stored: a saved model predicts the
        same.
        """
        for part in spans(weights.nnz, ROUNDED):
            weights.data[part] = as_half(weights.data[part])
        return cls(weights, bias, parent)


@dataclass(frozen=True)
class Tree:
    """Fitted levels; the nodes of the last one are the labels."""

    levels: tuple[Level, ...]

    @property
    def labels(self) -> Level:
        return self.levels[-1]

    @property
    def n_clusters(self) -> int:
        return len(self.levels[-2].bias) if len(self.levels) > 1 else 1

    @cached_property
    def lists(self) -> tuple[sparse.csr_array, ...]:
        """The weights of every level of clusters by feature; those of the labels when there are no
        clusters.
        """
        return tuple(as_csr(level.weights.T) for level in self.levels[:-1] or self.levels)

    @cached_property
    def by_feature(self) -> sparse.csr_array:
        """The weights of the labels by feature."""
        return as_csr(self.labels.weights.T)

    @cached_property
    def members(self) -> tuple[Array, Array]:
        """Where the labels of each cluster start, and the labels by cluster."""
        parent = self.labels.parent
        ends = np.cumsum(np.bincount(parent, minlength=self.n_clusters))
        return np.append(0, ends), np.argsort(parent, kind="stable")

    @cached_property
    def label_lists(self) -> tuple[Array, ...]:
        """The weights of the labels by cluster and feature."""
        starts, labels = self.members
        rank = np.empty(
            len(labels), dtype=np.uint16 if np.diff(starts).max() <= 1 << 16 else np.int32
        )
        rank[labels] = np.arange(len(labels)) - np.repeat(starts[:-1], np.diff(starts))
        return lists_by_cluster(
            csr_arrays(as_csr(self.labels.weights.T)), self.labels.parent, rank, self.n_clusters
        )

    def clusters(self, X: sparse.csr_array, rows: slice, power: float) -> Array:
        """Log-probabilities of the clusters."""
        total = np.zeros((rows.stop - rows.start, 1), dtype=np.float32)
        for level, lists in zip(self.levels[:-1], self.lists, strict=False):
            total = total[:, level.parent] - _loss(_margins(X, rows, lists, level.bias), power)
        return total


@dataclass(frozen=True)
class PreparedRows:
    """Rows of unit length and, for each tree, the log-probabilities of its clusters."""

    X: sparse.csr_array
    clusters: tuple[Array, ...]


@dataclass(frozen=True)
class Trees(Scorer):
    """Fitted trees; see `Scorer`. Scores are probabilities."""

    trees: tuple[Tree, ...]
    power: float
    beam: int  # clusters that a search scores

    @property
    def n_labels(self) -> int:
        return len(self.trees[0].labels.bias)

    @property
    def n_features(self) -> int:
        return int(self.trees[0].labels.weights.shape[1])

    @property
    def block_rows(self) -> int:
        """Number of rows to score at a time."""
        return max(1, min(BLOCK_ROWS, CLUSTERS // sum(tree.n_clusters for tree in self.trees)))

    def prepare(self, X: Matrix) -> PreparedRows:
        unit = unit_rows(X)
        n = unit.shape[0]
        kept = tuple(np.empty((n, tree.n_clusters), dtype=np.float32) for tree in self.trees)

        def fill(number: int, rows: slice) -> None:
            kept[number][rows] = self.trees[number].clusters(unit, rows, self.power)

        for_each(fill, self._parts(n), small=n < FEW_ROWS)
        return PreparedRows(unit, kept)

    def top(self, rows: PreparedRows, k: int) -> tuple[Labels, Array]:
        """See `Scorer`. The labels of the `beam` best clusters of every tree are searched."""
        if len(self.trees) == 1:
            found, scores = self._top_of_each(rows, k)
            return found[0], scores[0]
        found, scores = self._top_of_each(rows, max(k, CANDIDATES))
        labels = _likeliest(np.hstack(list(found)), np.hstack(list(scores)), max(k, CANDIDATES))
        known = np.full(
            (len(found), *labels.shape), np.nan, dtype=np.float32
        )  # what the trees' own lists have
        for own, listed, probabilities in zip(known, found, scores, strict=True):
            look_up(labels, listed, probabilities, own)
        labels, scores = rank(labels, self._means(rows, labels, known))
        return labels[:, :k], scores[:, :k]

    def at(self, rows: PreparedRows, labels: Labels) -> Array:
        return self._means(rows, labels, None)

    def every(self, rows: PreparedRows) -> Array:
        """See `Scorer`. Labels are scored by inverted lists."""
        total = np.zeros((rows.X.shape[0], self.n_labels), dtype=np.float32)
        share = np.float32(1 / len(self.trees))

        def add(span: slice) -> None:
            for tree, clusters in zip(self.trees, rows.clusters, strict=True):
                margins = np.zeros((span.stop - span.start, self.n_labels), dtype=np.float32)
                add_lists(csr_arrays(rows.X), span.start, csr_arrays(tree.by_feature), margins)
                loss = _loss(margins + tree.labels.bias, self.power)
                total[span] += share * np.exp(clusters[span][:, tree.labels.parent] - loss)

        for tree in self.trees:
            _ = tree.by_feature  # once, not in each thread
        for_each(add, ((span,) for span in spans(rows.X.shape[0], ROWS)))
        return total

    def _means(self, rows: PreparedRows, labels: Labels, known: Array | None) -> Array:
        """Scores of labels; ``known`` probabilities (trees × n × m) are not computed again, the
        others are NaN.
        """
        out = np.zeros(labels.shape, dtype=np.float32)
        space = Workspace(lambda: np.zeros(rows.X.shape[1], dtype=np.float32))
        share = np.float32(1 / len(self.trees))

        def fill(span: slice) -> None:
            for number, tree in enumerate(self.trees):
                last, above = tree.labels, rows.clusters[number][span]
                given = (
                    np.full(out[span].shape, np.nan, out.dtype)
                    if known is None
                    else known[number][span]
                )
                wanted = np.where(np.isnan(given), labels[span], -1)
                margins = np.zeros(wanted.shape, dtype=np.float32)
                with space.borrowed() as dense:
                    add_products(
                        csr_arrays(rows.X),
                        span.start,
                        wanted,
                        csr_arrays(last.weights),
                        dense,
                        margins,
                    )
                loss = _loss(margins + last.bias[wanted], self.power)
                found = np.exp(np.take_along_axis(above, last.parent[wanted], axis=1) - loss)
                out[span] += share * np.where(np.isnan(given), found, given)

        for_each(fill, ((span,) for span in spans(rows.X.shape[0], ROWS)))
        return np.where(labels < 0, np.float32(-np.inf), out)

    def label_weights(self) -> sparse.csr_array:
        """Return the weights of the features for each label, c × d, summed over trees."""
        return as_csr(reduce(operator.add, (tree.labels.weights for tree in self.trees)))

    def explain(
        self, row: sparse.csr_array, labels: Labels, likelihood: bool = False
    ) -> Contributions:
        """See `Scorer`.

        A tree's probability is ``exp f`` with ``f`` a sum over the nodes of a path of functions of
        their margins ``s = xᵀw + b``. A function of one number changes by its secant times the
        change of the number: ``exp f − exp f₀ = E (f − f₀)`` and ``f − f₀ = Σ m (s − b)``, where
        ``f₀`` is that of an empty row and ``E`` and ``m`` are the slopes between the two rows. So a
        feature x adds ``E Σ m w x`` over the path, exactly.
        """
        unit = unit_rows(row).astype(np.float64)
        parts = [self._explain(tree, unit, labels) for tree in self.trees]
        base, values = (np.mean(each, axis=0) for each in zip(*parts, strict=True))
        return Contributions(base, values)

    def _explain(self, tree: Tree, unit: sparse.csr_array, labels: Labels) -> Contributions:
        values, power = np.zeros((unit.nnz, len(labels))), self.power
        end, start = (
            np.zeros(len(labels)),
            np.zeros(len(labels)),
        )  # f of the row and of the empty row
        nodes = labels
        for level in reversed(tree.levels):
            added = level.weights[nodes][:, unit.indices].toarray().T * unit.data[:, None]
            bias, change = level.bias[nodes].astype(np.float64), added.sum(axis=0)
            empty, full = (
                -(np.maximum(0.0, 1.0 - margin) ** power) for margin in (bias, bias + change)
            )
            values += added * secant(
                empty, full, change, power * np.maximum(0.0, 1.0 - bias) ** (power - 1)
            )
            start, end = start + empty, end + full
            nodes = level.parent[nodes]
        return Contributions(
            np.exp(start), values * secant(np.exp(start), np.exp(end), end - start, np.exp(end))
        )

    def arrays(self) -> tuple[dict[str, Array], dict[str, Any]]:
        arrays: dict[str, Array] = {}
        for t, tree in enumerate(self.trees):
            for number, level in enumerate(tree.levels):
                name = f"trees.{t}.{number}"
                arrays |= pack_csr(f"{name}.weights", level.weights)
                arrays |= {
                    f"{name}.bias": level.bias,
                    f"{name}.parent": level.parent.astype(np.int32),
                }
        return arrays, {
            "levels": [len(tree.levels) for tree in self.trees],
            "power": self.power,
            "beam": self.beam,
        }

    @classmethod
    def from_arrays(cls, arrays: dict[str, Array], facts: dict[str, Any]) -> Trees:
        trees, d, c = [], None, None
        for t, n_levels in enumerate(facts["levels"]):
            levels: list[Level] = []
            above = 1  # nodes of the level before
            for number in range(positive(n_levels, int)):
                name, is_last = f"trees.{t}.{number}", number == n_levels - 1
                weights = unpack_csr(f"{name}.weights", arrays, (c if is_last else None, d))
                nodes, d = weights.shape
                parent = checked(f"{name}.parent", arrays, (nodes,), "i", 0, above)
                levels.append(Level(weights, checked(f"{name}.bias", arrays, (nodes,)), parent))
                above = nodes
            c = above
            trees.append(Tree(tuple(levels)))
        return cls(tuple(trees), positive(facts["power"]), positive(facts["beam"], int))

    def _parts(self, n: int) -> Iterator[tuple[int, slice]]:
        """Every tree with blocks of rows: as many as there are threads, because few rows do not pay
        for a cluster.
        """
        step = min(max(ROWS, -(-n // n_threads())), MOST_ROWS)
        return ((number, rows) for number in range(len(self.trees)) for rows in spans(n, step))

    def _top_of_each(self, rows: PreparedRows, k: int) -> tuple[Labels, Array]:
        """The best labels in each tree and their probabilities in it, trees × n × k."""
        X = rows.X
        shape = (len(self.trees), X.shape[0], k)
        best = np.full(shape, -1, dtype=np.int64)
        scores = np.full(shape, -np.inf, dtype=np.float32)
        space = Workspace(lambda: np.full(X.shape[1], -1, dtype=np.int32))

        def search(number: int, span: slice) -> None:
            tree = self.trees[number]
            log_probabilities = rows.clusters[number][span]
            width = min(self.beam, log_probabilities.shape[1])
            clusters, so_far = top_k(log_probabilities, width)
            bias = tree.labels.bias[tree.members[1]]
            leaves: Any = (tree.members, tree.label_lists, bias, self.power)
            with space.borrowed() as position:
                work: Any = (*leaves, position, best[number, span], scores[number, span])
                best_members(csr_arrays(X), span.start, clusters, so_far, *work)

        def score_all(number: int, span: slice) -> None:
            """Without clusters: every label by inverted lists, which is faster than one label after
            the other.
            """
            tree = self.trees[number]
            margins = _margins(X, span, tree.lists[0], tree.labels.bias)
            best[number, span], scores[number, span] = top_k(-_loss(margins, self.power), k)

        def fill(number: int, span: slice) -> None:
            if len(self.trees[number].levels) > 1:
                search(number, span)
            else:
                for part in spans(span.stop - span.start, ROWS):
                    score_all(number, slice(span.start + part.start, span.start + part.stop))
            labels, logarithms = rank(best[number, span], scores[number, span])
            best[number, span] = labels
            scores[number, span] = np.where(labels < 0, np.float32(-np.inf), np.exp(logarithms))

        for tree in self.trees:
            _ = (
                tree.lists,
                tree.members,
                len(tree.levels) > 1 and tree.label_lists,
            )  # once, not in each thread
        for_each(fill, self._parts(X.shape[0]), small=X.shape[0] < FEW_ROWS)
        return best, scores


def _margins(X: sparse.csr_array, rows: slice, lists: sparse.csr_array, bias: Array) -> Array:
    """``xᵀs + b`` of every node of a level."""
    margins = np.tile(bias, (rows.stop - rows.start, 1))
    add_lists(csr_arrays(X), rows.start, csr_arrays(lists), margins)
    return margins


def _loss(margins: Array, power: float) -> Array:
    return np.asarray(np.maximum(0, 1 - margins) ** np.float32(power))


def _likeliest(labels: Labels, scores: Array, k: int) -> Labels:
    """The ``k`` distinct labels of every row with the largest sums of scores, ascending, -1
    last.
    """
    order = np.argsort(labels, axis=1, kind="stable")
    labels, scores = (
        np.take_along_axis(each, order, axis=1) for each in (labels, np.maximum(scores, 0))
    )
    ends = np.cumsum(scores, axis=1, dtype=np.float64)
    is_last = np.ones(labels.shape, dtype=np.bool_)  # of equal labels
    is_last[:, :-1] = labels[:, 1:] != labels[:, :-1]
    before = np.maximum.accumulate(np.where(is_last, ends, 0), axis=1)
    sums = ends - np.hstack([np.zeros((len(labels), 1)), before[:, :-1]])
    found, _ = top_k(np.where(is_last & (labels >= 0), sums, -np.inf), k)
    found = np.sort(np.where(found < 0, labels.shape[1], found), axis=1)
    return np.take_along_axis(np.pad(labels, ((0, 0), (0, 1)), constant_values=-1), found, axis=1)
