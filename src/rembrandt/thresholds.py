"""Probability thresholds with the best F1, learned from the candidates of held-out examples."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from rembrandt.linalg import Array
from rembrandt.parts.protocol import Labels

# Thresholds that are compared.
N_THRESHOLDS = 128
# True examples of an average label that are added to each label's own.
PRIOR_EXAMPLES = 5.0
# Keeps a division by a sum of counts finite.
SMALLEST_COUNT = 1e-12


@dataclass(frozen=True)
class Pairs:
    """Pairs of a held-out row and a candidate label, with its probability and whether it is
    true.
    """

    labels: Labels
    likely: Array
    right: Array
    true_counts: Array  # of every label in the held-out rows


@dataclass(frozen=True)
class Curves:
    """Counts at each threshold, for each group of labels (groups × thresholds)."""

    thresholds: Array
    n_true_positives: Array
    n_predicted: Array


def best_threshold(pairs: Pairs) -> float:
    """Return the threshold with the best micro-averaged F1."""
    one_group = np.zeros_like(pairs.labels)
    curves = _curves(pairs, one_group, 1)
    n_true = pairs.true_counts.sum()
    f1 = _f1(curves.n_true_positives, curves.n_predicted, n_true)
    return float(curves.thresholds[f1.argmax()])


def label_thresholds(pairs: Pairs) -> Array:
    """Return the threshold with the best F1 of each label, smoothed by examples of an average
    label.
    """
    curves = _curves(pairs, pairs.labels, len(pairs.true_counts))
    n_true = pairs.true_counts[:, None]
    share = PRIOR_EXAMPLES / max(1, n_true.sum())
    smoothed = _f1(
        curves.n_true_positives + share * curves.n_true_positives.sum(axis=0),
        curves.n_predicted + share * curves.n_predicted.sum(axis=0),
        n_true + PRIOR_EXAMPLES,
    )
    best = smoothed.argmax(axis=1)
    return np.asarray(curves.thresholds[best])


def summary(threshold: float | Array) -> Any:
    """Return one threshold as it is, and those of all labels as the smallest, the median and the
    largest.
    """
    if isinstance(threshold, float | int):
        return float(threshold)
    return {
        "smallest": float(np.min(threshold)),
        "median": float(np.median(threshold)),
        "largest": float(np.max(threshold)),
    }


def _curves(pairs: Pairs, groups: Array, n_groups: int) -> Curves:
    """Count true positives and predicted positives of each group at each threshold."""
    thresholds = np.array([0.5])
    if pairs.right.any():
        quantiles = np.linspace(0, 1, N_THRESHOLDS)
        of_right = pairs.likely[pairs.right]
        thresholds = np.unique(np.quantile(of_right, quantiles))
    n_thresholds = len(thresholds)
    step = np.searchsorted(thresholds, pairs.likely, side="right") - 1
    is_counted = step >= 0
    cell = (groups * n_thresholds + step)[is_counted]

    def count_above(weights: Array | None) -> Array:
        counts = np.bincount(cell, weights, n_groups * n_thresholds)
        by_group = counts.reshape(n_groups, n_thresholds)
        from_the_highest = by_group[:, ::-1].cumsum(axis=1)
        return from_the_highest[:, ::-1]

    is_right = pairs.right[is_counted].astype(np.float64)
    return Curves(
        thresholds=thresholds,
        n_true_positives=count_above(is_right),
        n_predicted=count_above(None),
    )


def _f1(n_true_positives: Array, n_predicted: Array, n_true: Any) -> Array:
    total = np.maximum(n_predicted + n_true, SMALLEST_COUNT)
    return np.asarray(2 * n_true_positives / total)
