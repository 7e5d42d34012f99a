"""Trees as a kind of part."""

from dataclasses import replace
from typing import ClassVar

import numpy as np

from rembrandt.data.examples import Examples
from rembrandt.data.rows import label_feature_pairs
from rembrandt.engines.hinge import MAX_POOL_ENTRIES
from rembrandt.linalg.hinge import n_rounds
from rembrandt.memory import Shape
from rembrandt.parts.allowance import Allowance, Work
from rembrandt.parts.protocol import Choice, Fitting, Part, PartKind, Update, Updated
from rembrandt.parts.trees.fit import (
    cluster_depths,
    fit_trees,
    passes_per_round,
    trees_at_once,
)
from rembrandt.parts.trees.part import Trees
from rembrandt.parts.trees.settings import PRESETS, TreeSettings
from rembrandt.parts.trees.update import updated, with_closed_labels

# Bytes of a weight with its index.
WEIGHT_BYTES = 8
# Weights of all features that are not small, next to the pairs of a label and a feature of its
# examples: 2.0 on icd10cm, 1.4 on attack.
WEIGHTS_OF_ALL_FEATURES = 2
# Passes over the examples of a node where labels have weights of the features of their own
# examples, and where they have weights of all. The first are better where descent ends early. With
# the others, 12 passes instead of 4 raise P@1 on held-out rows by 0.5 (icd10cm), 0.8 (attack) and
# 0.3 (a part of mesh) with the preset fast, and by 0.6 (icd10cm) and 0.0 (attack) with balanced.
PASSES = {"own": 4, "all": 12}
# Share of the trees that are fitted to nearly all examples and not again; the blend is learned on
# these.
KEPT_SHARE = 0.5
# Costs that a search tries.
COSTS = (0.3, 0.1, 3.0)


def _stored_weights(settings: TreeSettings, data: Examples) -> int:
    """Return how many weights the labels of a tree have, at most or nearly."""
    n_pairs = label_feature_pairs(data.X, data.Y)
    if settings.label_features == "all":
        return WEIGHTS_OF_ALL_FEATURES * n_pairs
    return n_pairs


def _n_kept_trees(settings: TreeSettings) -> int:
    """Return how many trees of a fit to nearly all examples stay in the model."""
    return int(np.ceil(KEPT_SHARE * settings.n_trees))


class TreesKind(PartKind):
    """Trees of sparse linear classifiers; see `rembrandt.parts.trees.part`."""

    name = "trees"
    title = "trees"
    settings_type = TreeSettings
    part_type = Trees
    presets: ClassVar = PRESETS
    learns_without_history = False

    def resolve(
        self, settings: TreeSettings, data: Examples, allowance: Allowance, is_alone: bool
    ) -> TreeSettings:
        if settings.max_example_node_pairs == "auto":
            entries_per_row = max(1.0, data.X.nnz / data.n)
            affordable = allowance.tree_entries / entries_per_row
            # A first level of more than √c clusters is larger than the levels below it.
            enough = data.n * data.n_labels**0.5
            settings = replace(settings, max_example_node_pairs=float(min(affordable, enough)))
        if settings.label_features == "auto":
            # The words of an example with several labels may come from any of them.
            has_one_label = round(data.Y.nnz / data.n) <= 1
            settings = replace(settings, label_features="all" if has_one_label else "own")
        if settings.passes == "auto":
            settings = replace(settings, passes=PASSES[settings.label_features])
        if settings.n_trees == "auto":
            tree_bytes = WEIGHT_BYTES * max(1, _stored_weights(settings, data))
            affordable_trees = int(np.clip(allowance.tree_bytes // tree_bytes, 1, np.inf))
            settings = replace(settings, n_trees=min(allowance.n_trees, affordable_trees))
        return settings

    def work(self, settings: TreeSettings, data: Examples) -> Work:
        """See `PartKind`. A pass over a level visits each example once for each node that learns
        from it, and so does the computation of all margins in each round.
        """
        n = data.n
        c = data.n_labels
        labels_per_row = data.Y.nnz / n
        depths = cluster_depths(n, c, settings.max_example_node_pairs)
        passes = settings.passes
        cluster_visits = passes + n_rounds(passes, passes_per_round(settings, are_clusters=True))
        label_visits = passes + n_rounds(passes, passes_per_round(settings, are_clusters=False))
        visits_per_row = 0.0
        n_above = 1
        for depth in depths:
            # An example is in the pool of each parent of its labels.
            n_pools = min(labels_per_row, n_above)
            visits_per_row += cluster_visits * n_pools * 2**depth / n_above
            n_above = 2**depth
        visits_per_row += label_visits * min(labels_per_row, n_above) * c / n_above
        n_trees = settings.n_trees if depths else 1
        return Work(sparse=n_trees * visits_per_row * data.X.nnz)

    def shape(self, shape: Shape, settings: TreeSettings, data: Examples) -> Shape:
        n_rows, _ = data.X.resident()
        # The rows of a pool are copied; those of a store are read as well.
        n_copies = 2 if n_rows < data.n else 1
        n_at_once = trees_at_once(data)
        pool_entries = n_copies * n_at_once * min(data.X.nnz, MAX_POOL_ENTRIES)
        return replace(
            shape,
            nonzeros=int(shape.nonzeros + pool_entries),
            together=shape.together + _stored_weights(settings, data),
            n_trees=settings.n_trees,
            trees_at_once=n_at_once,
        )

    def fit(self, data: Examples, settings: TreeSettings, fitting: Fitting) -> Trees:
        return fit_trees(data, settings, fitting)

    def tried(self, settings: TreeSettings) -> TreeSettings:
        """See `PartKind`. No tree is fitted twice."""
        return replace(settings, n_trees=_n_kept_trees(settings))

    def kept(self, part: Trees, settings: TreeSettings) -> Trees | None:
        """See `PartKind`. Some trees are kept, and the others are fitted to all examples."""
        if settings.n_trees == 1 or not part.trees[0].has_clusters:
            return None
        return replace(part, trees=part.trees[: _n_kept_trees(settings)])

    def update(self, part: Trees, update: Update) -> Updated:
        return updated(part, update)

    def with_labels(self, part: Trees, update: Update) -> Trees:
        return with_closed_labels(part, update.examples.n_labels - part.n_labels)

    def choices(self, settings: TreeSettings, data: Examples) -> list[Choice]:
        choices = [Choice(("cost",), tuple((cost,) for cost in COSTS))]
        if cluster_depths(data.n, data.n_labels, settings.max_example_node_pairs):
            every_pair = float(data.n * data.n_labels)
            choices.append(Choice(("max_example_node_pairs",), ((every_pair,),)))
        return choices

    def words(self, settings: TreeSettings, part: Part | None = None) -> str:
        n_trees = settings.n_trees
        has_clusters = True
        if isinstance(part, Trees):
            n_trees = len(part.trees)
            has_clusters = part.trees[0].has_clusters
        count = f"n_trees {n_trees}"
        if not has_clusters:
            count = "one classifier per label, no clusters"
        words = f"{count}, cost {settings.cost:g}"
        if part is None:
            words += f", first level of {settings.max_example_node_pairs:,.0f} pairs"
        return words
