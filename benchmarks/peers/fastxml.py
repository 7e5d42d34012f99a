"""FastXML: an ensemble of trees whose nodes split examples so that a ranking of the labels fits
each side.

A node finds two rankings of the labels and a side for every example, such that the labels of each
example rank high (by nDCG) in the ranking of its side. A sparse linear separator then learns the
sides. Leaves store the label frequencies of their few examples, and a prediction averages the
leaves that a row reaches.

Reference: Prabhu and Varma, "FastXML: a fast, accurate and stable tree-classifier for extreme
multi-label learning", KDD 2014. Implemented from the paper.
"""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from benchmarks.peers.arrays import Rows, as_rows, keep_top, room_for, row_blocks, unit_length
from benchmarks.peers.l1_logistic import fit as l1_fit
from benchmarks.peers.trees import Tree, divide, join, label_shares, number, reach
from rembrandt.linalg.threads import for_each

_ALTERNATIONS = 200  # rarely reached: the alternation converges in finitely many steps


class FastXML:
    """Trees that partition examples to optimise nDCG.

    ``cost`` weighs the loss of the separator against its l1 penalty, ``leaf_labels`` is the maximum
    number of labels of a leaf, and ``unit_rows`` scales every example to unit length first.

    >>> X, Y = np.eye(4).repeat(20, axis=0), np.eye(4).repeat(20, axis=0)
    >>> FastXML(n_trees=5).fit(X, Y).top_k(np.eye(4), 1)[0].ravel().tolist()
    [0, 1, 2, 3]
    """

    def __init__(
        self,
        n_trees: int = 50,
        max_leaf: int = 10,
        cost: float = 1.0,
        leaf_labels: int = 100,
        newton_steps: int = 20,
        tol: float = 0.01,
        unit_rows: bool = False,
        seed: int = 0,
    ) -> None:
        self.n_trees = n_trees
        self.max_leaf = max_leaf
        self.cost = cost
        self.leaf_labels = leaf_labels
        self.newton_steps = newton_steps
        self.tol = tol
        self.unit_rows = unit_rows
        self.seed = seed
        self.trees: list[Tree] = []

    def fit(self, X: Any, Y: Any) -> "FastXML":
        """Grow the trees in parallel; each has its own generator, so threads do not change the
        result.
        """
        self.n_features, self.n_labels = X.shape[1], Y.shape[1]
        x, y = self._features(X), as_rows(Y)
        gains = _gain_per_label(np.diff(y.starts))
        rngs = np.random.default_rng(self.seed).spawn(self.n_trees)
        grown: list[Tree | None] = [None] * self.n_trees

        def grow(at: int) -> None:
            shape = self.n_features, self.n_labels
            limits = self.max_leaf, self.leaf_labels, self.newton_steps
            grown[at] = Tree(*_grow(x, y, gains, shape, limits, self.cost, self.tol, rngs[at]))

        for_each(grow, [(at,) for at in range(self.n_trees)])
        self.trees = [tree for tree in grown if tree is not None]
        self._leaves, self._offsets = join(self.trees)
        return self

    def top_k(self, X: Any, k: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Return the k best labels of each row and their scores; label -1 and score -inf where
        there are fewer.
        """
        x = self._features(X)
        n = len(x.starts) - 1
        reached = np.empty((self.n_trees, n), np.int64)
        every = [(at,) for at in range(self.n_trees)]
        for_each(lambda at: reach(x, self.n_features, self.trees[at], reached[at]), every)
        reached += self._offsets[:, None]
        labels, scores = np.full((n, k), -1, np.int64), np.full((n, k), -np.inf, np.float32)
        for_each(
            lambda a, b: _average(
                reached[:, a:b], self._leaves, self.n_labels, labels[a:b], scores[a:b]
            ),
            row_blocks(n),
        )
        return labels, scores

    def _features(self, X: Any) -> Rows:
        rows = as_rows(X, self.n_features)
        return unit_length(rows) if self.unit_rows else rows

    @property
    def nbytes(self) -> int:
        """Size of the trees."""
        return sum(array.nbytes for tree in self.trees for array in tree)


def _gain_per_label(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the inverse of the best DCG of examples with these numbers of labels; 0 without
    labels.
    """
    ideal = np.concatenate(
        [[np.inf], np.cumsum(1.0 / np.log2(2.0 + np.arange(counts.max(initial=1))))]
    )
    return 1.0 / ideal[counts]


@njit(nogil=True, cache=True)
def _grow(
    x: Any, y: Any, gains: Any, shape: Any, limits: Any, cost: float, tol: float, rng: Any
) -> Any:
    """Grow one tree; return the arrays of a ``Tree``."""
    n, (n_features, n_labels), (max_leaf, leaf_labels, newton_steps) = len(gains), shape, limits
    order = np.arange(n)  # the examples, permuted so that every node has a range
    column_of = np.full(n_features, -1, np.int32)
    label_of = np.full(n_labels, -1, np.int32)
    dense = np.zeros(n_features)

    child, bias = np.full(2, -1, np.int32), np.zeros(1, np.float32)
    weight_starts, label_starts = np.zeros(2, np.int64), np.zeros(2, np.int64)
    weight_columns, weights = np.empty(1024, np.int32), np.empty(1024, np.float32)
    labels, shares = np.empty(1024, np.int32), np.empty(1024, np.float32)
    first, last = np.zeros(1, np.int64), np.full(1, n)
    node, made = 0, 1
    while (
        node < made
    ):  # nodes are finished in the order of their creation, which keeps all tables in order
        rows = order[first[node] : last[node]]
        n_weights, n_kept = weight_starts[node], label_starts[node]
        n_positive = 0
        if len(rows) > max_leaf:
            side = _split_by_ranking(rows, y, gains, label_of, rng)
            if 0 < side.sum() < len(rows):
                columns, w = _separator(rows, side, x, column_of, cost, newton_steps, tol, rng)
                n_positive = divide(rows, x, columns, w, dense)
        if 0 < n_positive < len(rows):
            used = np.flatnonzero(w[:-1])
            weight_columns, weights = (
                room_for(weight_columns, n_weights + len(used)),
                room_for(weights, n_weights + len(used)),
            )
            for at in used:
                weight_columns[n_weights], weights[n_weights] = columns[at], w[at]
                n_weights += 1
            child, bias = room_for(child, 2 * made + 4), room_for(bias, made + 2)
            weight_starts, label_starts = (
                room_for(weight_starts, made + 3),
                room_for(label_starts, made + 3),
            )
            first, last = room_for(first, made + 2), room_for(last, made + 2)
            bias[node] = w[-1]
            middle = last[node] - n_positive
            child[2 * node], child[2 * node + 1] = made, made + 1
            first[made], last[made] = first[node], middle
            first[made + 1], last[made + 1] = middle, last[node]
            child[2 * made : 2 * made + 4] = -1
            bias[made : made + 2] = 0.0
            made += 2
        else:
            found, share = label_shares(rows, y, label_of, leaf_labels)
            labels, shares = (
                room_for(labels, n_kept + len(found)),
                room_for(shares, n_kept + len(found)),
            )
            labels[n_kept : n_kept + len(found)] = found
            shares[n_kept : n_kept + len(found)] = share
            n_kept += len(found)
        node += 1
        weight_starts[node], label_starts[node] = n_weights, n_kept
    return (
        child[: 2 * made].copy().reshape(made, 2),
        bias[:made].copy(),
        weight_starts[: made + 1].copy(),
        weight_columns[:n_weights].copy(),
        weights[:n_weights].copy(),
        label_starts[: made + 1].copy(),
        labels[:n_kept].copy(),
        shares[:n_kept].copy(),
    )


@njit(nogil=True, cache=True)
def _split_by_ranking(rows: Any, y: Any, gains: Any, label_of: Any, rng: Any) -> Any:
    """Return a side, 0 or 1, for every row: alternate between ranking the labels of each side and
    assigning rows.

    The separator is still zero here, so its loss is the same on both sides and only the rankings
    matter.
    """
    present = number(rows, y, label_of)
    side = rng.integers(0, 2, len(rows))
    discount, by_position = (
        np.empty((2, len(present))),
        1.0 / np.log2(2.0 + np.arange(len(present))),
    )
    before = -1.0
    for _ in range(_ALTERNATIONS):
        discount[:] = 0.0
        for at, row in enumerate(rows):
            for p in range(y.starts[row], y.starts[row + 1]):
                discount[side[at], label_of[y.columns[p]]] += gains[row]
        for which in range(2):
            # The ranking with the best total nDCG sorts labels by their gains. Labels that do not
            # occur on the side come last in any order, so each gets the mean of the remaining
            # discounts. With zero instead, the rare labels of a row, which occur only on its own
            # side, would keep it there.
            held, absent = np.flatnonzero(discount[which]), np.flatnonzero(discount[which] == 0.0)
            discount[which][held[np.argsort(-discount[which][held])]] = by_position[: len(held)]
            discount[which][absent] = by_position[len(held) :].sum() / max(len(absent), 1)
        total = 0.0
        for at, row in enumerate(rows):
            zero, one = 0.0, 0.0
            for p in range(y.starts[row], y.starts[row + 1]):
                label = label_of[y.columns[p]]
                zero += discount[0, label]
                one += discount[1, label]
            total += gains[row] * max(zero, one)
            if zero != one:
                side[at] = 1 if one > zero else 0
        if total - before <= 1e-9 * len(rows):
            break
        before = total
    for label in present:
        label_of[label] = -1
    return side


@njit(nogil=True, cache=True)
def _separator(
    rows: Any, side: Any, x: Any, column_of: Any, cost: float, steps: int, tol: float, rng: Any
) -> Any:
    """Learn the sides; return the columns that occur in these rows, and their weights followed by
    the bias.
    """
    columns = number(rows, x, column_of)
    d = len(columns)
    starts = np.zeros(d + 2, np.int64)
    for row in rows:
        for p in range(x.starts[row], x.starts[row + 1]):
            starts[column_of[x.columns[p]] + 1] += 1
    starts[d + 1] = len(rows)
    starts = np.cumsum(starts)
    entry_row, entry_value = np.empty(starts[-1], np.int32), np.empty(starts[-1], np.float32)
    fill = starts[:-1].copy()
    for at, row in enumerate(rows):
        for p in range(x.starts[row], x.starts[row + 1]):
            column = column_of[x.columns[p]]
            entry_row[fill[column]], entry_value[fill[column]] = at, x.values[p]
            fill[column] += 1
        entry_row[fill[d]], entry_value[fill[d]] = at, 1.0
        fill[d] += 1
    for column in columns:
        column_of[column] = -1
    sign = 2.0 * side - 1.0
    share = side.sum() / len(rows)
    # Examples of the smaller side cost more, so that neither side is ignored.
    costs = np.where(side == 1, cost / share, cost / (1.0 - share))
    return columns, l1_fit(starts, entry_row, entry_value, sign, costs, steps, tol, rng)


@njit(nogil=True, cache=True)
def _average(reached: Any, leaves: Any, n_labels: int, labels: Any, best: Any) -> None:
    """Find the best labels of each row by the mean of its leaves; ``reached`` has a row for each
    tree.
    """
    n_trees, n = reached.shape
    scores = np.zeros(n_labels, np.float32)
    touched = np.empty(256, np.int32)
    for row in range(n):
        n_touched = 0
        for tree in range(n_trees):
            for p in range(
                leaves.starts[reached[tree, row]], leaves.starts[reached[tree, row] + 1]
            ):
                label = leaves.columns[p]
                if scores[label] == 0.0:
                    touched = room_for(touched, n_touched + 1)
                    touched[n_touched] = label
                    n_touched += 1
                scores[label] += leaves.values[p] / np.float32(n_trees)
        keep_top(touched[:n_touched], scores, labels[row], best[row])
        scores[touched[:n_touched]] = 0.0
