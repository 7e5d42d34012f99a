"""Probability thresholds with the best F1, learned from the candidates of held-out examples."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from rembrandt.scorers.protocol import Array, Labels

STEPS = 128  # thresholds that are compared
PRIOR = 5.0  # true examples of an average label that are added to each label's own


@dataclass(frozen=True)
class Pairs:
    """Pairs of a held-out row and a candidate label, with its probability and whether it is
    true.
    """

    labels: Labels
    likely: Array
    right: Array
    true_counts: Array  # of every label in the held-out rows


def best_threshold(pairs: Pairs) -> float:
    """Return the threshold with the best micro-averaged F1."""
    grid, found, predicted = _curves(pairs, np.zeros_like(pairs.labels), 1)
    return float(grid[_f1(found, predicted, pairs.true_counts.sum()).argmax()])


def label_thresholds(pairs: Pairs) -> Array:
    """Return the threshold with the best F1 of each label, smoothed by examples of an average
    label.
    """
    grid, found, predicted = _curves(pairs, pairs.labels, len(pairs.true_counts))
    true = pairs.true_counts[:, None]
    share = PRIOR / max(1, true.sum())
    smoothed = _f1(
        found + share * found.sum(axis=0), predicted + share * predicted.sum(axis=0), true + PRIOR
    )
    return np.asarray(grid[smoothed.argmax(axis=1)])


def summary(threshold: float | Array) -> Any:
    """Return one threshold as it is, and those of all labels as the smallest, the median and the
    largest.
    """
    if isinstance(threshold, float | int):
        return float(threshold)
    values = {
        "smallest": np.min(threshold),
        "median": np.median(threshold),
        "largest": np.max(threshold),
    }
    return {name: float(value) for name, value in values.items()}


def _curves(pairs: Pairs, groups: Array, n_groups: int) -> tuple[Array, Array, Array]:
    """Return thresholds, and the true positives and predicted positives of each group at each
    threshold.
    """
    grid = np.array([0.5])
    if pairs.right.any():
        grid = np.unique(np.quantile(pairs.likely[pairs.right], np.linspace(0, 1, STEPS)))
    step = np.searchsorted(grid, pairs.likely, side="right") - 1
    kept = step >= 0
    cell = (groups * len(grid) + step)[kept]

    def above(weights: Array | None) -> Array:
        counts = np.bincount(cell, weights, n_groups * len(grid)).reshape(n_groups, len(grid))
        return counts[:, ::-1].cumsum(axis=1)[:, ::-1]

    return grid, above(pairs.right[kept].astype(np.float64)), above(None)


def _f1(found: Array, predicted: Array, true: Any) -> Array:
    return np.asarray(2 * found / np.maximum(predicted + true, 1e-12))
