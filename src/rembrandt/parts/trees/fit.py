"""Fitting label trees: cluster the labels by their examples, then fit a classifier for every
node.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from rembrandt.data.examples import Examples
from rembrandt.data.ordering import random_order
from rembrandt.engines.hinge import MAX_POOL_ENTRIES, HingeSettings, Nodes
from rembrandt.linalg import Array
from rembrandt.linalg.bisection import bisect
from rembrandt.linalg.blocks import spans
from rembrandt.linalg.sparse import as_csr
from rembrandt.linalg.threads import side_by_side
from rembrandt.parts.centroids.fit import label_centroids
from rembrandt.parts.protocol import Fitting
from rembrandt.parts.trees.part import Level, Tree, Trees
from rembrandt.parts.trees.settings import TreeSettings
from rembrandt.progress import Report

# Labels of a cluster, at most. Few large clusters are better than many: on held-out rows of
# PubMed-MeSH 64 clusters of 160 labels have a P@5 of 61.5 %, and 128 of 80 have 61.2 %.
LARGEST_CLUSTER = 165
# Entries of a label's mean direction by which it is clustered: the fewest, the most, and of all
# labels together between these limits.
FEWEST_DIRECTION_ENTRIES = 200
MOST_DIRECTION_ENTRIES = 500
ALL_DIRECTION_ENTRIES = 1 << 24
# Passes over the active examples of a label before more become active; a cluster has one round. On
# held-out rows of nine sets two rounds of two are better for labels by 0.6 points than one of six.
# Clusters whose other examples all become active hide labels: a second round costs NVD products
# half a point of P@1, and nothing changes on seven other sets.
LABEL_PASSES_PER_ROUND = 2
# Distance between the seeds of two trees.
SEED_STEP = 101
# Trees that are fitted at the same time: what lies between the levels of a tree is mostly the work
# of one thread.
TREES_AT_ONCE = 2


def fit_trees(data: Examples, settings: TreeSettings, fitting: Fitting) -> Trees:
    """Fit ``settings.n_trees`` trees; one when there is nothing to cluster, as all would be equal.

    The trees of ``fitting.begun`` are the first ones.
    """

    @cache
    def directions() -> sparse.csr_array:
        n_entries = ALL_DIRECTION_ENTRIES // data.n_labels
        n_entries = min(max(n_entries, FEWEST_DIRECTION_ENTRIES), MOST_DIRECTION_ENTRIES)
        return label_centroids(data.X, data.Y, n_entries=n_entries)

    def fitted(number: int, report: Report) -> Trees:
        reporting = replace(fitting, report=report)
        levels = _fit_tree(data, settings, number, directions, reporting)
        return Trees((Tree(levels),), settings.power, settings.beam)

    trees: list[Tree] = []
    if isinstance(fitting.begun, Trees):
        trees.extend(fitting.begun.trees)
    n_trees = 1
    if _depths(data, settings):
        n_trees = settings.n_trees
    numbers = list(range(len(trees), n_trees))
    for span in spans(len(numbers), trees_at_once(data)):
        together = numbers[span]
        alone = _saved_trees(together, fitting)
        missing = [number for number in together if number not in alone]
        if n_trees > 1 and missing:
            directions()  # before several threads ask for them
        newly_fitted = side_by_side(fitted, missing, fitting.report)
        for number, tree in zip(missing, newly_fitted, strict=True):
            fitting.checkpoints.save(_stage(number), tree.arrays)
            alone[number] = tree
        for number in together:
            trees.extend(alone[number].trees)
    return Trees(tuple(trees), settings.power, settings.beam)


def _saved_trees(numbers: list[int], fitting: Fitting) -> dict[int, Trees]:
    """Return those of the trees that an interrupted fit has saved, each by its number."""
    saved_trees = {}
    for number in numbers:
        saved = fitting.checkpoints.load(_stage(number), Trees.from_arrays)
        if saved is not None:
            saved_trees[number] = saved
    return saved_trees


def trees_at_once(data: Examples) -> int:
    """Return how many trees are fitted at the same time: one where rows are read from a store."""
    n_in_memory, _ = data.X.resident()
    if n_in_memory != data.n:
        return 1
    return TREES_AT_ONCE


def _stage(number: int) -> str:
    return f"tree-{number}"


def _depths(data: Examples, settings: TreeSettings) -> list[int]:
    """Return the number of halvings at each level of clusters."""
    n_counted = data.n
    if data.weights is not None:
        is_counted = np.asarray(data.weights) > 0
        n_counted = int(np.count_nonzero(is_counted))
    return cluster_depths(n_counted, data.n_labels, settings.max_example_node_pairs)


def cluster_depths(n: int, c: int, max_pairs: float) -> list[int]:
    """Return the number of halvings at each level of clusters.

    There are no clusters where one holds all labels, or where all examples × labels are affordable.
    """
    if c <= LARGEST_CLUSTER or n * c <= max_pairs:
        return []
    enough = np.ceil(np.log2(c / LARGEST_CLUSTER))
    n_affordable = max(2.0, max_pairs / n)
    affordable = np.log2(min(c**0.5, n_affordable))
    first = max(1, round(min(enough, affordable)))
    labels_of_cluster = c / 2**first
    excess = max(1.0, labels_of_cluster / LARGEST_CLUSTER)
    n_halvings = int(np.ceil(np.log2(excess)))
    n_steps = int(np.ceil(n_halvings / first))
    depths = [first]
    for step in range(1, n_steps + 1):
        n_done = round(n_halvings * step / n_steps)
        depths.append(first + n_done)
    return depths


def _fit_tree(
    data: Examples,
    settings: TreeSettings,
    number: int,
    directions: Callable[[], sparse.csr_array],
    fitting: Fitting,
) -> tuple[Level, ...]:
    """Cluster the labels, and fit the levels from the largest clusters down to the labels."""
    n, c = data.Y.shape
    example_weights = np.ones(n)
    if data.weights is not None:
        example_weights = np.asarray(data.weights)
    counted = np.flatnonzero(example_weights > 0)
    depths = _depths(data, settings)
    clusters = np.zeros(c, dtype=np.int64)
    # Whatever the seed of the fit is: the clusters of one tree are as good as those of another.
    tree_seed = SEED_STEP * number
    if depths:
        clusters = bisect(directions(), depths[-1], tree_seed, data.label_keys)
    # Coordinate descent goes through rows as they come.
    order = random_order(data, counted, fitting.seed + tree_seed)
    Y = data.Y[order]
    costs = settings.cost * example_weights[order]
    costs = costs.astype(np.float32)
    solver = fitting.backend.hinge(data.X, order)
    nodes = _root(data, settings, costs)
    levels: list[Level] = []
    for above, depth in pairwise([0, *depths]):
        n_nodes = 2**depth
        node_of_label = clusters >> (depths[-1] - depth)
        examples = node_examples(Y, node_of_label, n_nodes)
        parent = np.arange(n_nodes) >> (depth - above)
        nodes = replace(nodes, rows=examples, parent=parent)
        weights, bias = solver.fit(nodes, fitting.report)
        level = Level.rounded(weights, bias, parent)
        levels.append(level)
        nodes = replace(nodes, pools=examples)
    nodes = replace(
        nodes,
        rows=as_csr(Y.T),
        settings=hinge_settings(settings, are_clusters=False),
        parent=clusters,
        all_features=settings.label_features == "all",
    )
    weights, bias = solver.fit(nodes, fitting.report)
    labels = Level.rounded(weights, bias, clusters)
    levels.append(labels)
    return tuple(levels)


def _root(data: Examples, settings: TreeSettings, costs: Array) -> Nodes:
    """Return what the nodes below the root learn from: all examples, which have these costs."""
    n_examples = len(costs)
    everything: Any = np.ones((1, n_examples), dtype=np.int8)
    nothing: Any = np.zeros((0, n_examples), dtype=np.float32)
    n_entries = max(1, data.X.nnz)
    affordable = MAX_POOL_ENTRIES * data.n // n_entries
    return Nodes(
        rows=sparse.csr_array(nothing),
        pools=sparse.csr_array(everything),
        parent=np.zeros(0, dtype=np.int64),
        costs=costs,
        settings=hinge_settings(settings, are_clusters=True),
        max_pool_examples=max(1, affordable),
        all_features=True,
    )


def node_examples(
    Y: sparse.csr_array,
    node_of_label: Array,
    n_nodes: int,
) -> sparse.csr_array:
    """Return the examples of each node, nodes × examples, from the node of each label."""
    n_labels = len(node_of_label)
    labels = np.arange(n_labels)
    ones = np.ones(n_labels, dtype=np.float32)
    cells = (labels, node_of_label)
    member: Any = sparse.csr_array((ones, cells), shape=(n_labels, n_nodes))
    nodes_of_examples = Y @ member
    return as_csr(nodes_of_examples.T)


def hinge_settings(settings: TreeSettings, are_clusters: bool) -> HingeSettings:
    """Return the settings of the classifiers of clusters, or of labels."""
    return HingeSettings(
        cost=settings.cost,
        passes=settings.passes,
        passes_per_round=passes_per_round(settings, are_clusters),
        tolerance=settings.tolerance,
        prune_below=settings.prune_below,
    )


def passes_per_round(settings: TreeSettings, are_clusters: bool) -> int:
    """Return after how many passes more examples of a node may become active."""
    passes = int(settings.passes)
    if are_clusters:
        return passes
    return min(passes, LABEL_PASSES_PER_ROUND)
