"""Fitting label trees: cluster the labels by their examples, then fit a classifier for every
node.
"""

from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from rembrandt.data.rows import Rows
from rembrandt.engines.hinge import ENTRIES, Nodes
from rembrandt.engines.place import CPU, Place
from rembrandt.linalg.bisection import bisect
from rembrandt.linalg.sparse import as_csr
from rembrandt.progress import Report, silent
from rembrandt.scorers.centroids import fit_centroids
from rembrandt.scorers.protocol import Array
from rembrandt.scorers.trees import Level, Tree, Trees
from rembrandt.settings import TreeSettings
from rembrandt.storage.checkpoints import NO_CHECKPOINTS, Checkpoints

LARGEST = 165  # labels of a cluster
DIRECTION = (
    200,
    500,
)  # entries of a label's mean direction by which it is clustered: the fewest and the most
DIRECTIONS = 1 << 24  # entries of all labels, between these limits
SEED_STEP = 101  # between the seeds of two trees


def fit_trees(
    rows: Rows,
    Y: sparse.csr_array,
    settings: TreeSettings,
    seed: int = 0,
    weights: Array | None = None,
    report: Report = silent,
    checkpoints: Checkpoints = NO_CHECKPOINTS,
    place: Place = CPU,
    given: Trees | None = None,
) -> Trees:
    """Fit ``settings.n_trees`` trees; one when there is nothing to cluster, as all would be equal.

    ``given`` are the first trees, if they were fitted already.
    """

    @cache
    def directions() -> sparse.csr_array:
        kept = int(np.clip(DIRECTIONS // Y.shape[1], *DIRECTION))
        return fit_centroids(rows, Y, kept=kept).centroids

    def tree(number: int) -> Tree:
        def compute() -> Trees:
            levels = _fit_tree(
                rows, Y, settings, seed + SEED_STEP * number, weights, directions, report, place
            )
            return Trees((Tree(levels),), settings.power, settings.beam)

        return checkpoints.stage(f"tree-{number}", compute, Trees.arrays, Trees.from_arrays).trees[
            0
        ]

    first = (tree(0),) if given is None else given.trees
    n_trees = settings.n_trees if len(first[0].levels) > 1 else 1
    return Trees(
        (*first, *(tree(number) for number in range(len(first), n_trees))),
        settings.power,
        settings.beam,
    )


def cluster_depths(n: int, c: int, pairs: float) -> list[int]:
    """Return the number of halvings at each level of clusters; none when all examples × labels are
    affordable.
    """
    if n * c <= pairs:
        return []
    # Few large clusters are better than many: on held-out rows of PubMed-MeSH 64 clusters of 160
    # labels have a P@5 of 61.5 %, and 128 of 80 have 61.2 %.
    enough = np.ceil(np.log2(max(2.0, c / LARGEST)))
    first = max(1, round(min(enough, np.log2(min(c**0.5, max(2.0, pairs / n))))))
    rest = int(np.ceil(np.log2(max(1.0, c / 2**first / LARGEST))))
    steps = int(np.ceil(rest / max(first, 1)))
    return [first, *(first + round(rest * (step + 1) / steps) for step in range(steps))]


def _fit_tree(
    rows: Rows,
    Y: sparse.csr_array,
    settings: TreeSettings,
    seed: int,
    weights: Array | None,
    directions: Callable[[], sparse.csr_array],
    report: Report,
    place: Place,
) -> tuple[Level, ...]:
    """Cluster the labels of ``Y``, and fit the levels from the largest clusters down to the
    labels.
    """
    n, c = Y.shape
    weights = np.ones(n) if weights is None else np.asarray(weights)
    counted = np.flatnonzero(weights > 0)
    depths = cluster_depths(len(counted), c, settings.pairs)
    clusters = bisect(directions(), depths[-1], seed) if depths else np.zeros(c, dtype=np.int64)
    order = np.random.default_rng(seed).permutation(
        counted
    )  # coordinate descent goes through rows as they come
    Y = Y[order]
    costs = (settings.cost * weights[order]).astype(np.float32)
    most = max(1, ENTRIES * n // max(1, rows.nnz))  # examples of a pool
    solver = place.hinge(rows, order)
    levels: list[Level] = []
    everything: Any = np.ones((1, len(counted)), dtype=np.int8)
    pools = sparse.csr_array(everything)  # the root learns from all examples
    for above, depth in pairwise([0, *depths]):
        nodes = 2**depth
        cells = (np.arange(c), clusters >> (depths[-1] - depth))
        member: Any = sparse.csr_array((np.ones(c, dtype=np.float32), cells), shape=(c, nodes))
        examples = as_csr((Y @ member).T)
        parent = np.arange(nodes) >> (depth - above)
        found = solver.fit(
            Nodes(examples, pools, parent, costs, settings, most, are_clusters=True), report
        )
        levels.append(Level.rounded(*found, parent))
        pools = examples
    found = solver.fit(Nodes(as_csr(Y.T), pools, clusters, costs, settings, most), report)
    return *levels, Level.rounded(*found, clusters)
