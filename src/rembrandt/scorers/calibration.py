"""Calibrated probabilities and thresholds for F1, learned from the scores of held-out examples."""

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from rembrandt.linalg.blocks import Block
from rembrandt.metrics import calibration_error, reliability
from rembrandt.scorers.protocol import Array

KNOTS = 256  # of a map, at most
LEAST, MOST = 1e-9, 1 - 1e-6  # no probability is certain
STEPS = 128  # thresholds that are compared
PRIOR = 5.0  # true examples of an average label that are added to each label's own


@dataclass(frozen=True)
class MonotoneMap:
    """A non-decreasing, piecewise linear map from scores to probabilities, constant beyond its knots."""

    scores: Array  # increasing
    probabilities: Array  # non-decreasing

    def __call__(self, values: Block) -> Block:
        xp = array_namespace(values)
        x, y = (
            xp.asarray(each, dtype=values.dtype, device=values.device) for each in (self.scores, self.probabilities)
        )
        right = xp.clip(xp.searchsorted(x, values), 1, len(self.scores) - 1)
        x0, y0 = x[right - 1], y[right - 1]
        fraction = xp.clip((values - x0) / (x[right] - x0), 0.0, 1.0)
        return y0 + fraction * (y[right] - y0)


@dataclass(frozen=True)
class Pairs:
    """Pairs of a held-out row and a label, with the score and whether the label is true."""

    rows: Array
    labels: Array
    scores: Array
    right: Array
    weights: Array  # number of pairs that each one represents
    shown: Array  # whether the label is among the best few of its row
    true_counts: Array  # of every label in the held-out rows

    def take(self, chosen: Array) -> "Pairs":
        """Return some of the pairs."""
        own = [f.name for f in fields(self) if f.name != "true_counts"]
        return replace(self, **{name: getattr(self, name)[chosen] for name in own})

    def calibration_error(self, probabilities: Array) -> float:
        """Return the expected calibration error over the best labels of each row."""
        likely = np.clip(probabilities[self.shown], 0, 1)
        return float(calibration_error(reliability(likely, self.right[self.shown])))


def fit_monotone(pairs: Pairs) -> MonotoneMap:
    """Fit an isotonic regression of correctness on the score, with at most a few hundred knots."""
    from sklearn.isotonic import IsotonicRegression

    fitted = IsotonicRegression(y_min=LEAST, y_max=MOST, out_of_bounds="clip")
    fitted.fit(pairs.scores, pairs.right, pairs.weights)
    x, y = (np.asarray(each, dtype=np.float64) for each in (fitted.X_thresholds_, fitted.y_thresholds_))
    if len(x) > KNOTS:
        kept = np.unique(np.linspace(0, len(x) - 1, KNOTS).astype(np.int64))
        x, y = x[kept], y[kept]
    distinct = np.append(True, np.diff(x.astype(np.float32)) > 0)  # models may be in single precision
    x, y = x[distinct], y[distinct]
    if len(x) < 2:
        x, y = np.array([x[0], x[0] + 1.0]), np.array([y[0], y[0]])
    return MonotoneMap(x, y)


def cross_fitted(pairs: Pairs) -> Array:
    """Return probabilities by maps that were fitted to the other half of the rows."""
    out = np.empty(len(pairs.scores))
    for half in (0, 1):
        own = pairs.rows % 2 == half
        out[own] = fit_monotone(pairs.take(~own))(pairs.scores[own].astype(np.float64))
    return out


def best_threshold(pairs: Pairs, likely: Array) -> float:
    """Return the probability threshold with the best micro-averaged F1."""
    grid, found, predicted = _curves(pairs, likely, np.zeros_like(pairs.labels), 1)
    return float(grid[_f1(found, predicted, pairs.true_counts.sum()).argmax()])


def label_thresholds(pairs: Pairs, likely: Array) -> Array:
    """Return the threshold with the best F1 of each label, smoothed by examples of an average label."""
    grid, found, predicted = _curves(pairs, likely, pairs.labels, len(pairs.true_counts))
    true = pairs.true_counts[:, None]
    share = PRIOR / max(1, true.sum())
    smoothed = _f1(found + share * found.sum(axis=0), predicted + share * predicted.sum(axis=0), true + PRIOR)
    return np.asarray(grid[smoothed.argmax(axis=1)])


def _curves(pairs: Pairs, likely: Array, groups: Array, n_groups: int) -> tuple[Array, Array, Array]:
    """Return thresholds, and the true positives and predicted positives of each group at each threshold."""
    grid = np.array([0.5])
    if pairs.right.any():
        grid = np.unique(np.quantile(likely[pairs.right], np.linspace(0, 1, STEPS)))
    step = np.searchsorted(grid, likely, side="right") - 1
    kept = step >= 0
    cell = (groups * len(grid) + step)[kept]

    def above(weights: Array) -> Array:
        counts = np.bincount(cell, weights[kept], n_groups * len(grid)).reshape(n_groups, len(grid))
        return counts[:, ::-1].cumsum(axis=1)[:, ::-1]

    return grid, above(pairs.weights * pairs.right), above(pairs.weights)


def _f1(found: Array, predicted: Array, true: Any) -> Array:
    return np.asarray(2 * found / np.maximum(predicted + true, 1e-12))
