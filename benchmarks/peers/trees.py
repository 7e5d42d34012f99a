"""Trees of linear separators: routing rows to leaves, and the labels of leaves."""

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from benchmarks.peers.arrays import Rows, room_for


class Tree(NamedTuple):
    """Nodes in the order of their creation. A leaf has no children, an inner node no labels."""

    child: NDArray[
        np.int32
    ]  # (nodes, 2): children of the negative and the positive side, -1 in a leaf
    bias: NDArray[np.float32]
    weight_starts: NDArray[np.int64]
    weight_columns: NDArray[np.int32]
    weights: NDArray[np.float32]
    label_starts: NDArray[np.int64]
    labels: NDArray[np.int32]
    shares: NDArray[np.float32]


def join(trees: list[Tree]) -> tuple[Rows, NDArray[np.int64]]:
    """Return the labels of the nodes of all trees in one table, and the first row of each tree."""
    counts = np.concatenate([np.diff(tree.label_starts) for tree in trees])
    labels = np.concatenate([tree.labels for tree in trees])
    shares = np.concatenate([tree.shares for tree in trees])
    offsets = np.cumsum([0] + [len(tree.child) for tree in trees[:-1]])
    return Rows(np.concatenate([[0], np.cumsum(counts)]), labels, shares), offsets


@njit(nogil=True, cache=True)
def number(rows: Any, table: Any, number_of: Any) -> Any:
    """Number the columns that occur in these rows: fills ``number_of`` and returns the columns by
    number.
    """
    found, n_found = np.empty(256, np.int32), 0
    for row in rows:
        for p in range(table.starts[row], table.starts[row + 1]):
            column = table.columns[p]
            if number_of[column] < 0:
                found = room_for(found, n_found + 1)
                found[n_found], number_of[column] = column, n_found
                n_found += 1
    return found[:n_found]


@njit(nogil=True, cache=True)
def divide(rows: Any, x: Any, columns: Any, w: Any, dense: Any) -> int:
    """Move the rows on the positive side of the separator to the end, in place; return their
    number.
    """
    dense[columns] = w[:-1]
    low, high = 0, len(rows)
    while low < high:
        row = rows[low]
        score = w[-1]
        for p in range(x.starts[row], x.starts[row + 1]):
            score += x.values[p] * dense[x.columns[p]]
        if score > 0.0:
            high -= 1
            rows[low], rows[high] = rows[high], row
        else:
            low += 1
    dense[columns] = 0.0
    return len(rows) - high


@njit(nogil=True, cache=True)
def label_shares(rows: Any, y: Any, label_of: Any, limit: int) -> Any:
    """Return the most frequent labels of these rows, and the fraction of the rows that have
    each.
    """
    present = number(rows, y, label_of)
    share = np.zeros(len(present), np.float32)
    for row in rows:
        for p in range(y.starts[row], y.starts[row + 1]):
            share[label_of[y.columns[p]]] += np.float32(1.0 / len(rows))
    for label in present:
        label_of[label] = -1
    best = np.argsort(-share)[:limit]
    return present[best], share[best]


@njit(nogil=True, cache=True)
def reach(x: Any, n_features: int, tree: Any, reached: Any) -> None:
    """Find the leaf of every row.

    Rows are routed node by node, so that the weights of a node are expanded once for all its rows.
    """
    n = len(reached)
    order = np.arange(n)
    dense = np.zeros(n_features)
    first, last = np.zeros(len(tree.child), np.int64), np.zeros(len(tree.child), np.int64)
    last[0] = n
    for node in range(len(tree.child)):  # children come after their parents
        rows = order[first[node] : last[node]]
        if tree.child[node, 0] < 0:
            reached[rows] = node
        elif len(rows) > 0:
            span = slice(tree.weight_starts[node], tree.weight_starts[node + 1])
            w = np.append(tree.weights[span], tree.bias[node])
            middle = last[node] - divide(rows, x, tree.weight_columns[span], w, dense)
            negative, positive = tree.child[node]
            first[negative], last[negative] = first[node], middle
            first[positive], last[positive] = middle, last[node]
