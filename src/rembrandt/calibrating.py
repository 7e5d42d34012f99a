"""Probabilities that mean what they say, and thresholds for F1: learnt on held-out training rows.

The recipe is fitted to most rows and asked about the rest. Its scores there, and which of them were right, give a
rising map from score to probability and the probability from which on a label is worth predicting. Both then go with
the model that is fitted to all rows.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rembrandt.data.splits import draw_rows
from rembrandt.decoders.monotone import MonotoneMap, fit_monotone
from rembrandt.fitting import Labelled, Recipe, fit_model, rank_limit
from rembrandt.linalg.blocks import spans
from rembrandt.metrics import calibration_error, reliability, top_k
from rembrandt.metrics.hits import hits
from rembrandt.model.model import Model
from rembrandt.progress import Report, silent

Array = NDArray[Any]
Threshold = float | Literal["micro", "macro"]

FEWEST = 100  # rows: with fewer a held-out part says nothing
HELD_OUT, MOST = 1 / 6, 3000  # rows held out: this share, and no more than that
ENTRIES = 1 << 28  # scores looked at, at most
BLOCK = 1 << 24  # scores at a time
TOP = 50  # best labels of each row that are looked at
OTHERS = 50  # and drawn from the rest, each for many
STEPS = 128  # thresholds that are compared
PRIOR = 5.0  # true examples of an average label that each label's own are added to
SHOWN = 5  # best labels of each row by which reliability is judged


@dataclass(frozen=True)
class Pairs:
    """Labels of held-out rows with their scores, whether they were right, and for how many such each stands."""

    rows: Array
    labels: Array
    scores: Array
    right: Array
    weights: Array
    shown: Array  # among the best few of its row
    true_counts: Array  # of every label in the held-out rows

    def of_rows(self, chosen: Array) -> "Pairs":
        each = {n: getattr(self, n)[chosen] for n in ("rows", "labels", "scores", "right", "weights", "shown")}
        return replace(self, **each)


@dataclass(frozen=True)
class Calibration:
    """What is learnt from held-out rows; None where it was not asked for or there were too few."""

    map: MonotoneMap | None
    threshold: float | Array
    facts: dict[str, Any]

    def applied(self, model: Model) -> Model:
        settings = model.settings | {"calibration": self.facts}
        return replace(model, calibration=self.map, threshold=self.threshold, settings=settings)


def calibrate(
    data: Labelled, recipe: Recipe, probabilities: bool, threshold: Threshold, report: Report = silent
) -> Calibration:
    """A map where ``probabilities`` are asked for, and the threshold; costs one more fit, to five sixths of rows."""
    fixed = None if isinstance(threshold, str) else float(threshold)
    n = data.Y.shape[0]
    if not (probabilities or fixed is None) or n < FEWEST:
        return Calibration(None, 0.5 if fixed is None else fixed, {})
    most = int(np.clip(ENTRIES // data.Y.shape[1], 200, MOST))
    fit, held = (data.rows(part) for part in draw_rows(n, HELD_OUT, recipe.embedding.seed + 2, most=most))
    rank = min(recipe.embedding.n_components, rank_limit(fit))
    embedding = replace(recipe.embedding, n_components=rank, at_most=True)
    model = fit_model(fit, replace(recipe, embedding=embedding, growable=False), report)
    pairs = held_out_pairs(model, held, recipe.embedding.seed, report)
    facts: dict[str, Any] = {"n_examples": held.Y.shape[0]}
    found = None
    likely = model.likelihood(pairs.scores)
    if probabilities:
        found = fit_monotone(pairs.scores, pairs.right, pairs.weights)
        facts |= {"error_before": _error(likely, pairs), "error_after": _error(_crossed(pairs), pairs)}
        likely = found(pairs.scores)
    values: float | Array = best_threshold(pairs, likely) if fixed is None else fixed
    if threshold == "macro":
        values = label_thresholds(pairs, likely)
    return Calibration(found, values, facts)


def held_out_pairs(model: Model, held: Labelled, seed: int, report: Report = silent) -> Pairs:
    """The best labels of each row, and some of the others, each for its share of them."""
    rng = np.random.default_rng(seed)
    n, c = held.Y.shape
    top = c if c <= TOP + OTHERS else TOP
    drawn = 0 if top == c else OTHERS
    parts = []
    for block in spans(n, max(1, BLOCK // c)):
        report("calibrating", block.start, n)
        scores = model.raw(held.X[block])
        best, _ = top_k(scores, top)
        others = np.sort(rng.integers(0, c, (len(best), drawn)), axis=1)
        again = np.zeros(others.shape, dtype=bool)
        again[:, 1:] = others[:, 1:] == others[:, :-1]
        others[again | (others[:, :, None] == best[:, None, :]).any(axis=2)] = -1
        share = (c - top) / np.maximum(1, (others >= 0).sum(axis=1, keepdims=True))
        labels = np.hstack([best, others])
        weights = np.hstack([np.ones(best.shape), np.broadcast_to(share, others.shape)])
        right = np.hstack([hits(held.Y[block], best), hits(held.Y[block], others)])
        shown = np.broadcast_to(np.arange(labels.shape[1]) < SHOWN, labels.shape)
        rows = np.broadcast_to(np.arange(block.start, block.stop)[:, None], labels.shape)
        given = labels >= 0
        values = np.take_along_axis(scores, np.maximum(labels, 0), axis=1)
        parts.append([each[given] for each in (rows, labels, values, right, weights, shown)])
    report("calibrating", n, n)
    rows, labels, values, right, weights, shown = (np.concatenate(each) for each in zip(*parts, strict=True))
    return Pairs(rows, labels, values, right, weights, shown, np.bincount(held.Y.indices, minlength=c))


def best_threshold(pairs: Pairs, likely: Array) -> float:
    """The probability from which on labels are predicted for the best F1 over all labels together."""
    grid, found, guessed = _curves(pairs, likely, np.zeros_like(pairs.labels), 1)
    return float(grid[_f1(found, guessed, pairs.true_counts.sum()).argmax()])


def label_thresholds(pairs: Pairs, likely: Array) -> Array:
    """The same of every label alone, its own examples added to those of an average label: rare ones have too few."""
    c = len(pairs.true_counts)
    grid, found, guessed = _curves(pairs, likely, pairs.labels, c)
    true = pairs.true_counts[:, None]
    share = PRIOR / max(1, true.sum())
    total = _f1(found + share * found.sum(axis=0), guessed + share * guessed.sum(axis=0), true + PRIOR)
    return grid[total.argmax(axis=1)]


def _curves(pairs: Pairs, likely: Array, groups: Array, n_groups: int) -> tuple[Array, Array, Array]:
    """Thresholds, and how many are right and how many are predicted in each group at each of them."""
    grid = np.array([0.5])
    if pairs.right.any():
        grid = np.unique(np.quantile(likely[pairs.right], np.linspace(0, 1, STEPS)))
    place = np.searchsorted(grid, likely, side="right") - 1
    kept = place >= 0
    cell = (groups * len(grid) + place)[kept]

    def above(weights: Array) -> Array:
        counts = np.bincount(cell, weights[kept], n_groups * len(grid)).reshape(n_groups, len(grid))
        return counts[:, ::-1].cumsum(axis=1)[:, ::-1]

    return grid, above(pairs.weights * pairs.right), above(pairs.weights)


def _f1(found: Array, guessed: Array, true: Any) -> Array:
    return 2 * found / np.maximum(guessed + true, 1e-12)


def _crossed(pairs: Pairs) -> Array:
    """Probabilities by maps that have not seen the rows they are asked about."""
    out = np.empty(len(pairs.scores))
    for half in (0, 1):
        own = pairs.rows % 2 == half
        other = pairs.of_rows(~own)
        out[own] = fit_monotone(other.scores, other.right, other.weights)(pairs.scores[own].astype(np.float64))
    return out


def _error(likely: Array, pairs: Pairs) -> float:
    """The mean distance between what the best labels were given and what came."""
    return calibration_error(reliability(np.clip(likely[pairs.shown], 0, 1), pairs.right[pairs.shown]))
