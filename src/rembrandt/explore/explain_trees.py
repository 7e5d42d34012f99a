"""What each feature adds to the score that label trees give a label, exactly.

A tree scores a label by ``exp f`` with ``f = −Σ max(0, 1 − s)^p`` over the nodes of its path, and every margin
``s = xᵀw + b`` is a sum over features. Between the empty row and the row, a function of one number changes by its
secant slope times the change of the number:

    exp f − exp f₀ = E (f − f₀),    f − f₀ = Σ m (s − b),

where ``f₀`` belongs to the empty row, and ``E`` and ``m`` are the slopes. So feature x of a row adds ``E Σ m w x`` over
the path, with no remainder.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.decoders.forest import Forest
from rembrandt.decoders.tree import LabelTree
from rembrandt.explore.explanation import Contributions
from rembrandt.linalg.sparse import as_csr, normalize_rows

Array = NDArray[Any]
_NEAR = 1e-6  # below this change of the argument, a slope is the derivative


def explain_trees(forest: Forest, row: sparse.csr_array, labels: NDArray[np.int64]) -> Contributions:
    """Return what each stored entry of ``row`` (1 × d) adds to the mean score of the trees for ``labels``."""
    unit = normalize_rows(as_csr(row, np.float32)).astype(np.float64)
    parts = [_explain_tree(tree, unit, labels) for tree in forest.trees]
    values, base = (np.mean(each, axis=0) for each in zip(*parts, strict=True))
    return Contributions(values, base)


def _explain_tree(tree: LabelTree, unit: sparse.csr_array, labels: NDArray[np.int64]) -> Contributions:
    values = np.zeros((unit.nnz, len(labels)))
    end, start = np.zeros(len(labels)), np.zeros(len(labels))  # f of the row and of the empty row
    nodes = labels
    for level in reversed(tree.levels):
        added = level.weights[nodes][:, unit.indices].toarray().T * unit.data[:, None]
        bias, change = level.bias[nodes].astype(np.float64), added.sum(axis=0)
        empty, full = (-(np.maximum(0.0, 1.0 - margin) ** tree.power) for margin in (bias, bias + change))
        derivative = tree.power * np.maximum(0.0, 1.0 - bias) ** (tree.power - 1)
        values += added * secant(empty, full, change, derivative)
        start += empty
        end += full
        nodes = level.parent[nodes]
    return Contributions(values * secant(np.exp(start), np.exp(end), end - start, np.exp(end)), np.exp(start))


def secant(first: Array, second: Array, change: Array, derivative: Array) -> Array:
    """Return the slope between two values whose arguments differ by ``change``; the derivative where that is zero."""
    near = np.abs(change) < _NEAR
    return np.where(near, derivative, (second - first) / np.where(near, 1.0, change))
