"""More examples and labels for label trees.

The clusters stay. With the old examples, the nodes that get new examples are fitted again, each
against the examples of its parent; the others keep their weights. Without them only new labels are
fitted: the mean directions of the known labels stand for the old examples.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from rembrandt.data.examples import Examples
from rembrandt.engines.hinge import InMemory, LocalHinge, Nodes
from rembrandt.linalg import Array
from rembrandt.linalg.sparse import as_csr, normalize_rows, unit_rows
from rembrandt.parts.protocol import Update, Updated
from rembrandt.parts.trees.fit import hinge_settings, node_examples
from rembrandt.parts.trees.part import Level, Tree, Trees
from rembrandt.parts.trees.settings import TreeSettings
from rembrandt.progress import Report, silent

# Margin of rows that do not have a label.
UNLIKELY = -1.0


def updated(trees: Trees, update: Update) -> Updated:
    """Refit the nodes that get new examples; without the old ones, add the new labels alone."""
    Y = update.examples.Y
    n_known = trees.n_labels
    n_new = Y.shape[1] - n_known
    # Labels without examples so far.
    is_touched = np.append(update.label_counts == 0, np.ones(n_new, dtype=np.bool_))
    new = WeightedRows.of(update.examples)
    if update.history is not None:
        is_touched[Y.indices] = True
        batch = Batch.of(WeightedRows.of(update.history), new, update.settings)
        part = update_trees(trees, batch, is_touched, False, update.seed, update.report)
        return Updated(part, [])
    missed = ["the trees score the known labels as before: they need the old examples (history)"]
    if not is_touched.any():
        return Updated(trees, missed)
    directions = _label_directions(update)
    if directions is None:
        missed.append("the trees do not know the new labels")
        return Updated(with_closed_labels(trees, n_new), missed)
    # Rows are between the mean directions of labels, which have all common features, and an empty
    # row.
    shares = update.label_counts / max(1, update.label_counts.sum())
    n_standing = min(update.n_train, max(update.examples.n, n_known))
    no_labels = sparse.csr_array((n_known + 1, Y.shape[1]), dtype=Y.dtype)
    old = WeightedRows(pseudo_examples(directions), no_labels, np.append(shares, 1.0) * n_standing)
    batch = Batch.of(old, new, update.settings)
    part = update_trees(trees, batch, is_touched, True, update.seed, update.report)
    return Updated(part, missed)


def _label_directions(update: Update) -> sparse.csr_array | None:
    """Return the mean directions of labels that another part of the model has."""
    for part in update.others.values():
        directions = part.label_directions()
        if directions is not None:
            return directions
    return None


@dataclass(frozen=True)
class WeightedRows:
    """Rows of unit length, their labels and weights."""

    X: sparse.csr_array
    Y: sparse.csr_array
    weights: Array

    @classmethod
    def of(cls, examples: Examples) -> "WeightedRows":
        weights = np.ones(examples.n) if examples.weights is None else examples.weights
        return cls(unit_rows(examples.X[:]), examples.Y, weights)


@dataclass(frozen=True)
class Batch:
    """Unit rows, their labels and costs: old examples, or what stands for them, and then ``n_new``
    new ones.
    """

    X: sparse.csr_array
    Y: sparse.csr_array  # the labels of the trees and then new ones
    costs: Array
    n_new: int
    settings: TreeSettings

    @classmethod
    def of(cls, old: WeightedRows, new: WeightedRows, settings: TreeSettings) -> "Batch":
        """Join old and new examples, without those that have no weight."""
        weights = np.append(old.weights, new.weights)
        kept = np.flatnonzero(weights > 0)
        return cls(
            X=as_csr(sparse.vstack([old.X, new.X], format="csr")[kept]),
            Y=as_csr(sparse.vstack([old.Y, new.Y], format="csr")[kept]),
            costs=(settings.cost * weights[kept]).astype(np.float32),
            n_new=int((kept >= len(old.weights)).sum()),
            settings=settings,
        )

    def nodes(
        self,
        examples: sparse.csr_array,
        pools: sparse.csr_array,
        parent: Array,
        are_clusters: bool = False,
    ) -> Nodes:
        """Nodes with these examples, which learn from the pools of their parents."""
        return Nodes(
            rows=examples,
            pools=pools,
            parent=parent,
            costs=self.costs,
            settings=hinge_settings(self.settings),
            max_pool_examples=len(self.costs),
            are_clusters=are_clusters,
        )

    def shuffled(self, seed: int) -> "Batch":
        """Return the rows in random order, because coordinate descent goes through rows as they
        come.
        """
        order = np.random.default_rng(seed).permutation(len(self.costs))
        return replace(self, X=self.X[order], Y=self.Y[order], costs=self.costs[order])


def update_trees(
    trees: Trees,
    batch: Batch,
    is_touched: Array,
    only_labels: bool,
    seed: int = 0,
    report: Report = silent,
) -> Trees:
    """Return the trees after more examples.

    Labels that are touched are fitted, and the nodes above them, unless ``only_labels`` is set:
    then each is fitted against all rows.
    """
    rows = batch.shuffled(seed)
    changed = []
    for tree in trees.trees:
        parent = _parents(tree, batch, trees.power)
        if only_labels:
            changed.append(_extended(tree, rows, parent, is_touched, report))
        else:
            changed.append(_refitted(tree, rows, parent, is_touched, report))
    return replace(trees, trees=tuple(changed))


def pseudo_examples(weights: sparse.csr_array) -> sparse.csr_array:
    """Return a unit row for each label, of the features with positive weights, and an empty row."""
    rows = normalize_rows(as_csr(weights.maximum(0), np.float32))
    empty = sparse.csr_array((1, rows.shape[1]), dtype=rows.dtype)
    return as_csr(sparse.vstack([rows, empty], format="csr"))


def with_closed_labels(trees: Trees, n_new: int) -> Trees:
    """Return trees with more labels, which are unlikely for every row."""
    extended = []
    for tree in trees.trees:
        labels = tree.labels
        empty: Any = sparse.csr_array((n_new, labels.weights.shape[1]), dtype=np.float32)
        weights: Any = sparse.vstack([labels.weights, empty])
        bias = np.append(labels.bias, np.full(n_new, UNLIKELY, labels.bias.dtype))
        parent = np.append(labels.parent, np.zeros(n_new, labels.parent.dtype))
        last = Level(as_csr(weights), bias, parent)
        extended.append(Tree((*tree.levels[:-1], last)))
    return replace(trees, trees=tuple(extended))


def _parents(tree: Tree, batch: Batch, power: float) -> Array:
    """The cluster of each label; new ones join the cluster that their examples are most likely
    in.
    """
    parent = tree.labels.parent
    if not tree.has_clusters:
        return np.zeros(batch.Y.shape[1], dtype=parent.dtype)
    n_old = len(batch.costs) - batch.n_new
    X = batch.X[n_old:]
    new_labels = as_csr(batch.Y[n_old:, len(parent) :].T, np.float32)
    likely = new_labels @ np.exp(tree.clusters(X, slice(0, X.shape[0]), power))
    return np.append(parent, np.asarray(likely).argmax(axis=1).astype(parent.dtype))


def _refitted(tree: Tree, rows: Batch, parent: Array, is_touched: Array, report: Report) -> Tree:
    """Fit the nodes on the paths to touched labels again, from the largest clusters down to the
    labels.
    """
    paths = [np.arange(len(parent)), parent]  # the node of each label, from the last level up
    for level in reversed(tree.levels[1:-1]):
        paths.append(level.parent[paths[-1]])
    pools = _everything(rows.X)
    levels = []
    for level, node_of_label in zip(tree.levels[:-1], reversed(paths[1:]), strict=False):
        n_nodes = len(level.bias)
        examples = node_examples(rows.Y, node_of_label, n_nodes)
        is_node_touched = np.zeros(n_nodes, dtype=np.bool_)
        is_node_touched[node_of_label[is_touched]] = True
        clusters = rows.nodes(examples, pools, level.parent, are_clusters=True)
        levels.append(_with_fitted_nodes(level, clusters, rows.X, is_node_touched, report))
        pools = examples
    labels = rows.nodes(as_csr(rows.Y.T), pools, parent)
    levels.append(_with_fitted_nodes(tree.labels, labels, rows.X, is_touched, report))
    return Tree(tuple(levels))


def _extended(tree: Tree, rows: Batch, parent: Array, is_touched: Array, report: Report) -> Tree:
    """Fit the touched labels against all rows."""
    labels = rows.nodes(as_csr(rows.Y.T), _everything(rows.X), np.zeros_like(parent))
    last = _with_fitted_nodes(tree.labels, labels, rows.X, is_touched, report)
    return Tree((*tree.levels[:-1], replace(last, parent=parent)))


def _with_fitted_nodes(
    level: Level, nodes: Nodes, X: sparse.csr_array, is_touched: Array, report: Report
) -> Level:
    """Return the level with the touched nodes fitted again; the others keep their weights."""
    touched = np.flatnonzero(is_touched)
    untouched = np.flatnonzero(~is_touched)
    if not len(touched):
        return replace(level, parent=nodes.parent)
    few = replace(nodes, rows=nodes.rows[touched], parent=nodes.parent[touched])
    weights, bias = LocalHinge(InMemory(X)).fit(few, report)
    back = np.argsort(np.append(untouched, touched))
    all_weights: Any = sparse.vstack([level.weights[untouched], weights], format="csr")
    all_bias = np.append(level.bias[untouched], bias).astype(level.bias.dtype)
    return Level.rounded(as_csr(all_weights[back]), all_bias[back], nodes.parent)


def _everything(X: sparse.csr_array) -> sparse.csr_array:
    return sparse.csr_array(np.ones((1, X.shape[0]), dtype=np.int8))
