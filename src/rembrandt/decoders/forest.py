"""Several trees over the same labels, each with clusters of its own: the mean of what they say.

A label that one tree put into a bad cluster is in a better one elsewhere. Where there are no clusters trees would be
alike, and one is enough.
"""

from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.decoders.tree import LabelTree, Level, TreeSettings, fit_tree
from rembrandt.engines.place import CPU, Place
from rembrandt.linalg.sparse import Matrix
from rembrandt.progress import Report, silent
from rembrandt.storage.arrays import Arrays, pack_csr, unpack_csr
from rembrandt.storage.checkpoints import NO_CHECKPOINTS, Checkpoints

Array = NDArray[Any]

CANDIDATES = 50  # labels that each tree brings, at least
APART = 101  # between the seeds of two trees


@dataclass(frozen=True)
class Forest:
    """Fitted trees, one or more."""

    trees: tuple[LabelTree, ...]

    def packed(self) -> tuple[Arrays, dict[str, Any]]:
        """As named arrays and JSON, to be written to a file."""
        arrays: Arrays = {}
        for t, tree in enumerate(self.trees):
            for number, level in enumerate(tree.levels):
                name = f"trees.{t}.{number}"
                arrays |= pack_csr(f"{name}.weights", level.weights)
                arrays |= {f"{name}.bias": level.bias, f"{name}.parent": level.parent.astype(np.int32)}
        first = self.trees[0]
        return arrays, {"levels": [len(tree.levels) for tree in self.trees], "power": first.power, "beam": first.beam}

    @classmethod
    def unpacked(cls, arrays: Arrays, facts: dict[str, Any]) -> "Forest":
        """What `packed` packed."""
        trees = []
        for t, n_levels in enumerate(facts["levels"]):
            names = [f"trees.{t}.{number}" for number in range(n_levels)]
            levels = (
                Level(unpack_csr(f"{name}.weights", arrays), arrays[f"{name}.bias"], arrays[f"{name}.parent"])
                for name in names
            )
            trees.append(LabelTree(tuple(levels), facts["power"], facts["beam"]))
        return cls(tuple(trees))

    @property
    def n_labels(self) -> int:
        return self.trees[0].n_labels

    def with_power(self, power: float) -> "Forest":
        """The same trees with another power of the hinge."""
        return Forest(tuple(replace(tree, power=power) for tree in self.trees))

    def top_k(self, X: Matrix, k: int, allowed: Array | None = None) -> tuple[NDArray[np.int64], Array]:
        """The ``k`` best labels of every row and their probabilities, best first, among the best of each tree.

        Where fewer are found the rest is -1, with 0. A label that a tree does not bring has nothing from it.
        """
        if len(self.trees) == 1:
            return self.trees[0].top_k(X, k, allowed)
        found = [tree.top_k(X, max(k, CANDIDATES), allowed) for tree in self.trees]
        labels, values = (np.hstack(parts) for parts in zip(*found, strict=True))
        rows, at = np.nonzero(labels >= 0)
        share = np.float32(1 / len(self.trees))
        total = sparse.csr_array(
            (share * values[rows, at], (rows, labels[rows, at])), shape=(X.shape[0], self.n_labels)
        )
        total.sum_duplicates()
        rows = np.repeat(np.arange(X.shape[0]), np.diff(total.indptr))
        order = np.lexsort((total.indices, -total.data, rows))
        place = np.arange(total.nnz) - total.indptr[rows]
        first = place < k
        best, scores = np.full((X.shape[0], k), -1, dtype=np.int64), np.zeros((X.shape[0], k), dtype=np.float32)
        best[rows[first], place[first]] = total.indices[order][first]
        scores[rows[first], place[first]] = total.data[order][first]
        return best, scores

    def probabilities(self, X: Matrix, labels: Any = slice(None)) -> Array:
        """Probabilities of ``labels`` for every row, by every tree in full: a dense block."""
        share = np.float32(1 / len(self.trees))
        return share * reduce(np.add, (tree.probabilities(X, labels) for tree in self.trees))


def fit_forest(
    X: Matrix,
    Y: sparse.csr_array,
    settings: TreeSettings,
    weights: Array | None = None,
    report: Report = silent,
    checkpoints: Checkpoints = NO_CHECKPOINTS,
    place: Place = CPU,
) -> Forest:
    """As many trees as ``settings`` say; one where there is nothing to cluster."""

    def tree(number: int) -> LabelTree:
        own = replace(settings, seed=settings.seed + APART * number)
        alone = checkpoints.stage(
            f"tree-{number}",
            lambda: Forest((fit_tree(X, Y, own, weights, report, place),)),
            Forest.packed,
            Forest.unpacked,
        )
        return alone.trees[0]

    first = tree(0)
    n_trees = settings.trees if len(first.levels) > 1 else 1
    return Forest((first, *(tree(number) for number in range(1, n_trees))))
