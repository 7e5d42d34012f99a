"""Sparse linear classifiers over label trees: which cluster of labels, then which label.

Every label has weights of its own, on features that its examples have. Labels with similar examples
share a cluster, and a classifier at any node learns from the examples of its parent alone: the cost
is pairs of examples and siblings, not examples × labels. A tree without clusters learns each label
from all examples. With several trees, each with its own clusters, a score is the mean over trees.

A label's score is a probability, ``exp(−Σ max(0, 1 − (xᵀs + b))^power)`` over the nodes on its
path.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.data.arrays import move_columns
from rembrandt.forks import cached_property
from rembrandt.linalg import Array
from rembrandt.linalg.blocks import for_each_span, spans
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
from rembrandt.parts.contributions import Contributions, secant
from rembrandt.parts.protocol import SCORED_BLOCK_ROWS, Facts, Labels, Part
from rembrandt.storage.arrays import (
    Arrays,
    as_half,
    checked,
    pack_csr,
    positive,
    unpack_csr,
)

# Rows scored by one call, at least and at most.
SMALLEST_CALL_ROWS = 512
LARGEST_CALL_ROWS = 4096
# Rows below which one thread scores all trees.
FEW_ROWS = 8
# Weights that are rounded at a time.
ROUNDED_WEIGHTS = 1 << 20
# Labels that each of several trees contributes, and that all of them score, at least.
N_CANDIDATES = 10
# Log-probabilities of clusters that are kept for a block of rows.
MAX_CLUSTER_SCORES = 1 << 25
# Labels of a cluster whose positions fit into 16 bits.
SHORT_POSITIONS = 1 << 16
# Of entries without a label.
NO_SCORE = np.float32(-np.inf)


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
        data = weights.data
        for entries in spans(weights.nnz, ROUNDED_WEIGHTS):
            data[entries] = as_half(data[entries])
        return cls(weights, bias, parent)

    def margins(self, X: sparse.csr_array, rows: slice, lists: sparse.csr_array) -> Array:
        """Return ``xᵀs + b`` of every node; ``lists`` are the weights by feature."""
        n_rows = rows.stop - rows.start
        margins = np.tile(self.bias, (n_rows, 1))
        add_lists(csr_arrays(X), rows.start, csr_arrays(lists), margins)
        return margins


@dataclass(frozen=True)
class Tree:
    """Fitted levels; the nodes of the last one are the labels."""

    levels: tuple[Level, ...]

    @property
    def labels(self) -> Level:
        return self.levels[-1]

    @property
    def has_clusters(self) -> bool:
        return len(self.levels) > 1

    @property
    def n_clusters(self) -> int:
        if not self.has_clusters:
            return 1
        return len(self.levels[-2].bias)

    @cached_property
    def lists(self) -> tuple[sparse.csr_array, ...]:
        """The weights of every level of clusters by feature; those of the labels when there are no
        clusters.
        """
        levels = self.levels
        if self.has_clusters:
            levels = self.levels[:-1]
        return tuple(as_csr(level.weights.T) for level in levels)

    @cached_property
    def by_feature(self) -> sparse.csr_array:
        """The weights of the labels by feature."""
        return as_csr(self.labels.weights.T)

    @cached_property
    def members(self) -> tuple[Array, Array]:
        """Where the labels of each cluster start, and the labels by cluster."""
        cluster = self.labels.parent
        sizes = np.bincount(cluster, minlength=self.n_clusters)
        ends = np.cumsum(sizes)
        starts = np.append(0, ends)
        labels = np.argsort(cluster, kind="stable")
        return starts, labels

    @cached_property
    def label_lists(self) -> tuple[Array, ...]:
        """The weights of the labels by cluster and feature."""
        starts, labels = self.members
        sizes = np.diff(starts)
        dtype: Any = np.int32
        if sizes.max() <= SHORT_POSITIONS:
            dtype = np.uint16
        n_labels = len(labels)
        starts_of_labels = np.repeat(starts[:-1], sizes)
        positions = np.empty(n_labels, dtype=dtype)
        positions[labels] = np.arange(n_labels) - starts_of_labels
        by_feature = as_csr(self.labels.weights.T)
        return lists_by_cluster(
            csr_arrays(by_feature),
            self.labels.parent,
            positions,
            self.n_clusters,
        )

    def prepare_search(self) -> None:
        """Make the layouts that a search needs: once, not in each thread."""
        _ = self.lists
        _ = self.members
        if self.has_clusters:
            _ = self.label_lists

    def clusters(self, X: sparse.csr_array, rows: slice, power: float) -> Array:
        """Log-probabilities of the clusters."""
        n_rows = rows.stop - rows.start
        total = np.zeros((n_rows, 1), dtype=np.float32)
        cluster_levels = self.levels[:-1]
        for level, lists in zip(cluster_levels, self.lists, strict=False):
            margins = level.margins(X, rows, lists)
            of_parents = total[:, level.parent]
            total = of_parents - _loss(margins, power)
        return total


@dataclass(frozen=True)
class PreparedRows:
    """Rows of unit length and, for each tree, the log-probabilities of its clusters."""

    X: sparse.csr_array
    clusters: tuple[Array, ...]


@dataclass(frozen=True)
class Trees(Part):
    """Fitted trees. Scores are probabilities."""

    learns_columns: ClassVar[bool] = True

    trees: tuple[Tree, ...]
    power: float
    beam: int  # clusters that a search scores

    @property
    def n_labels(self) -> int:
        first_tree = self.trees[0]
        return len(first_tree.labels.bias)

    @property
    def n_features(self) -> int:
        first_tree = self.trees[0]
        return int(first_tree.labels.weights.shape[1])

    @property
    def block_rows(self) -> int:
        """Number of rows to score at a time."""
        n_clusters = sum(tree.n_clusters for tree in self.trees)
        affordable = MAX_CLUSTER_SCORES // n_clusters
        return max(1, min(SCORED_BLOCK_ROWS, affordable))

    def prepare(self, X: Matrix) -> PreparedRows:
        unit = unit_rows(X)
        n = unit.shape[0]
        clusters = []
        for tree in self.trees:
            shape = (n, tree.n_clusters)
            clusters.append(np.empty(shape, dtype=np.float32))

        def fill(number: int, rows: slice) -> None:
            tree = self.trees[number]
            clusters[number][rows] = tree.clusters(unit, rows, self.power)

        for_each(fill, self._calls(n), small=n < FEW_ROWS)
        return PreparedRows(unit, tuple(clusters))

    def top(self, rows: PreparedRows, k: int) -> tuple[Labels, Array]:
        """See `Part`. The labels of the `beam` best clusters of every tree are searched."""
        if len(self.trees) == 1:
            listed, probabilities = self._top_of_each(rows, k)
            return listed[0], probabilities[0]
        n_candidates = max(k, N_CANDIDATES)
        listed, probabilities = self._top_of_each(rows, n_candidates)
        all_listed = np.hstack(list(listed))
        all_probabilities = np.hstack(list(probabilities))
        labels = _likeliest(all_listed, all_probabilities, n_candidates)
        # What the lists of the trees contain already.
        shape = (len(self.trees), *labels.shape)
        computed = np.full(shape, np.nan, dtype=np.float32)
        for number, of_tree in enumerate(computed):
            look_up(labels, listed[number], probabilities[number], of_tree)
        means = self._means(rows, labels, computed)
        labels, scores = rank(labels, means)
        return labels[:, :k], scores[:, :k]

    def at(self, rows: PreparedRows, labels: Labels) -> Array:
        return self._means(rows, labels, None)

    def every(self, rows: PreparedRows) -> Array:
        """See `Part`. Labels are scored by inverted lists."""
        n = rows.X.shape[0]
        total = np.zeros((n, self.n_labels), dtype=np.float32)
        share = np.float32(1 / len(self.trees))
        X = csr_arrays(rows.X)

        def add(span: slice) -> None:
            shape = (span.stop - span.start, self.n_labels)
            for tree, clusters in zip(self.trees, rows.clusters, strict=True):
                labels = tree.labels
                lists = csr_arrays(tree.by_feature)
                margins = np.zeros(shape, dtype=np.float32)
                add_lists(X, span.start, lists, margins)
                margins = margins + labels.bias
                above = clusters[span][:, labels.parent]
                total[span] += share * _probabilities(above, margins, self.power)

        for tree in self.trees:
            _ = tree.by_feature  # once, not in each thread
        for_each_span(add, n, SMALLEST_CALL_ROWS)
        return total

    def _means(
        self,
        rows: PreparedRows,
        labels: Labels,
        computed: Array | None,
    ) -> Array:
        """Return the scores of labels.

        Probabilities in ``computed`` (trees × n × m) are not computed again; the others are NaN.
        """
        out = np.zeros(labels.shape, dtype=np.float32)
        n_features = rows.X.shape[1]
        space = Workspace(lambda: np.zeros(n_features, dtype=np.float32))
        share = np.float32(1 / len(self.trees))
        X = csr_arrays(rows.X)

        def fill(span: slice) -> None:
            for number, tree in enumerate(self.trees):
                if computed is None:
                    probabilities = np.full(out[span].shape, np.nan, out.dtype)
                else:
                    probabilities = computed[number][span]
                is_missing = np.isnan(probabilities)
                wanted = np.where(is_missing, labels[span], -1)
                wanted = np.ascontiguousarray(wanted)
                margins = np.zeros(wanted.shape, dtype=np.float32)
                weights = csr_arrays(tree.labels.weights)
                with space.borrowed() as dense:
                    add_products(X, span.start, wanted, weights, dense, margins)
                margins = margins + tree.labels.bias[wanted]
                clusters = rows.clusters[number][span]
                parents = tree.labels.parent[wanted]
                above = np.take_along_axis(clusters, parents, axis=1)
                missing = _probabilities(above, margins, self.power)
                out[span] += share * np.where(is_missing, missing, probabilities)

        n = rows.X.shape[0]
        for_each_span(fill, n, SMALLEST_CALL_ROWS)
        return np.where(labels < 0, NO_SCORE, out)

    def label_weights(self) -> sparse.csr_array:
        """Return the weights of the features for each label, c × d, summed over trees."""
        of_trees = [tree.labels.weights for tree in self.trees]
        return as_csr(reduce(operator.add, of_trees))

    def with_columns(self, columns: NDArray[np.int64], n_features: int) -> Trees:
        trees = []
        for tree in self.trees:
            levels = []
            for level in tree.levels:
                weights = move_columns(level.weights, columns, n_features)
                moved = replace(level, weights=weights)
                levels.append(moved)
            moved_tree = Tree(tuple(levels))
            trees.append(moved_tree)
        return replace(self, trees=tuple(trees))

    def explain(self, row: sparse.csr_array, labels: Labels) -> Contributions:
        """See `Part`.

        A tree's probability is ``exp f`` with ``f`` a sum over the nodes of a path of functions of
        their margins ``s = xᵀw + b``. A function of one number changes by its secant times the
        change of the number: ``exp f − exp f₀ = E (f − f₀)`` and ``f − f₀ = Σ m (s − b)``, where
        ``f₀`` is that of an empty row and ``E`` and ``m`` are the slopes between the two rows. So a
        feature x adds ``E Σ m w x`` over the path, exactly.
        """
        unit = unit_rows(row).astype(np.float64)
        bases = []
        values = []
        for tree in self.trees:
            contributions = _explain_tree(tree, unit, labels, self.power)
            bases.append(contributions.base)
            values.append(contributions.values)
        mean_base = np.mean(bases, axis=0)
        mean_values = np.mean(values, axis=0)
        return Contributions(mean_base, mean_values)

    def arrays(self) -> tuple[Arrays, Facts]:
        arrays: Arrays = {}
        for t, tree in enumerate(self.trees):
            for number, level in enumerate(tree.levels):
                name = f"trees.{t}.{number}"
                arrays |= pack_csr(f"{name}.weights", level.weights)
                arrays[f"{name}.bias"] = level.bias
                arrays[f"{name}.parent"] = level.parent.astype(np.int32)
        n_levels = [len(tree.levels) for tree in self.trees]
        facts = {
            "levels": n_levels,
            "power": self.power,
            "beam": self.beam,
        }
        return arrays, facts

    @classmethod
    def from_arrays(cls, arrays: Arrays, facts: Facts) -> Trees:
        trees: list[Tree] = []
        n_features = None
        n_labels: int | None = None
        for t, n_levels in enumerate(facts["levels"]):
            levels: list[Level] = []
            n_above = 1  # nodes of the level before
            for number in range(positive(n_levels, int)):
                name = f"trees.{t}.{number}"
                n_rows = None
                if number == n_levels - 1:
                    n_rows = n_labels
                weights = unpack_csr(f"{name}.weights", arrays, (n_rows, n_features))
                n_nodes, n_features = weights.shape
                bias = checked(f"{name}.bias", arrays, (n_nodes,))
                parent = checked(f"{name}.parent", arrays, (n_nodes,), "i", 0, n_above)
                levels.append(Level(weights, bias, parent))
                n_above = n_nodes
            n_labels = n_above
            trees.append(Tree(tuple(levels)))
        power = positive(facts["power"])
        beam = positive(facts["beam"], int)
        return cls(tuple(trees), power, beam)

    def _calls(self, n: int) -> Iterator[tuple[int, slice]]:
        """Every tree with blocks of rows: as many as there are threads, because few rows do not pay
        for a cluster.
        """
        rows_of_thread = -(-n // n_threads())
        step = min(max(SMALLEST_CALL_ROWS, rows_of_thread), LARGEST_CALL_ROWS)
        for number in range(len(self.trees)):
            for rows in spans(n, step):
                yield number, rows

    def _top_of_each(self, rows: PreparedRows, k: int) -> tuple[Labels, Array]:
        """Return the best labels in each tree and their probabilities in it, trees × n × k."""
        n, n_features = rows.X.shape
        shape = (len(self.trees), n, k)
        best = np.full(shape, -1, dtype=np.int64)
        scores = np.full(shape, NO_SCORE)
        space = Workspace(lambda: np.full(n_features, -1, dtype=np.int32))

        def fill(number: int, span: slice) -> None:
            tree_best = best[number, span]
            tree_scores = scores[number, span]
            if self.trees[number].has_clusters:
                self._search(rows, number, span, space, tree_best, tree_scores)
            else:
                self._scan(rows, number, span, tree_best, tree_scores)
            labels, log_probabilities = rank(tree_best, tree_scores)
            probabilities = np.exp(log_probabilities)
            tree_best[:] = labels
            tree_scores[:] = np.where(labels < 0, NO_SCORE, probabilities)

        each_tree = [(tree,) for tree in self.trees]
        for_each(Tree.prepare_search, each_tree)
        for_each(fill, self._calls(n), small=n < FEW_ROWS)
        return best, scores

    def _scan(
        self,
        rows: PreparedRows,
        number: int,
        span: slice,
        best: Labels,
        scores: Array,
    ) -> None:
        """Fill in the best of all labels in a tree without clusters, and their
        log-probabilities.
        """
        tree = self.trees[number]
        lists = tree.lists[0]
        n_rows, k = best.shape
        for block in spans(n_rows, SMALLEST_CALL_ROWS):
            few = slice(span.start + block.start, span.start + block.stop)
            margins = tree.labels.margins(rows.X, few, lists)
            log_probabilities = -_loss(margins, self.power)
            best[block], scores[block] = top_k(log_probabilities, k)

    def _search(
        self,
        rows: PreparedRows,
        number: int,
        span: slice,
        space: Workspace,
        best: Labels,
        scores: Array,
    ) -> None:
        """Fill in the best labels of the most probable clusters, and their log-probabilities."""
        tree = self.trees[number]
        log_probabilities = rows.clusters[number][span]
        width = min(self.beam, tree.n_clusters)
        clusters, so_far = top_k(log_probabilities, width)
        _, labels_by_cluster = tree.members
        bias = tree.labels.bias[labels_by_cluster]
        with space.borrowed() as position:
            best_members(
                csr_arrays(rows.X),
                span.start,
                clusters,
                so_far,
                tree.members,
                tree.label_lists,
                bias,
                self.power,
                position,
                best,
                scores,
            )


def _loss(margins: Array, power: float) -> Array:
    shortfall = np.maximum(0, 1 - margins)
    return np.asarray(shortfall ** np.float32(power))


def _probabilities(above: Array, margins: Array, power: float) -> Array:
    """Return the probabilities of labels whose clusters have the log-probabilities ``above``."""
    loss = _loss(margins, power)
    return np.asarray(np.exp(above - loss))


def _explain_tree(
    tree: Tree,
    unit: sparse.csr_array,
    labels: Labels,
    power: float,
) -> Contributions:
    """Return what the entries of a unit row add to the probabilities that one tree gives."""
    n_labels = len(labels)
    values = np.zeros((unit.nnz, n_labels))
    full_sum = np.zeros(n_labels)  # f of the row
    empty_sum = np.zeros(n_labels)  # and of an empty row
    nodes = labels
    for level in reversed(tree.levels):
        weights = level.weights[nodes][:, unit.indices]
        added = weights.toarray().T * unit.data[:, None]
        change = added.sum(axis=0)
        bias = level.bias[nodes].astype(np.float64)
        empty_shortfall = np.maximum(0.0, 1.0 - bias)
        full_shortfall = np.maximum(0.0, 1.0 - (bias + change))
        empty = -(empty_shortfall**power)
        full = -(full_shortfall**power)
        derivative = power * empty_shortfall ** (power - 1)
        slope = secant(empty, full, change, derivative)
        values += added * slope
        empty_sum = empty_sum + empty
        full_sum = full_sum + full
        nodes = level.parent[nodes]
    start = np.exp(empty_sum)
    end = np.exp(full_sum)
    slope_of_exp = secant(start, end, full_sum - empty_sum, end)
    return Contributions(start, values * slope_of_exp)


def _likeliest(labels: Labels, scores: Array, k: int) -> Labels:
    """Return the ``k`` distinct labels of every row with the largest sums of scores, ascending, -1
    last.
    """
    n_rows, n_listed = labels.shape
    order = np.argsort(labels, axis=1, kind="stable")
    labels = np.take_along_axis(labels, order, axis=1)
    scores = np.maximum(scores, 0)
    scores = np.take_along_axis(scores, order, axis=1)
    # The sum of a label's scores is stored where the last of them is.
    next_labels = labels[:, 1:]
    is_last = np.ones(labels.shape, dtype=bool)
    is_last[:, :-1] = labels[:, :-1] != next_labels
    ends = np.cumsum(scores, axis=1, dtype=np.float64)
    ends_of_labels = np.where(is_last, ends, 0)
    last_ends = np.maximum.accumulate(ends_of_labels, axis=1)
    starts = np.zeros(ends.shape)
    starts[:, 1:] = last_ends[:, :-1]
    is_candidate = is_last & (labels >= 0)
    sums = np.where(is_candidate, ends - starts, -np.inf)
    positions, _ = top_k(sums, k)
    positions = np.where(positions < 0, n_listed, positions)
    positions = np.sort(positions, axis=1)
    no_label = np.full((n_rows, 1), -1)
    padded = np.hstack([labels, no_label])
    return np.take_along_axis(padded, positions, axis=1)
