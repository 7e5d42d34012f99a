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
    n_old_labels = trees.n_labels
    n_new_labels = Y.shape[1] - n_old_labels
    # Labels without examples so far.
    is_new = np.ones(n_new_labels, dtype=np.bool_)
    is_touched = np.append(update.label_counts == 0, is_new)
    new = WeightedRows.of(update.examples)
    if update.history is not None:
        is_touched[Y.indices] = True
        old = WeightedRows.of(update.history)
        batch = Batch.of(old, new, update.settings)
        refitted = update_trees(trees, batch, is_touched, False, update.seed, update.report)
        return Updated(refitted, [])
    missed = ["the trees score the known labels as before: they need the old examples (history)"]
    if not is_touched.any():
        return Updated(trees, missed)
    directions = _label_directions(update)
    if directions is None:
        missed.append("the trees do not know the new labels")
        closed = with_closed_labels(trees, n_new_labels)
        return Updated(closed, missed)
    # Rows are between the mean directions of labels, which have all common features, and an empty
    # row.
    n_examples_of_labels = max(1, update.label_counts.sum())
    shares = update.label_counts / n_examples_of_labels
    n_standing = min(update.n_train, max(update.examples.n, n_old_labels))
    old = WeightedRows(
        X=pseudo_examples(directions),
        Y=sparse.csr_array((n_old_labels + 1, Y.shape[1]), dtype=Y.dtype),
        weights=np.append(shares, 1.0) * n_standing,
    )
    batch = Batch.of(old, new, update.settings)
    extended = update_trees(trees, batch, is_touched, True, update.seed, update.report)
    return Updated(extended, missed)


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
        weights = examples.weights
        if weights is None:
            weights = np.ones(examples.n)
        rows = unit_rows(examples.X[:])
        return cls(rows, examples.Y, weights)


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
        n_old = len(old.weights)
        weights = np.append(old.weights, new.weights)
        kept = np.flatnonzero(weights > 0)
        is_new = kept >= n_old
        X = sparse.vstack([old.X, new.X], format="csr")
        Y = sparse.vstack([old.Y, new.Y], format="csr")
        costs = settings.cost * weights[kept]
        return cls(
            X=as_csr(X[kept]),
            Y=as_csr(Y[kept]),
            costs=costs.astype(np.float32),
            n_new=int(is_new.sum()),
            settings=settings,
        )

    @property
    def has_all_features(self) -> bool:
        """Whether labels have weights of all features."""
        return bool(self.settings.label_features == "all")

    def nodes(
        self,
        examples: sparse.csr_array,
        pools: sparse.csr_array,
        parent: Array,
        are_clusters: bool,
        all_features: bool,
    ) -> Nodes:
        """Nodes with these examples, which learn from the pools of their parents."""
        return Nodes(
            rows=examples,
            pools=pools,
            parent=parent,
            costs=self.costs,
            settings=hinge_settings(self.settings, are_clusters),
            max_pool_examples=len(self.costs),
            all_features=all_features,
        )

    def shuffled(self, seed: int) -> "Batch":
        """Return the rows in random order, because coordinate descent goes through rows as they
        come.
        """
        rng = np.random.default_rng(seed)
        order = rng.permutation(len(self.costs))
        return replace(
            self,
            X=self.X[order],
            Y=self.Y[order],
            costs=self.costs[order],
        )


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
    positive = as_csr(weights.maximum(0), np.float32)
    rows = normalize_rows(positive)
    empty = sparse.csr_array((1, rows.shape[1]), dtype=rows.dtype)
    joined = sparse.vstack([rows, empty], format="csr")
    return as_csr(joined)


def with_closed_labels(trees: Trees, n_new: int) -> Trees:
    """Return trees with more labels, which are unlikely for every row."""
    extended = []
    for tree in trees.trees:
        labels = tree.labels
        n_features = labels.weights.shape[1]
        no_weights: Any = sparse.csr_array((n_new, n_features), dtype=np.float32)
        weights: Any = sparse.vstack([labels.weights, no_weights])
        biases = np.full(n_new, UNLIKELY, labels.bias.dtype)
        parents = np.zeros(n_new, labels.parent.dtype)
        last = Level(
            weights=as_csr(weights),
            bias=np.append(labels.bias, biases),
            parent=np.append(labels.parent, parents),
        )
        levels = (*tree.levels[:-1], last)
        extended.append(Tree(levels))
    return replace(trees, trees=tuple(extended))


def _parents(tree: Tree, batch: Batch, power: float) -> Array:
    """Return the cluster of each label.

    New labels join the cluster that their examples are most likely in.
    """
    parent = tree.labels.parent
    n_old_labels = len(parent)
    if not tree.has_clusters:
        return np.zeros(batch.Y.shape[1], dtype=parent.dtype)
    n_old = len(batch.costs) - batch.n_new
    X = batch.X[n_old:]
    all_rows = slice(0, X.shape[0])
    probabilities = np.exp(tree.clusters(X, all_rows, power))
    new_labels = batch.Y[n_old:, n_old_labels:]
    examples_of_labels = as_csr(new_labels.T, np.float32)
    likely = np.asarray(examples_of_labels @ probabilities)
    nearest = likely.argmax(axis=1)
    return np.append(parent, nearest.astype(parent.dtype))


def _refitted(tree: Tree, rows: Batch, parent: Array, is_touched: Array, report: Report) -> Tree:
    """Fit the nodes on the paths to touched labels again, from the largest clusters down to the
    labels.
    """
    node_of_label = parent
    paths = [parent]  # the node of each label, from the last level of clusters up
    for level in reversed(tree.levels[1:-1]):
        node_of_label = level.parent[node_of_label]
        paths.append(node_of_label)
    pools = _everything(rows.X)
    levels = []
    for level, node_of_label in zip(tree.levels[:-1], reversed(paths), strict=False):
        n_nodes = len(level.bias)
        examples = node_examples(rows.Y, node_of_label, n_nodes)
        is_node_touched = np.zeros(n_nodes, dtype=np.bool_)
        is_node_touched[node_of_label[is_touched]] = True
        clusters = rows.nodes(examples, pools, level.parent, are_clusters=True, all_features=True)
        fitted = _with_fitted_nodes(level, clusters, rows.X, is_node_touched, report)
        levels.append(fitted)
        pools = examples
    labels = rows.nodes(
        as_csr(rows.Y.T),
        pools,
        parent,
        are_clusters=False,
        all_features=rows.has_all_features,
    )
    fitted = _with_fitted_nodes(tree.labels, labels, rows.X, is_touched, report)
    levels.append(fitted)
    return Tree(tuple(levels))


def _extended(tree: Tree, rows: Batch, parent: Array, is_touched: Array, report: Report) -> Tree:
    """Fit the touched labels against all rows."""
    examples = as_csr(rows.Y.T)
    one_pool = np.zeros_like(parent)
    labels = rows.nodes(
        examples, _everything(rows.X), one_pool, are_clusters=False, all_features=False
    )
    fitted = _with_fitted_nodes(tree.labels, labels, rows.X, is_touched, report)
    last = replace(fitted, parent=parent)
    levels = (*tree.levels[:-1], last)
    return Tree(levels)


def _with_fitted_nodes(
    level: Level, nodes: Nodes, X: sparse.csr_array, is_touched: Array, report: Report
) -> Level:
    """Return the level with the touched nodes fitted again; the others keep their weights."""
    touched = np.flatnonzero(is_touched)
    untouched = np.flatnonzero(~is_touched)
    if len(touched) == 0:
        return replace(level, parent=nodes.parent)
    few = replace(
        nodes,
        rows=nodes.rows[touched],
        parent=nodes.parent[touched],
    )
    solver = LocalHinge(InMemory(X))
    weights, bias = solver.fit(few, report)
    old_weights = level.weights[untouched]
    old_bias = level.bias[untouched]
    all_weights: Any = sparse.vstack([old_weights, weights], format="csr")
    all_bias = np.append(old_bias, bias)
    all_bias = all_bias.astype(level.bias.dtype)
    in_that_order = np.append(untouched, touched)
    back = np.argsort(in_that_order)
    sorted_weights = as_csr(all_weights[back])
    return Level.rounded(sorted_weights, all_bias[back], nodes.parent)


def _everything(X: sparse.csr_array) -> sparse.csr_array:
    """Return one pool of all rows."""
    is_member = np.ones((1, X.shape[0]), dtype=np.int8)
    return sparse.csr_array(is_member)
