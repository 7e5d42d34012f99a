"""The sparse part of a model: which cluster of labels, then which label, each a sparse linear classifier.

Low rank cannot tell apart what only one rare word tells apart. Here every label has weights of its own, on words that
its examples have. Labels whose examples are alike share a cluster, clusters share larger ones, and a classifier at any
node learns from the examples of the node above it alone: the cost is pairs of examples and siblings, not examples
times labels. Where examples times labels is affordable there are no clusters, and each label learns from all examples.

A label's score is the logarithm of a probability, ``−Σ max(0, 1 − (xᵀs + b))^power`` over the nodes on its path.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.data.stored import StoredRows
from rembrandt.engines.place import CPU, CpuPlace, Place
from rembrandt.linalg.bisection import bisect
from rembrandt.linalg.blocks import spans
from rembrandt.linalg.hinge import squared_hinge
from rembrandt.linalg.inverted import add_lists, best_members
from rembrandt.linalg.ranking import rank, top_k
from rembrandt.linalg.sparse import Matrix, as_csr, normalize_rows
from rembrandt.linalg.threads import Workspace, for_each
from rembrandt.progress import Report, silent

Array = NDArray[Any]
Part = tuple[Array, Array, Array, Array]

ROWS = 256  # examples answered by one call, with their scores of all clusters
LARGEST = 165  # labels of a cluster
DEVICE_PAIRS = 30.0  # of examples and nodes that a GPU does in the time of one here


@dataclass(frozen=True)
class TreeSettings:
    """How to fit: ``pairs`` buys quality with time, ``cost`` depends on the data."""

    cost: float = 1.0  # C of the squared hinge: the larger, the nearer to the training examples
    pairs: float = 3e7  # examples × nodes that the first level may take
    threshold: float = 0.05  # weights below are dropped
    tolerance: float = 0.3  # of the projected gradient, where descent ends
    passes: int = 12  # over a label's examples, at most
    power: float = 3.0
    beam: int = 10  # clusters that prediction looks into
    trees: int = 1  # each with clusters of its own; their mean is better, and costs as many times more
    seed: int = 0


@dataclass(frozen=True)
class Level:
    """The nodes of one level: weights (nodes × features), biases, and each one's node in the level above."""

    weights: sparse.csr_array
    bias: Array
    parent: Array


@dataclass(frozen=True)
class LabelTree:
    """Fitted levels, the last of them the labels themselves."""

    levels: tuple[Level, ...]
    power: float
    beam: int
    _lists: tuple[sparse.csr_array, ...] = field(init=False, repr=False, compare=False)  # of the clusters, by feature
    _members: tuple[Array, Array] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        parent = self.levels[-1].parent
        n_clusters = len(self.levels[-2].bias) if len(self.levels) > 1 else 1
        ends = np.cumsum(np.bincount(parent, minlength=n_clusters))
        listed = self.levels[:-1] or self.levels  # labels too where there are no clusters
        object.__setattr__(self, "_lists", tuple(as_csr(level.weights.T) for level in listed))
        object.__setattr__(self, "_members", (np.append(0, ends), np.argsort(parent, kind="stable")))

    @property
    def n_labels(self) -> int:
        return len(self.levels[-1].bias)

    def top_k(self, X: Matrix, k: int, allowed: Array | None = None) -> tuple[NDArray[np.int64], Array]:
        """The ``k`` best labels of every row and their probabilities, best first, from the best clusters.

        With ``allowed``, label indices, all clusters are looked into. Where fewer are found the rest is -1, with 0.
        """
        X = unit_rows(X)
        if len(self.levels) == 1:
            return self._top_k_of_all(X, k, allowed)
        mask = np.full(self.n_labels, allowed is None)
        mask[slice(0) if allowed is None else allowed] = True
        best = np.full((X.shape[0], k), -1, dtype=np.int32)
        scores = np.full((X.shape[0], k), -np.inf, dtype=np.float32)
        last = self.levels[-1]
        leaves: Any = (last.weights.indptr, last.weights.indices, last.weights.data, last.bias, self.power, mask)
        space = Workspace(lambda: np.zeros(X.shape[1], dtype=np.float32))

        def answer(rows: slice) -> None:
            so_far = self._clusters(X, rows)
            width = so_far.shape[1] if allowed is not None else min(self.beam, so_far.shape[1])
            found = np.argsort(-so_far, axis=1, kind="stable")[:, :width]
            so_far = np.take_along_axis(so_far, found, axis=1)
            with space.borrowed() as dense:
                work: Any = (found, so_far, *self._members, *leaves, dense, best[rows], scores[rows])
                best_members(X.indptr, X.indices, X.data, rows.start, *work)

        for_each(answer, ((rows,) for rows in spans(X.shape[0], ROWS)))
        labels, logarithms = rank(best, scores)
        return labels.astype(np.int64, copy=False), np.exp(logarithms)

    def _top_k_of_all(self, X: sparse.csr_array, k: int, allowed: Array | None) -> tuple[NDArray[np.int64], Array]:
        """Without clusters: every label by lists, which is faster than one label after the other."""
        best = np.full((X.shape[0], k), -1, dtype=np.int64)
        scores = np.zeros((X.shape[0], k), dtype=np.float32)
        labels = np.arange(self.n_labels) if allowed is None else np.asarray(allowed)
        level = self.levels[0]

        def answer(rows: slice) -> None:
            margins = self._margins(X, rows, self._lists[0], level.bias)[:, labels]
            found, values = top_k(-self._loss(margins), k)
            best[rows] = np.where(found < 0, -1, labels[found])
            scores[rows] = np.exp(values)

        for_each(answer, ((rows,) for rows in spans(X.shape[0], ROWS)))
        return best, scores

    def probabilities(self, X: Matrix, labels: Any = slice(None)) -> Array:
        """Probabilities of ``labels`` for every row, whatever their cluster: a dense block, and `top_k` in full."""
        X, last = unit_rows(X), self.levels[-1]
        own = np.zeros((X.shape[0], len(last.bias[labels])), dtype=np.float32)
        lists = as_csr(last.weights[labels].T)
        above = np.empty((X.shape[0], len(self._members[0]) - 1), dtype=np.float32)

        def fill(rows: slice) -> None:
            add_lists(X.indptr, X.indices, X.data, rows.start, lists.indptr, lists.indices, lists.data, own[rows])
            above[rows] = self._clusters(X, rows)

        for_each(fill, ((rows,) for rows in spans(X.shape[0], ROWS)))
        return np.exp(above[:, last.parent[labels]] - self._loss(own + last.bias[labels]))

    def _clusters(self, X: sparse.csr_array, rows: slice) -> Array:
        """The log-probabilities of the clusters of labels."""
        total = np.zeros((rows.stop - rows.start, 1), dtype=np.float32)
        for level, lists in zip(self.levels[:-1], self._lists, strict=False):
            total = total[:, level.parent] - self._loss(self._margins(X, rows, lists, level.bias))
        return total

    def _margins(self, X: sparse.csr_array, rows: slice, lists: sparse.csr_array, bias: Array) -> Array:
        """``xᵀs + b`` of every node of a level."""
        scores = np.tile(bias, (rows.stop - rows.start, 1))
        add_lists(X.indptr, X.indices, X.data, rows.start, lists.indptr, lists.indices, lists.data, scores)
        return scores

    def _loss(self, scores: Array) -> Array:
        return np.maximum(0, 1 - scores) ** np.float32(self.power)


def fit_tree(
    X: Matrix,
    Y: sparse.csr_array,
    settings: TreeSettings,
    weights: Array | None = None,
    report: Report = silent,
    place: Place = CPU,
) -> LabelTree:
    """Cluster the labels of ``Y`` by the examples they have, and fit a classifier for every node.

    Nodes that learn from all examples are fitted where ``place`` is; below them the examples of a node are too few for
    a device to gain by.
    """
    source, X = X, unit_rows(X[:] if isinstance(X, StoredRows) else X)
    n, c = Y.shape
    weights = np.ones(n) if weights is None else np.asarray(weights)
    counted = np.flatnonzero(weights > 0)
    pairs = settings.pairs if isinstance(place, CpuPlace) else DEVICE_PAIRS * settings.pairs
    depths = cluster_depths(len(counted), c, pairs)
    clusters = bisect(_centroids(X, Y), depths[-1], settings.seed) if depths else np.zeros(c, dtype=np.int64)
    shuffled = np.random.default_rng(settings.seed).permutation(counted)  # descent goes through rows as they come
    X, Y, weights = X[shuffled], Y[shuffled], weights[shuffled]
    costs = (settings.cost * weights).astype(np.float32)
    workers = _workers(source, shuffled, place)
    levels: list[Level] = []
    pools = sparse.csr_array(np.ones((1, len(counted)), dtype=np.int8))  # the root's examples: all
    for above, depth in pairwise([0, *depths]):
        nodes = 2**depth
        cells = (np.arange(c), clusters >> (depths[-1] - depth))
        member = sparse.csr_array((np.ones(c, dtype=np.float32), cells), shape=(c, nodes))
        rows = as_csr((Y @ member).T)
        levels.append(
            _fit_level(X, rows, pools, np.arange(nodes) >> (depth - above), costs, settings, report, place, workers)
        )
        pools = rows
    levels.append(_fit_level(X, as_csr(Y.T), pools, clusters, costs, settings, report, place, workers))
    return LabelTree(tuple(levels), settings.power, settings.beam)


def cluster_depths(n: int, c: int, pairs: float) -> list[int]:
    """The number of halvings at each level of clusters; none where all examples × labels are affordable."""
    if n * c <= pairs:
        return []
    # Few large clusters are better than many where they are small enough: on held-out rows of PubMed-MeSH 64 of 160
    # labels have 61.5 % of P@5 and 128 of 80 have 61.2.
    enough = np.ceil(np.log2(max(2.0, c / LARGEST)))
    first = max(1, round(min(enough, np.log2(min(c**0.5, max(2.0, pairs / n))))))
    rest = int(np.ceil(np.log2(max(1.0, c / 2**first / LARGEST))))
    steps = int(np.ceil(rest / max(first, 1)))
    return [first, *(first + round(rest * (step + 1) / steps) for step in range(steps))]


def _fit_level(
    X: sparse.csr_array,
    rows: sparse.csr_array,
    pools: sparse.csr_array,
    parent: Array,
    costs: Array,
    settings: TreeSettings,
    report: Report,
    place: Place,
    workers: Any = None,
) -> Level:
    """One classifier for each row list of ``rows`` (nodes × examples) against the rest of its parent's pool."""
    if pools.shape[0] == 1 and not isinstance(place, CpuPlace):
        from rembrandt.decoders.torch_hinge import hinge_weights
        from rembrandt.engines.torch_place import TorchPlace

        assert isinstance(place, TorchPlace)
        return Level(*hinge_weights(X, rows, costs, settings.threshold, place, report), parent)
    size = rows.shape[0]
    order = np.argsort(parent, kind="stable")  # siblings after each other: the rows of their pool are in the cache
    pieces = [order[nodes] for nodes in spans(size, int(np.clip(size // 64, 1, 64)))]
    level = Nodes(rows, pools, parent, costs, settings)
    found = level.fit(X, pieces, report) if workers is None else workers.fit(level, pieces, report)
    counts, bias = np.empty(size, dtype=np.int64), np.empty(size, dtype=np.float32)
    counts[order] = np.concatenate([np.diff(ends, prepend=0) for ends, *_ in found])
    bias[order] = np.concatenate([own for *_, own in found])
    features, values = (np.concatenate([part[at] for part in found]) for at in (1, 2))
    weights = sparse.csr_array((values, features, np.append(0, np.cumsum(counts[order]))), shape=(size, X.shape[1]))
    return Level(as_csr(weights[np.argsort(order)]), bias, parent)


@dataclass(frozen=True)
class Nodes:
    """The nodes of a level before they are fitted: the examples of each, and those that it learns from."""

    rows: sparse.csr_array  # nodes × examples
    pools: sparse.csr_array  # nodes above × examples
    parent: Array
    costs: Array
    settings: TreeSettings

    @property
    def nbytes(self) -> int:
        lists = (self.rows.indptr, self.rows.indices, self.pools.indptr, self.pools.indices)
        return sum(part.nbytes for part in (*lists, self.parent, self.costs))

    def fit(self, X: sparse.csr_array, pieces: Sequence[Array], report: Report = silent) -> list[Part]:
        """For each piece, some of the nodes: where weights end, their features, their values, and the biases."""
        rows, pools, s = self.rows, self.pools, self.settings
        size = sum(map(len, pieces))
        found: dict[int, Part] = {}
        space = Workspace(lambda: np.full(X.shape[1], -1, dtype=np.int32))
        lists = (rows.indptr, rows.indices, pools.indptr, pools.indices, self.parent)
        data = (X.indptr, X.indices, X.data, self.costs, *lists)

        def fit(number: int, nodes: Array) -> None:
            with space.borrowed() as seats:
                found[number] = squared_hinge(*data, nodes, s.passes, s.tolerance, s.threshold, seats)
            report(f"{size:,} sparse classifiers", sum(len(pieces[done]) for done in list(found)), size)

        for_each(fit, enumerate(pieces))
        return [found[number] for number in range(len(pieces))]


def _workers(source: Matrix, shuffled: Array, place: Place) -> Any:
    """Who fits nodes where the examples are those of a store on a cluster; None for this process."""
    if not isinstance(source, StoredRows):
        return None
    from rembrandt.decoders.shared_tree import workers_for

    return workers_for(source, shuffled, place)


def _centroids(X: sparse.csr_array, Y: sparse.csr_array) -> sparse.csr_array:
    """The direction of each label's examples."""
    return normalize_rows(as_csr(as_csr(Y.T, X.dtype) @ X))


def unit_rows(X: Matrix) -> sparse.csr_array:
    """Rows of length one, in single precision."""
    return normalize_rows(as_csr(X, np.float32))
