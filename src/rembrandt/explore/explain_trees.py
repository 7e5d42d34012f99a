"""What each feature adds to the sparse part of a score, exactly.

A tree's probability of a label is ``exp f`` with ``f = −Σ max(0, 1 − s)^p`` over the nodes of its path, and each margin
``s = xᵀw + b`` is a sum over features. A function of one number changes by its secant times the change of the number:

    exp f − exp f₀ = E (f − f₀),    f − f₀ = Σ m (s − b),

where ``f₀`` is what the empty row has and ``E`` and ``m`` are the slopes between the two rows. So feature x of a row
adds ``E Σ m w x`` over the path, and nothing is left over.
"""

from functools import reduce
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.decoders.forest import Forest
from rembrandt.decoders.tree import LabelTree
from rembrandt.explore.explanation import Part
from rembrandt.linalg.sparse import as_csr, normalize_rows

Array = NDArray[Any]
NEAR = 1e-6  # a change below this is no change: the slope is the derivative


def explain_forest(forest: Forest, rows: sparse.csr_array, labels: NDArray[np.int64]) -> Part:
    """The mean of the trees' probabilities of ``labels`` (n × m), as a sum over the features of ``rows``."""
    unit = normalize_rows(as_csr(rows, np.float32)).astype(np.float64)
    parts = [explain_tree(tree, unit, labels) for tree in forest.trees]
    return Part(np.mean([part.base for part in parts], axis=0), np.mean([part.contributions for part in parts], axis=0))


def explain_tree(tree: LabelTree, unit: sparse.csr_array, labels: NDArray[np.int64]) -> Part:
    """One tree's probability of ``labels``, for rows of length one."""
    nodes = [labels]  # of every level, from the labels up
    for level in reversed(tree.levels[1:]):
        nodes.append(level.parent[nodes[-1]])
    path = list(zip(reversed(tree.levels), nodes, strict=True))
    place = np.full(unit.shape[1], -1, dtype=np.int64)
    owner = np.repeat(np.arange(unit.shape[0]), np.diff(unit.indptr))  # the row of every entry
    end, start = np.zeros(labels.shape), np.zeros(labels.shape)  # f of the row and of the empty row
    added, slopes = [], []
    for level, node in path:
        weights = level.weights
        entries = np.zeros((unit.nnz, labels.shape[1]))
        own = (unit.indptr, unit.indices, unit.data)
        _products(*own, node, weights.indptr, weights.indices, weights.data, place, entries)
        moved = np.zeros(labels.shape)
        np.add.at(moved, owner, entries)
        bias = level.bias[node].astype(np.float64)
        first, second = _score(bias, tree.power), _score(bias + moved, tree.power)
        added.append(entries)
        slopes.append(_secant(first, second, moved, bias, tree.power))
        start += first
        end += second
    moved = end - start
    flat = np.abs(moved) < NEAR
    growth = np.where(flat, np.exp(end), (np.exp(end) - np.exp(start)) / np.where(flat, 1.0, moved))
    parts = ((growth * slope)[owner] * entries for slope, entries in zip(slopes, added, strict=True))
    return Part(np.exp(start), reduce(np.add, parts))


def _score(margin: Array, power: float) -> Array:
    return -(np.maximum(0.0, 1.0 - margin) ** power)


def _secant(first: Array, second: Array, moved: Array, at: Array, power: float) -> Array:
    """The slope between two scores whose margins are ``moved`` apart; the derivative where they are the same."""
    near = np.abs(moved) < NEAR
    derivative = power * np.maximum(0.0, 1.0 - at) ** (power - 1)
    return np.where(near, derivative, (second - first) / np.where(near, 1.0, moved))


@njit(nogil=True, cache=True)
def _products(
    indptr: Any, indices: Any, data: Any, nodes: Any, at: Any, features: Any, weights: Any, place: Any, out: Any
) -> None:
    """``w x`` of each entry of a row and each of its nodes. ``place`` is work space, −1 for each feature, left so."""
    for row in range(nodes.shape[0]):
        for x in range(indptr[row], indptr[row + 1]):
            place[indices[x]] = x
        for j in range(nodes.shape[1]):
            for t in range(at[nodes[row, j]], at[nodes[row, j] + 1]):
                x = place[features[t]]
                if x >= 0:
                    out[x, j] = weights[t] * data[x]
        for x in range(indptr[row], indptr[row + 1]):
            place[indices[x]] = -1
