"""What each feature adds to the score that label trees give a label, exactly.

A tree scores a label by ``exp f`` with ``f = −Σ max(0, 1 − s)^p`` over the nodes of its path, and every margin
``s = xᵀw + b`` is a sum over features. Between the empty row and the row, a function of one number changes by its
secant slope times the change of the number:

    exp f − exp f₀ = E (f − f₀),    f − f₀ = Σ m (s − b),

where ``f₀`` belongs to the empty row, and ``E`` and ``m`` are the slopes. So feature x of a row adds ``E Σ m w x`` over
the path, with no remainder.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy import sparse

from rembrandt.linalg.sparse import as_csr, normalize_rows
from rembrandt.scorers.explanations import Contributions, secant
from rembrandt.scorers.protocol import Labels


def explain_trees(trees: Iterable[Any], row: sparse.csr_array, labels: Labels) -> Contributions:
    """Return what each stored entry of ``row`` (1 × d) adds to the mean score of the trees for ``labels``."""
    unit = normalize_rows(as_csr(row, np.float32)).astype(np.float64)
    bases, values = zip(*(explain_tree(tree, unit, labels) for tree in trees), strict=True)
    return Contributions(np.mean(bases, axis=0), np.mean(values, axis=0))


def explain_tree(tree: Any, unit: sparse.csr_array, labels: Labels) -> Contributions:
    """Return what each stored entry of a row of unit length adds to the score of one tree for ``labels``."""
    values = np.zeros((unit.nnz, len(labels)))
    empty, full = np.zeros(len(labels)), np.zeros(len(labels))  # f of the empty row and of the row
    nodes = labels
    for level in reversed(tree.levels):
        added = level.weights[nodes][:, unit.indices].toarray().T * unit.data[:, None]
        bias, change = level.bias[nodes].astype(np.float64), added.sum(axis=0)
        before, after = (-(np.maximum(0.0, 1.0 - margin) ** tree.power) for margin in (bias, bias + change))
        derivative = tree.power * np.maximum(0.0, 1.0 - bias) ** (tree.power - 1)
        values += added * secant(before, after, change, derivative)
        empty += before
        full += after
        nodes = level.parent[nodes]
    slope = secant(np.exp(empty), np.exp(full), full - empty, np.exp(full))
    return Contributions(np.exp(empty), values * slope)
