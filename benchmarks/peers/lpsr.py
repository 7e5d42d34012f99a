"""LPSR: label partitioning for sublinear ranking, over naive Bayes scores.

A base scorer can rank all labels. Ranking only those that occur near an example is faster and can
be better. A tree of weighted 2-means partitions the inputs, every partition is assigned its most
frequent labels, and the base scorer ranks the labels of the partitions that an example falls into.

Reference: Weston, Makadia and Yee, "Label partitioning for sublinear ranking", ICML 2013.
Implemented from the paper.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy import sparse

from benchmarks.peers.arrays import Rows, as_rows, keep_top, room_for, row_blocks, unit_length
from benchmarks.peers.trees import Tree, divide, join, label_shares, number, reach
from rembrandt.errors import DataError
from rembrandt.linalg.threads import for_each

_LABELS_AT_ONCE = 20_000
_LEAST_IMPORTANCE = 0.1  # weight in the partitioner of an example that the base scorer gets wrong
_MEANS_PASSES = 20
_MEANS_TRIALS = 5


class NaiveBayes(NamedTuple):
    """Multinomial naive Bayes of each label against the rest, without the terms that all labels
    share.

    With Laplace smoothing the weight of a feature that never occurs with a label depends only on
    the feature, so weights relative to it are as sparse as the co-occurrences.
    """

    prior: NDArray[np.float32]  # log odds of the label
    slope: NDArray[
        np.float32
    ]  # per unit of the row's sum: labels with long texts spread their mass
    weights: Rows  # (labels × features)


class LPSR:
    """Partitions of the inputs, each with a list of labels that a naive Bayes scorer ranks.

    ``max_partition`` is the number of examples up to which a partition is not split, and
    ``partition_labels`` the maximum number of labels of a partition. With several trees, the labels
    of all partitions of an example are scored. ``weighted`` gives examples that the base scorer
    gets right more weight in the partitioner, as in the paper. This ranks all labels for every
    training example and takes most of the time when there are many labels. ``row_length`` scales
    examples to that Euclidean length. Rows of tf-idf need this, since naive Bayes expects counts.

    >>> X, Y = np.eye(4).repeat(20, axis=0), np.eye(4).repeat(20, axis=0)
    >>> LPSR(max_partition=30).fit(X, Y).top_k(np.eye(4), 1)[0].ravel().tolist()
    [0, 1, 2, 3]
    """

    def __init__(
        self,
        n_trees: int = 1,
        max_partition: int = 300,
        partition_labels: int = 200,
        smoothing: float = 1.0,
        row_length: float | None = None,
        weighted: bool = True,
        seed: int = 0,
    ) -> None:
        self.n_trees = n_trees
        self.max_partition = max_partition
        self.partition_labels = partition_labels
        self.smoothing = smoothing
        self.row_length = row_length
        self.weighted = weighted
        self.seed = seed
        self.trees: list[Tree] = []

    def fit(self, X: Any, Y: Any) -> "LPSR":
        """Fit the base scorer, weight examples by its success, and partition the inputs."""
        self.n_features, self.n_labels = X.shape[1], Y.shape[1]
        x, y = self._features(X), as_rows(Y)
        if x.values.min(initial=0.0) < 0:
            raise DataError("naive Bayes expects counts, but some features are negative")
        self.base = _count(x, y, self.n_features, self.n_labels, self.smoothing)
        importance = np.ones(len(y.starts) - 1)
        if self.weighted:
            importance = np.maximum(
                _precision_at_1(x, y, self.base, self.n_features), _LEAST_IMPORTANCE
            )
        directions = unit_length(x)
        self.trees = [
            self._partition(directions, y, importance, which) for which in range(self.n_trees)
        ]
        self._assigned, self._offsets = join(self.trees)
        return self

    def top_k(self, X: Any, k: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Return the k best labels of each row and their scores; label -1 and score -inf where
        there are fewer.
        """
        x = self._features(X)
        directions = unit_length(x)
        n = len(x.starts) - 1
        reached = np.empty((self.n_trees, n), np.int64)
        for tree, leaves in zip(self.trees, reached, strict=True):
            reach(directions, self.n_features, tree, leaves)
        reached += self._offsets[:, None]
        labels, scores = np.full((n, k), -1, np.int64), np.full((n, k), -np.inf, np.float32)

        def score(a: int, b: int) -> None:
            part = x._replace(starts=x.starts[a : b + 1])
            _score(
                part,
                reached[:, a:b],
                self._assigned,
                self.base,
                self.n_features,
                labels[a:b],
                scores[a:b],
            )

        for_each(score, row_blocks(n))
        return labels, scores

    def _features(self, X: Any) -> Rows:
        rows = as_rows(X, self.n_features)
        if self.row_length is None:
            return rows
        unit = unit_length(rows)
        return unit._replace(values=unit.values * np.float32(self.row_length))

    def _partition(self, x: Rows, y: Rows, importance: NDArray[np.float64], which: int) -> Tree:
        """Split level by level; the nodes of a level have disjoint ranges of ``order`` and are
        split in parallel.
        """
        order = np.arange(len(importance))
        level = [(0, len(order))]
        nodes: list[Any] = []
        made = 1
        while level:
            found: list[Any] = [None] * len(level)

            def split(at: int, first: int, last: int, begin: int, found: list[Any]) -> None:
                rng = np.random.default_rng([self.seed, which, begin + at])
                limits = self.max_partition, self.partition_labels
                found[at] = _split(
                    order[first:last], x, y, importance, self.n_features, self.n_labels, limits, rng
                )

            for_each(
                split,
                [(at, first, last, len(nodes), found) for at, (first, last) in enumerate(level)],
            )
            deeper = []
            for (first, last), (n_positive, *rest) in zip(level, found, strict=True):
                leaf = n_positive == 0
                nodes.append(((-1, -1) if leaf else (made, made + 1), *rest))
                if not leaf:
                    deeper += [(first, last - n_positive), (last - n_positive, last)]
                    made += 2
            level = deeper
        child, bias, columns, weights, labels, shares = zip(*nodes, strict=True)
        return Tree(
            np.array(child, np.int32),
            np.array(bias, np.float32),
            _starts(columns),
            np.concatenate(columns),
            np.concatenate(weights),
            _starts(labels),
            np.concatenate(labels),
            np.concatenate(shares),
        )

    @property
    def nbytes(self) -> int:
        """Size of the trees and of the base scorer."""
        base = (
            self.base.prior.nbytes
            + self.base.slope.nbytes
            + sum(array.nbytes for array in self.base.weights)
        )
        return base + sum(array.nbytes for tree in self.trees for array in tree)


def _starts(parts: Any) -> NDArray[np.int64]:
    return np.cumsum([0] + [len(part) for part in parts])


def _count(x: Rows, y: Rows, n_features: int, n_labels: int, smoothing: float) -> NaiveBayes:
    """Return the base scorer; labels are counted in blocks, so that only the result needs much
    memory.
    """
    n = len(x.starts) - 1
    X = sparse.csr_array((x.values, x.columns, x.starts), shape=(n, n_features))
    by_label = sparse.csr_array(
        (np.ones_like(y.values), y.columns, y.starts), shape=(n, n_labels)
    ).T.tocsr()
    totals = np.bincount(x.columns, weights=x.values, minlength=n_features)
    held = np.diff(by_label.indptr)
    starts = [np.zeros(1, np.int64)]
    columns: list[NDArray[np.int32]] = []
    values: list[NDArray[np.float32]] = []
    masses: list[NDArray[np.float64]] = []
    for first in range(0, n_labels, _LABELS_AT_ONCE):
        counts = by_label[first : first + _LABELS_AT_ONCE] @ X
        rest = np.maximum(totals[counts.indices] - counts.data, 0.0)
        weight = np.log1p(counts.data / smoothing)
        weight -= np.log((rest + smoothing) / (totals[counts.indices] + smoothing))
        masses.append(np.asarray(counts.sum(axis=1)).ravel())
        starts.append(counts.indptr[1:].astype(np.int64) + starts[-1][-1])
        columns.append(counts.indices.astype(np.int32))
        values.append(weight.astype(np.float32))
    mass = np.concatenate(masses)
    spread = smoothing * n_features
    slope = np.log((np.maximum(totals.sum() - mass, 0.0) + spread) / (mass + spread))
    prior = np.log((held + 0.5) / (n - held + 0.5))
    weights = Rows(np.concatenate(starts), np.concatenate(columns), np.concatenate(values))
    return NaiveBayes(prior.astype(np.float32), slope.astype(np.float32), weights)


def _precision_at_1(x: Rows, y: Rows, base: NaiveBayes, n_features: int) -> NDArray[np.float64]:
    """Return 1 where a label of the example ranks first among all labels by the base scorer, 0
    elsewhere.
    """
    stored = base.weights
    by_label = sparse.csr_array(
        (stored.values, stored.columns, stored.starts), shape=(len(base.prior), n_features)
    )
    by_feature = as_rows(by_label.T.tocsr())
    hit = np.zeros(len(x.starts) - 1)
    for_each(
        lambda a, b: _hits(a, b, x, y, base.prior, base.slope, by_feature, hit),
        row_blocks(len(hit)),
    )
    return hit


@njit(nogil=True, cache=True)
def _hits(
    a: int, b: int, x: Any, y: Any, prior: Any, slope: Any, by_feature: Any, hit: Any
) -> None:
    for row in range(a, b):
        span = slice(x.starts[row], x.starts[row + 1])
        scores = prior + slope * x.values[span].sum()
        for p in range(x.starts[row], x.starts[row + 1]):
            value, feature = x.values[p], x.columns[p]
            for q in range(by_feature.starts[feature], by_feature.starts[feature + 1]):
                scores[by_feature.columns[q]] += value * by_feature.values[q]
        best = np.argmax(scores)
        for p in range(y.starts[row], y.starts[row + 1]):
            if y.columns[p] == best:
                hit[row] = 1.0


@njit(nogil=True, cache=True)
def _split(
    rows: Any,
    x: Any,
    y: Any,
    importance: Any,
    n_features: int,
    n_labels: int,
    limits: Any,
    rng: Any,
) -> Any:
    """Split a node, or assign labels to it.

    Returns the number of positive rows, which are moved to the end (0 in a leaf), and the bias,
    columns, weights, labels and shares of the node.
    """
    max_partition, partition_labels = limits
    if len(rows) > max_partition:
        columns = number(rows, x, np.full(n_features, -1, np.int32))
        dense = np.zeros(n_features)
        for _ in range(_MEANS_TRIALS):
            w = _two_means(rows, x, importance, columns, n_features, rng)
            n_positive = divide(rows, x, columns, w, dense)
            if 0 < n_positive < len(rows):
                return (
                    n_positive,
                    w[-1],
                    columns,
                    w[:-1].astype(np.float32),
                    columns[:0],
                    np.zeros(0, np.float32),
                )
    labels, shares = label_shares(rows, y, np.full(n_labels, -1, np.int32), partition_labels)
    return 0, 0.0, labels[:0], np.zeros(0, np.float32), labels, shares


@njit(nogil=True, cache=True)
def _two_means(rows: Any, x: Any, importance: Any, columns: Any, n_features: int, rng: Any) -> Any:
    """Return the plane between two weighted means: the weights of ``columns``, followed by the
    bias.
    """
    means = np.zeros((2, n_features))
    chosen = rng.integers(0, len(rows), 2)
    for which in range(2):
        row = rows[chosen[which]]
        for p in range(x.starts[row], x.starts[row + 1]):
            means[which, x.columns[p]] = x.values[p]
    side = np.full(len(rows), -1)
    plane, bias = np.zeros(n_features), 0.0
    for _ in range(_MEANS_PASSES):
        bias = 0.5 * ((means[0] ** 2).sum() - (means[1] ** 2).sum())
        plane[:] = means[1] - means[0]
        moved = 0
        means[:] = 0.0
        mass = np.zeros(2)
        for at, row in enumerate(rows):
            score = bias
            for p in range(x.starts[row], x.starts[row + 1]):
                score += x.values[p] * plane[x.columns[p]]
            which = 1 if score > 0.0 else 0
            moved += which != side[at]
            side[at] = which
            mass[which] += importance[row]
            for p in range(x.starts[row], x.starts[row + 1]):
                means[which, x.columns[p]] += importance[row] * x.values[p]
        if moved == 0 or mass.min() == 0.0:
            break
        means[0] /= mass[0]
        means[1] /= mass[1]
    # In float32, as in the tree: prediction must split the rows in the same way.
    w = np.empty(len(columns) + 1, np.float32)
    w[:-1], w[-1] = plane[columns], bias
    return w


@njit(nogil=True, cache=True)
def _score(
    x: Any, reached: Any, assigned: Any, base: Any, n_features: int, labels: Any, best: Any
) -> None:
    """Rank the labels of the partitions that each row reached."""
    n_trees, n = reached.shape
    scores = np.full(len(base.prior), -np.inf, np.float32)
    candidates = np.empty(256, np.int32)
    dense = np.zeros(n_features, np.float32)
    for row in range(n):
        span = slice(x.starts[row], x.starts[row + 1])
        dense[x.columns[span]] = x.values[span]
        total = x.values[span].sum()
        n_candidates = 0
        for tree in range(n_trees):
            for p in range(
                assigned.starts[reached[tree, row]], assigned.starts[reached[tree, row] + 1]
            ):
                label = assigned.columns[p]
                if scores[label] > -np.inf:
                    continue
                score = base.prior[label] + base.slope[label] * total
                for q in range(base.weights.starts[label], base.weights.starts[label + 1]):
                    score += base.weights.values[q] * dense[base.weights.columns[q]]
                scores[label] = score
                candidates = room_for(candidates, n_candidates + 1)
                candidates[n_candidates] = label
                n_candidates += 1
        keep_top(candidates[:n_candidates], scores, labels[row], best[row])
        scores[candidates[:n_candidates]] = -np.inf
        dense[x.columns[span]] = 0.0
