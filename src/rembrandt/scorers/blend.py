"""The blend: from the scores of several scorers to one probability, by a few numbers learned on
held-out rows.

The log-odds of a label for a row are

    bias + Σ over scorers of (weights · features of its score) + weight · log(1 + examples of the
    label)

The features of a score are its likelihood, the log-odds of that, how far it is below the best of
the row, and its reciprocal rank. The last two compare it with the row: they come from the scorer's
own list of a fixed length, which is made before anything restricts the labels, so a probability
does not depend on what was asked for. A scorer that would have to score all labels to propose some
ranks what the others list.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rembrandt.errors import StorageError
from rembrandt.linalg.ranking import look_up, rank
from rembrandt.scorers.protocol import Array, Labels, Scorer
from rembrandt.storage.arrays import finite

FEATURES = 4  # likelihood, its log-odds, distance from the best of the row, reciprocal rank
LENGTH = 10  # of the list of a scorer
LONG = 50  # labels of each scorer that may be predicted for a row, at least
SMALLEST = 1e-4  # likelihood, and distance of it from 1, below which differences say nothing
LARGEST = 5.0  # absolute likelihood of least-squares scores
PENALTY = 1.0  # on the weights of standardised features
FEWEST_TRUE = 20  # true labels that weights are learned from
ITERATIONS, TOLERANCE = 50, 1e-8


@dataclass(frozen=True)
class Candidates:
    """Labels of some rows with the features of their scores."""

    labels: Labels  # n × m, ascending, -1 last
    features: dict[str, Array]  # n × m × 4 of each scorer
    log_counts: Array  # n × m

    @property
    def given(self) -> Array:
        """Which entries are labels."""
        return np.asarray(self.labels >= 0)

    @property
    def listed(self) -> Array:
        """Which labels are in the list of a scorer."""
        return np.asarray(np.any([own[..., 3] > 0 for own in self.features.values()], axis=0))

    def take(self, rows: Array) -> "Candidates":
        """Return the candidates of some rows."""
        features = {name: own[rows] for name, own in self.features.items()}
        return Candidates(self.labels[rows], features, self.log_counts[rows])

    def of(self, names: Iterable[str]) -> "Candidates":
        """Return the same labels with the features of some scorers."""
        return replace(self, features={name: self.features[name] for name in names})

    def short(self) -> "Candidates":
        """Return the labels that are in the list of a scorer."""
        return replace(self, labels=np.where(self.listed, self.labels, -1))

    @classmethod
    def joined(cls, parts: list["Candidates"]) -> "Candidates":
        """Stack blocks of rows whose widths may differ."""
        width = max(part.labels.shape[1] for part in parts)

        def stacked(blocks: list[Array], fill: int = 0) -> Array:
            padded = [
                np.pad(
                    b,
                    [(0, 0), (0, width - b.shape[1]), *[(0, 0)] * (b.ndim - 2)],
                    constant_values=fill,
                )
                for b in blocks
            ]
            return np.concatenate(padded)

        features = {
            name: stacked([part.features[name] for part in parts]) for name in parts[0].features
        }
        return cls(
            stacked([p.labels for p in parts], -1), features, stacked([p.log_counts for p in parts])
        )


@dataclass(frozen=True)
class Blend:
    """Weights of the features of each scorer and of the label count, and the bias."""

    weights: dict[str, tuple[float, ...]]
    count: float
    bias: float

    @classmethod
    def fixed(cls, names: Iterable[str]) -> "Blend":
        """Return the mean log-odds of the scorers, for when there are no rows to learn from."""
        chosen = list(names)
        return cls(
            {name: (1e-3 / len(chosen), 1 / len(chosen), 0.0, 0.0) for name in chosen}, 0.0, 0.0
        )

    def log_odds(self, candidates: Candidates) -> Array:
        """Return the log-odds of the candidates (n × m); -inf where there is no label."""
        total: Any = np.float32(self.bias) + np.float32(self.count) * candidates.log_counts
        for name, weights in self.weights.items():
            total = total + candidates.features[name] @ np.array(weights, dtype=np.float32)
        return np.where(candidates.given, total, np.float32(-np.inf))

    def to_json(self) -> dict[str, Any]:
        """Return the blend as JSON."""
        return {
            "weights": {name: list(w) for name, w in self.weights.items()},
            "count": self.count,
            "bias": self.bias,
        }

    @classmethod
    def from_json(cls, facts: dict[str, Any]) -> "Blend":
        """Rebuild what `to_json` returned."""
        weights = {name: tuple(finite(w) for w in own) for name, own in facts["weights"].items()}
        if any(len(own) != FEATURES for own in weights.values()):
            raise StorageError(f"a blend has {FEATURES} weights for each scorer")
        return cls(weights, finite(facts["count"]), finite(facts["bias"]))


def collect(
    scorers: dict[str, Scorer],
    rows: dict[str, Any],
    log_counts: Array,
    more: int = 0,
    allowed: Labels | None = None,
    labels: Labels | None = None,
) -> Candidates:
    """Return the candidates of prepared rows: the union of the scorers' lists, scored by every
    scorer.

    ``more`` lengthens the lists, and with ``allowed`` they also have the best of these labels.
    ``labels`` (n × m, ascending, -1 last) are used instead.
    """
    proposing = [name for name, scorer in scorers.items() if scorer.proposes]
    lists = {name: scorers[name].top(rows[name], LENGTH) for name in proposing}
    common = union([found for found, _ in lists.values()])
    if labels is None:
        proposed = [common]
        if more > LENGTH:
            proposed += [scorers[name].top(rows[name], more)[0] for name in proposing]
        if allowed is not None:
            proposed += [
                scorers[name].top(rows[name], max(more, LENGTH), allowed)[0] for name in proposing
            ]
        labels = union(proposed) if len(proposed) > 1 else common
    features = {}
    for name, scorer in scorers.items():
        found, scores = lists.get(name) or rank(common, scorer.at(rows[name], common))
        known = np.full(labels.shape, np.nan, dtype=scores.dtype)
        look_up(labels, found, scores, known)
        unknown = np.isnan(known)
        known = np.where(unknown, scorer.at(rows[name], np.where(unknown, labels, -1)), known)
        likely = scorer.likelihood(rows[name], labels, known)
        best = scorer.likelihood(rows[name], found[:, :1], scores[:, :1])
        features[name] = features_of(likely, labels, found[:, :LENGTH], best)
    return Candidates(labels, features, log_counts[np.maximum(labels, 0)])


def log_odds(likelihood: Array) -> Array:
    """Return the logarithm of the odds, within the range in which differences say something."""
    inside = np.clip(likelihood, SMALLEST, 1 - SMALLEST)
    return np.asarray(np.log(inside) - np.log1p(-inside))


def features_of(likelihood: Array, labels: Labels, listed: Labels, best: Array) -> Array:
    """Return the features (n × m × 4) of the likelihoods of ``labels``, given the list of each row
    and its best.
    """
    out = np.empty((*labels.shape, FEATURES), dtype=np.float32)
    given = np.where(labels < 0, 0, np.clip(likelihood, -LARGEST, LARGEST))
    out[..., 0] = given
    out[..., 1] = log_odds(given)
    out[..., 2] = np.clip(best, -LARGEST, LARGEST) - given
    ranks = np.zeros(labels.shape, dtype=np.float32)
    reciprocal = (1 / np.arange(1, listed.shape[1] + 1)).astype(np.float32)
    look_up(labels, listed, np.tile(reciprocal, (len(listed), 1)), ranks)
    out[..., 3] = ranks
    return out


def fit_blend(candidates: Candidates, true: Array, multiclass: bool) -> Blend:
    """Learn the weights by penalised logistic regression over the listed candidates of held-out
    rows.

    With one label a row the candidates of a row compete with each other and with "none of them": a
    conditional logit. With few true labels among the candidates, the weights are fixed: held-out
    rows then have labels that others lack.
    """
    names, given = list(candidates.features), candidates.given & candidates.listed
    if true[given].sum() < FEWEST_TRUE:
        return Blend.fixed(names)
    columns = [candidates.features[name][given] for name in names] + [
        candidates.log_counts[given][:, None]
    ]
    F = np.concatenate(columns, axis=1).astype(np.float64)
    mean, scale = F.mean(axis=0), np.maximum(F.std(axis=0), 1e-6)
    F = np.hstack([(F - mean) / scale, np.ones((len(F), 1))])
    starts = np.append(0, np.cumsum(given.sum(axis=1)))
    found = _newton(F, true[given].astype(np.float64), starts if multiclass else None)
    weights = found[:-1] / scale
    per_scorer = {
        name: tuple(weights[FEATURES * i : FEATURES * (i + 1)].tolist())
        for i, name in enumerate(names)
    }
    return Blend(per_scorer, float(weights[-1]), float(found[-1] - weights @ mean))


def probabilities(log_odds: Array, listed: Array, n_labels: int, multiclass: bool) -> Array:
    """Turn log-odds (n × m) into probabilities.

    With one label a row the listed labels compete with "none of them", unless they are all labels.
    A probability does not depend on labels that are not listed.
    """
    z = log_odds.astype(np.float64)
    if not multiclass:
        return np.asarray(1 / (1 + np.exp(-np.clip(z, -60, 60))))
    none = np.where(listed.sum(axis=1, keepdims=True) < n_labels, 0.0, -np.inf)
    competing = np.where(listed, z, -np.inf)
    most = np.maximum(competing.max(axis=1, initial=-np.inf, keepdims=True), none)
    total = np.exp(competing - most).sum(axis=1, keepdims=True) + np.exp(none - most)
    rest = np.exp(none - most) / total  # of all labels that are not listed
    shares = np.exp(np.minimum(z - most, 0)) / total
    return np.asarray(np.where(listed, shares, np.minimum(shares, rest)))


def _newton(F: Array, y: Array, starts: Array | None) -> Array:
    """Minimise the penalised loss by Newton steps with halving; the bias, last, is not
    penalised.
    """
    penalty = np.append(np.full(F.shape[1] - 1, PENALTY), 1e-6)
    w = np.zeros(F.shape[1])
    w[-1] = np.log(max(y.mean(), 1e-6)) - np.log(max(1 - y.mean(), 1e-6))
    loss, p = _loss(F, y, starts, w, penalty)
    for _ in range(ITERATIONS):
        slope = F.T @ (p - y) + penalty * w
        curvature = (F * (p if starts is not None else p * (1 - p))[:, None]).T @ F
        if starts is not None:
            means = np.add.reduceat(F * p[:, None], starts[:-1][np.diff(starts) > 0], axis=0)
            curvature -= means.T @ means
        step, size = np.linalg.solve(curvature + np.diag(penalty), slope), 1.0
        while (new := _loss(F, y, starts, w - size * step, penalty))[0] > loss and size > 1e-6:
            size /= 2
        if new[0] > loss:
            break
        gain, w, (loss, p) = loss - new[0], w - size * step, new
        if gain <= TOLERANCE * abs(loss):
            break
    return w


def _loss(
    F: Array, y: Array, starts: Array | None, w: Array, penalty: Array
) -> tuple[float, Array]:
    """Return the penalised loss and the probability of every candidate."""
    z = F @ w
    if starts is None:
        p, total = 1 / (1 + np.exp(-np.clip(z, -60, 60))), float(np.logaddexp(0, z).sum() - z @ y)
    else:
        sizes = np.diff(starts)
        used = starts[:-1][sizes > 0]
        most = np.maximum(0, np.maximum.reduceat(z, used))
        own = np.exp(z - np.repeat(most, sizes[sizes > 0]))
        totals = np.exp(-most) + np.add.reduceat(own, used)
        p, total = (
            own / np.repeat(totals, sizes[sizes > 0]),
            float((np.log(totals) + most).sum() - z @ y),
        )
    return total + 0.5 * float(penalty @ w**2), p


def union(lists: list[Labels]) -> Labels:
    """Return the distinct labels of each row of several lists, in ascending order, -1 at the
    end.
    """
    joined = np.sort(np.hstack(lists), axis=1)
    joined[:, 1:][joined[:, 1:] == joined[:, :-1]] = -1
    last = np.iinfo(np.int64).max
    joined = np.sort(np.where(joined < 0, last, joined), axis=1)
    return np.where(joined == last, -1, joined)[
        :, : int((joined < last).sum(axis=1).max(initial=1))
    ]
