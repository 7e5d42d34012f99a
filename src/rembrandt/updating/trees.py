"""More examples and labels for label trees.

The clusters stay. With the old examples, the nodes that get new examples are fitted again, each
against the examples of its parent; the others keep their weights. Without them only new labels are
fitted: the mean directions of the known labels stand for the old examples.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from rembrandt.engines.hinge import InMemory, LocalHinge, Nodes
from rembrandt.linalg.sparse import as_csr, normalize_rows
from rembrandt.progress import Report, silent
from rembrandt.scorers.protocol import Array
from rembrandt.scorers.trees import Level, Tree, Trees
from rembrandt.settings import TreeSettings

UNLIKELY = -1.0  # margin of rows that do not have a label


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
    def of(
        cls, old: tuple[Any, Any, Any], new: tuple[Any, Any, Any], settings: TreeSettings
    ) -> "Batch":
        """Join rows, labels and weights of old and of new examples."""
        weights = np.append(old[2], new[2])
        kept = np.flatnonzero(weights > 0)
        X, Y = (
            as_csr(sparse.vstack(pair, format="csr")[kept])
            for pair in zip(old[:2], new[:2], strict=True)
        )
        return cls(
            X,
            Y,
            (settings.cost * weights[kept]).astype(np.float32),
            int((kept >= len(old[2])).sum()),
            settings,
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
            examples, pools, parent, self.costs, self.settings, len(self.costs), are_clusters
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
    touched: Array,
    only_labels: bool,
    seed: int = 0,
    report: Report = silent,
) -> Trees:
    """Return the trees after more examples.

    Labels that are ``touched`` (a mask) are fitted, and the nodes above them, unless
    ``only_labels`` is set: then each is fitted against all rows.
    """
    fit, rows = _extended if only_labels else _refitted, batch.shuffled(seed)
    parents = (_parents(tree, batch, trees.power) for tree in trees.trees)
    changed = (
        fit(tree, rows, parent, touched, report)
        for tree, parent in zip(trees.trees, parents, strict=True)
    )
    return replace(trees, trees=tuple(changed))


def pseudo_examples(weights: sparse.csr_array) -> sparse.csr_array:
    """Return a unit row for each label, of the features that speak for it, and an empty row."""
    rows = normalize_rows(as_csr(weights.maximum(0), np.float32))
    return as_csr(
        sparse.vstack([rows, sparse.csr_array((1, rows.shape[1]), dtype=rows.dtype)], format="csr")
    )


def with_closed_labels(trees: Trees, n_new: int) -> Trees:
    """Return trees with more labels, which are unlikely for every row."""

    def extended(tree: Tree) -> Tree:
        last = tree.labels
        empty: Any = sparse.csr_array((n_new, last.weights.shape[1]), dtype=np.float32)
        weights: Any = sparse.vstack([last.weights, empty])
        bias = np.append(last.bias, np.full(n_new, UNLIKELY, last.bias.dtype))
        parent = np.append(last.parent, np.zeros(n_new, last.parent.dtype))
        return Tree((*tree.levels[:-1], Level(as_csr(weights), bias, parent)))

    return replace(trees, trees=tuple(map(extended, trees.trees)))


def _parents(tree: Tree, batch: Batch, power: float) -> Array:
    """The cluster of each label; new ones join the cluster that their examples are most likely
    in.
    """
    known, first = tree.labels.parent, len(batch.costs) - batch.n_new
    if len(tree.levels) == 1:
        return np.zeros(batch.Y.shape[1], dtype=known.dtype)
    X, new = batch.X[first:], as_csr(batch.Y[first:, len(known) :].T, np.float32)
    likely = new @ np.exp(tree.clusters(X, slice(0, X.shape[0]), power))
    return np.append(known, np.asarray(likely).argmax(axis=1).astype(known.dtype))


def _refitted(tree: Tree, rows: Batch, parent: Array, touched: Array, report: Report) -> Tree:
    """Fit the nodes on the paths to touched labels again, from the largest clusters down to the
    labels.
    """
    paths = [np.arange(len(parent)), parent]  # the node of each label, from the last level up
    for level in reversed(tree.levels[1:-1]):
        paths.append(level.parent[paths[-1]])
    pools, levels = _everything(rows.X), []
    for level, nodes in zip(tree.levels[:-1], reversed(paths[1:]), strict=False):
        size, ones = len(level.bias), np.ones(len(nodes), np.float32)
        member = sparse.csr_array((ones, (np.arange(len(nodes)), nodes)), shape=(len(nodes), size))
        examples = as_csr((rows.Y @ member).T)
        mine = np.zeros(size, dtype=np.bool_)
        mine[nodes[touched]] = True
        clusters = rows.nodes(examples, pools, level.parent, are_clusters=True)
        levels.append(_fitted(level, clusters, rows.X, mine, report))
        pools = examples
    last = rows.nodes(as_csr(rows.Y.T), pools, parent)
    return Tree((*levels, _fitted(tree.labels, last, rows.X, touched, report)))


def _extended(tree: Tree, rows: Batch, parent: Array, touched: Array, report: Report) -> Tree:
    """Fit the touched labels against all rows."""
    nodes = rows.nodes(as_csr(rows.Y.T), _everything(rows.X), np.zeros_like(parent))
    return Tree(
        (
            *tree.levels[:-1],
            replace(_fitted(tree.labels, nodes, rows.X, touched, report), parent=parent),
        )
    )


def _fitted(level: Level, nodes: Nodes, X: sparse.csr_array, mine: Array, report: Report) -> Level:
    """Return the level with ``mine`` of its nodes fitted again; the others keep their weights."""
    fresh, kept = np.flatnonzero(mine), np.flatnonzero(~mine)
    if not len(fresh):
        return replace(level, parent=nodes.parent)
    own = replace(nodes, rows=nodes.rows[fresh], parent=nodes.parent[fresh])
    weights, bias = LocalHinge(InMemory(X)).fit(own, report)
    back = np.argsort(np.append(kept, fresh))
    joined: Any = sparse.vstack([level.weights[kept], weights], format="csr")
    bias = np.append(level.bias[kept], bias).astype(level.bias.dtype)
    return Level.rounded(as_csr(joined[back]), bias[back], nodes.parent)


def _everything(X: sparse.csr_array) -> sparse.csr_array:
    return sparse.csr_array(np.ones((1, X.shape[0]), dtype=np.int8))
