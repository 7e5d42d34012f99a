"""The blend: from the scores of several parts to one probability of a row and a label.

Each part lists its best labels of a row, a number of them that the model fixes. A label that is
in a list gets the log-odds

    bias + Σ over parts of (weights · features of its score) + weight · f + uᵀ Q u,

where f is the logarithm of the label's frequency in the training examples and u holds the log-odds
that each part gives to the label, softly bounded, and f. The features of a score are its
likelihood, the log-odds of that, how far it is below the best of the row, and its reciprocal rank
in the part's list. All are on fixed scales. Labels of a row may compete: then "none of the listed
labels" is one of the outcomes, and their probabilities sum to one.

A label that is in no list gets log-odds that are linear in those of the parts and f, and a
probability below the smallest listed one of the row. So the best listed labels of a row are its
best labels, and a probability depends on the row and the label alone.

All weights are learned on held-out rows by penalised logistic regression. With all but one
part's weights at zero the ranking is that of one part.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from rembrandt.errors import StorageError
from rembrandt.linalg import Array
from rembrandt.linalg.ranking import look_up, rank
from rembrandt.linalg.threads import own_threads
from rembrandt.parts.protocol import Labels, Part
from rembrandt.storage.arrays import finite, positive

LIST_LENGTH = 10  # labels that a part lists for a row, on average over the parts
SMOOTHED_RANKS = 5  # over which the precision of a list is averaged when its length is chosen
FEATURES = 4  # likelihood, its log-odds, distance from the best of the row, reciprocal rank
SMALLEST_LIKELIHOOD = 1e-4  # and distance from 1, below which differences are uninformative
LARGEST_LIKELIHOOD = 5.0  # absolute value of least-squares scores
LOG_SCALE = 4.0  # of log-odds and log-frequencies: divided by it they are of order one
PENALTY = 1.0  # on the square of a weight, for features of order one
FEWEST_TRUE = 20  # true labels that weights are learned from
MAX_STEPS = 50
TOLERANCE = 1e-8  # relative decrease of the loss at which Newton's method stops
LARGEST_EXPONENT = 60.0
# Of a listed label that competes, relative to the mean of the unlisted ones: with more than one the
# shares of these can differ, and keep their order.
LEAST_SHARE = 1.1
# Probabilities lie strictly between zero and one.
SMALLEST = np.finfo(np.float32).tiny
LARGEST = np.nextafter(np.float32(1), np.float32(0))


@dataclass(frozen=True)
class Candidates:
    """The listed labels of some rows with the features of their scores."""

    labels: Labels  # n × m, ascending, -1 last
    features: dict[str, Array]  # n × m × 4 of each part
    log_frequencies: Array  # n × m

    @property
    def is_label(self) -> Array:
        """Which entries are labels."""
        return np.asarray(self.labels >= 0)

    def of(self, name: str) -> "Candidates":
        """Return the same labels with the features of one part."""
        return replace(self, features={name: self.features[name]})

    def take(self, rows: Array) -> "Candidates":
        """Return the candidates of some rows."""
        features = {name: values[rows] for name, values in self.features.items()}
        return Candidates(self.labels[rows], features, self.log_frequencies[rows])

    def among(self, is_wanted: Array) -> "Candidates":
        """Return the candidates that are wanted; ``is_wanted`` has a value for each label."""
        is_kept = self.is_label & is_wanted[self.labels]
        order = np.argsort(~is_kept, axis=1, kind="stable")
        labels = np.where(is_kept, self.labels, -1)
        features = {
            name: np.take_along_axis(values, order[..., None], axis=1)
            for name, values in self.features.items()
        }
        return Candidates(
            labels=np.take_along_axis(labels, order, axis=1),
            features=features,
            log_frequencies=np.take_along_axis(self.log_frequencies, order, axis=1),
        )

    @classmethod
    def joined(cls, blocks: list["Candidates"]) -> "Candidates":
        """Stack blocks of rows whose widths may differ."""
        features = {
            name: _stacked([block.features[name] for block in blocks])
            for name in blocks[0].features
        }
        return cls(
            labels=_stacked([block.labels for block in blocks], fill=-1),
            features=features,
            log_frequencies=_stacked([block.log_frequencies for block in blocks]),
        )


def _stacked(blocks: list[Array], fill: int = 0) -> Array:
    """Stack arrays of n × m or n × m × 4 that differ in m."""
    width = max(block.shape[1] for block in blocks)
    padded = []
    for block in blocks:
        missing = [(0, 0)] * block.ndim
        missing[1] = (0, width - block.shape[1])
        padded.append(np.pad(block, missing, constant_values=fill))
    return np.concatenate(padded)


@dataclass(frozen=True)
class UnlistedSample:
    """Pairs of a row and a label that is in none of its lists: all true ones, and a sample."""

    log_odds: Array  # N × parts
    log_frequencies: Array  # N
    true: Array  # N
    weights: Array  # N: the number of pairs that each stands for

    def of(self, number: int) -> "UnlistedSample":
        """Return the sample with the log-odds of one part."""
        return replace(self, log_odds=self.log_odds[:, [number]])

    @classmethod
    def joined(cls, samples: list["UnlistedSample"]) -> "UnlistedSample":
        """Concatenate samples."""
        return cls(
            np.concatenate([sample.log_odds for sample in samples]),
            np.concatenate([sample.log_frequencies for sample in samples]),
            np.concatenate([sample.true for sample in samples]),
            np.concatenate([sample.weights for sample in samples]),
        )


@dataclass(frozen=True)
class Blend:
    """The weights of a blend."""

    weights: dict[str, tuple[float, ...]]  # of the features of each part
    quadratic: tuple[tuple[float, ...], ...]  # Q, symmetric, (parts + 1)²
    frequency: float
    bias: float
    unlisted: tuple[float, ...]  # of the parts' log-odds, of f, and a bias
    competing: bool = False
    # Labels that each part lists; one that is missing lists `LIST_LENGTH`.
    list_lengths: dict[str, int] = field(default_factory=dict)

    @classmethod
    def fixed(cls, names: Iterable[str], competing: bool = False) -> "Blend":
        """Return the mean log-odds of the parts, for when there are no rows to learn from."""
        parts = list(names)
        share = 1 / len(parts)
        size = len(parts) + 1
        return cls(
            weights=dict.fromkeys(parts, (0.001 * share, share, 0.0, 0.0)),
            quadratic=((0.0,) * size,) * size,
            frequency=0.0,
            bias=0.0,
            unlisted=(share,) * len(parts) + (0.0, 0.0),
            competing=competing,
        )

    def log_odds(self, candidates: Candidates) -> Array:
        """Return the log-odds of listed labels (n × m); -inf where there is no label.

        Every entry is computed by the same operations in the same order, so that it does not depend
        on the rows around it.
        """
        total = self.bias + self.frequency * candidates.log_frequencies.astype(np.float64)
        for name, weights in self.weights.items():
            features = candidates.features[name]
            for feature, weight in enumerate(weights):
                total = total + weight * features[..., feature]
        curved = curved_features(candidates)
        for i, row in enumerate(self.quadratic):
            slope = sum(weight * curved[j] for j, weight in enumerate(row))
            total = total + curved[i] * slope
        return np.where(candidates.is_label, total, -np.inf)

    def unlisted_log_odds(self, log_odds: list[Array], log_frequencies: Array) -> Array:
        """Return the log-odds of unlisted labels from those of each part."""
        *part_weights, frequency, bias = self.unlisted
        total = bias + frequency * log_frequencies.astype(np.float64)
        for weight, values in zip(part_weights, log_odds, strict=True):
            total = total + weight * values
        return np.asarray(total)

    def probabilities(self, candidates: Candidates, n_labels: int) -> Array:
        """Return the probabilities of listed labels (n × m, float32); 0 where there is no label."""
        log_odds = self.log_odds(candidates)
        if self.competing:
            exact = competing_probabilities(log_odds, n_labels)
        else:
            exact = logistic(log_odds)
        inside = np.clip(exact.astype(np.float32), SMALLEST, LARGEST)
        return np.where(candidates.is_label, inside, np.float32(0))

    def to_json(self) -> dict[str, Any]:
        """Return the blend as JSON."""
        return {
            "weights": {name: list(weights) for name, weights in self.weights.items()},
            "quadratic": [list(row) for row in self.quadratic],
            "frequency": self.frequency,
            "bias": self.bias,
            "unlisted": list(self.unlisted),
            "competing": self.competing,
            "list_lengths": self.list_lengths,
        }

    @classmethod
    def from_json(cls, facts: dict[str, Any]) -> "Blend":
        """Rebuild what `to_json` returned."""
        weights = {
            name: tuple(finite(weight) for weight in part_weights)
            for name, part_weights in facts["weights"].items()
        }
        quadratic = tuple(tuple(finite(weight) for weight in row) for row in facts["quadratic"])
        unlisted = tuple(finite(weight) for weight in facts["unlisted"])
        size = len(weights) + 1
        if any(len(part_weights) != FEATURES for part_weights in weights.values()):
            raise StorageError(f"a blend has {FEATURES} weights for each part")
        if len(quadratic) != size or any(len(row) != size for row in quadratic):
            raise StorageError(f"the quadratic form of this blend has {size} rows and columns")
        if len(unlisted) != size + 1 or not isinstance(facts["competing"], bool):
            raise StorageError("the weights of unlisted labels do not belong to this blend")
        lengths = {
            name: positive(length, int, or_zero=True)
            for name, length in facts["list_lengths"].items()
        }
        if max(lengths.values(), default=1) == 0 or not lengths.keys() <= weights.keys():
            raise StorageError("the lists of this blend have no labels, or belong to others")
        return cls(
            weights=weights,
            quadratic=quadratic,
            frequency=finite(facts["frequency"]),
            bias=finite(facts["bias"]),
            unlisted=unlisted,
            competing=facts["competing"],
            list_lengths=lengths,
        )


def log_frequencies_of(label_counts: Array, n_examples: int) -> Array:
    """Return the logarithm of the relative frequency of each label."""
    return np.log((label_counts + 0.5) / (n_examples + 1)).astype(np.float32)


def choose_list_lengths(hits_by_rank: dict[str, Array]) -> dict[str, int]:
    """Return how many labels each part lists: together ten for each, where they are most precise.

    ``hits_by_rank`` are the hits (n × ranks) of the ranked labels of each part on held-out rows.
    A weak part would otherwise list labels that are less likely than many unlisted ones.
    """
    precision = {
        name: np.append(hits.mean(axis=0), np.zeros(SMOOTHED_RANKS))
        for name, hits in hits_by_rank.items()
    }
    lengths = dict.fromkeys(precision, 0)

    def next_precision(name: str) -> float:
        start = lengths[name]
        return float(precision[name][start : start + SMOOTHED_RANKS].mean())

    for _ in range(LIST_LENGTH * len(lengths)):
        best = max(lengths, key=next_precision)
        lengths[best] += 1
    return lengths


def collect(
    parts: dict[str, Part],
    rows: dict[str, Any],
    log_frequencies: Array,
    list_lengths: Mapping[str, int] = MappingProxyType({}),
) -> Candidates:
    """Return the candidates of prepared rows: the union of the lists, scored by every part.

    A part without a list, such as one that would have to score all labels to find the best, ranks
    what the others list.
    """
    lists = {}
    for name, part in parts.items():
        length = list_lengths.get(name, LIST_LENGTH)
        if part.retrieves_labels and length:
            lists[name] = part.top(rows[name], length)
    labels = union([listed for listed, _ in lists.values()])
    features = {}
    for name, part in parts.items():
        if name in lists:
            listed, scores = lists[name]
        else:
            listed, scores = rank(labels, part.at(rows[name], labels))
            listed, scores = listed[:, :LIST_LENGTH], scores[:, :LIST_LENGTH]
        all_scores = np.full(labels.shape, np.nan, dtype=scores.dtype)
        look_up(labels, listed, scores, all_scores)
        unknown = np.isnan(all_scores)
        if unknown.any():
            others = part.at(rows[name], np.where(unknown, labels, -1))
            all_scores = np.where(unknown, others, all_scores)
        likelihood = part.likelihood(rows[name], labels, all_scores)
        best = part.likelihood(rows[name], listed[:, :1], scores[:, :1])
        features[name] = features_of(likelihood, labels, listed, scores, best)
    return Candidates(labels, features, log_frequencies[np.maximum(labels, 0)])


def features_of(
    likelihood: Array, labels: Labels, listed: Labels, scores: Array, best: Array
) -> Array:
    """Return the features (n × m × 4) of the likelihoods of ``labels``.

    ``listed`` is the part's list of each row with its ``scores``, and ``best`` the likelihood of
    its first label.
    """
    features = np.empty((*labels.shape, FEATURES), dtype=np.float32)
    bounded = _bounded(np.where(labels < 0, 0, likelihood))
    features[..., 0] = bounded
    features[..., 1] = log_odds_of(bounded)
    features[..., 2] = _bounded(best) - bounded
    reciprocal_ranks = np.zeros(labels.shape, dtype=np.float32)
    look_up(labels, listed, 1 / ranks_of(scores), reciprocal_ranks)
    features[..., 3] = reciprocal_ranks
    return features


def ranks_of(scores: Array) -> Array:
    """Return the ranks, from 1, of descending scores (n × m); equal scores have equal ranks."""
    positions = np.arange(1, scores.shape[1] + 1, dtype=np.float32)
    is_lower = np.ones(scores.shape, dtype=np.bool_)
    is_lower[:, 1:] = scores[:, 1:] < scores[:, :-1]
    return np.asarray(np.maximum.accumulate(np.where(is_lower, positions, 0), axis=1))


def _bounded(likelihood: Array) -> Array:
    return np.clip(likelihood, -LARGEST_LIKELIHOOD, LARGEST_LIKELIHOOD)


def log_odds_of(likelihood: Array) -> Array:
    """Return the logarithm of the odds, within the range in which differences are informative."""
    inside = np.clip(likelihood, SMALLEST_LIKELIHOOD, 1 - SMALLEST_LIKELIHOOD)
    return np.asarray(np.log(inside) - np.log1p(-inside))


def curved_features(candidates: Candidates) -> list[Array]:
    """Return u: the softly bounded log-odds of each part (n × m) and the log-frequency."""
    bounded = [softly_bounded(features[..., 1]) for features in candidates.features.values()]
    return [*bounded, candidates.log_frequencies]


def softly_bounded(log_odds: Array) -> Array:
    """Return log-odds that approach ±`LOG_SCALE`: a quadratic form of them bends little beyond."""
    return np.asarray(log_odds / np.sqrt(1 + (log_odds / LOG_SCALE) ** 2))


def unlisted_scores(parts: dict[str, Part], rows: dict[str, Any], labels: Labels) -> list[Array]:
    """Return the log-odds that each part gives to some labels (n × m) of prepared rows."""
    log_odds = []
    for name, part in parts.items():
        likelihood = part.likelihood(rows[name], labels, part.at(rows[name], labels))
        log_odds.append(log_odds_of(np.where(labels < 0, 0, likelihood)).astype(np.float32))
    return log_odds


def all_scores(parts: dict[str, Part], rows: dict[str, Any], n_rows: int) -> list[Array]:
    """Return the log-odds that each part gives to all labels (n × c) of prepared rows."""
    log_odds = []
    for name, part in parts.items():
        labels = np.broadcast_to(np.arange(part.n_labels), (n_rows, part.n_labels))
        likelihood = part.likelihood(rows[name], labels, part.every(rows[name]))
        log_odds.append(log_odds_of(likelihood).astype(np.float32))
    return log_odds


def sample_unlisted(
    parts: dict[str, Part],
    rows: dict[str, Any],
    candidates: Candidates,
    true_labels: Labels,
    log_frequencies: Array,
    rng: np.random.Generator,
    per_row: int = LIST_LENGTH,
) -> UnlistedSample:
    """Draw labels that are in no list, for each row, and take all true labels (n × t) among them.

    A drawn label that is listed or true is dropped; the others stand for all unlisted labels of
    their row that are not true.
    """
    n, n_labels = len(candidates.labels), len(log_frequencies)
    drawn = rng.integers(0, n_labels, size=(n, per_row))
    labels = np.hstack([true_labels, drawn])
    is_true = np.zeros(labels.shape, dtype=np.bool_)
    is_true[:, : true_labels.shape[1]] = True
    repeated = is_among(drawn, true_labels)
    listed = is_among(labels, candidates.labels)
    labels = np.where(listed, -1, labels)
    labels[:, true_labels.shape[1] :][repeated] = -1
    kept = labels >= 0
    n_others = n_labels - candidates.is_label.sum(axis=1) - (kept & is_true).sum(axis=1)
    n_drawn = (kept & ~is_true).sum(axis=1)
    weights = np.where(is_true, 1.0, (n_others / np.maximum(n_drawn, 1))[:, None])
    log_odds = unlisted_scores(parts, rows, labels)
    return UnlistedSample(
        log_odds=np.stack([values[kept] for values in log_odds], axis=1),
        log_frequencies=log_frequencies[labels[kept]],
        true=is_true[kept],
        weights=weights[kept],
    )


def is_among(labels: Labels, others: Labels) -> Array:
    """Return which entries of ``labels`` are in the same row of ``others``; -1 is in none."""
    width = max(1, int(max(labels.max(initial=-1), others.max(initial=-1))) + 1)
    offsets = np.arange(len(labels))[:, None] * width
    among = np.isin(labels + offsets, (others + offsets)[others >= 0])
    return np.asarray(among & (labels >= 0))


def fit_blend(
    candidates: Candidates,
    true: Array,
    unlisted: UnlistedSample | None = None,
    multiclass: bool = False,
    start: "Blend | None" = None,
    list_lengths: Mapping[str, int] = MappingProxyType({}),
) -> Blend:
    """Learn the weights by penalised logistic regression on held-out rows.

    Parameters
    ----------
    candidates : Candidates
        Listed labels of the held-out rows.
    true : ndarray of shape (n, m)
        Which of them are true.
    unlisted : UnlistedSample, optional
        Labels that are not listed; without any, their weights are those of `Blend.fixed`.
    multiclass : bool, default=False
        Whether rows have exactly one label. Otherwise the labels compete if that describes the
        held-out rows better.
    start : Blend, optional
        Where to start from; also decides whether labels compete.
    list_lengths : mapping, optional
        Number of labels that each part has listed, for prediction.

    Returns
    -------
    Blend
        With few true labels among the candidates its weights are fixed.
    """
    names = list(candidates.features)
    is_label = candidates.is_label
    lengths = dict(list_lengths)
    if true[is_label].sum() < FEWEST_TRUE:
        return replace(Blend.fixed(names, competing=multiclass), list_lengths=lengths)
    design = _design(candidates)
    y = true[is_label].astype(np.float64)
    sizes = is_label.sum(axis=1)
    competing = multiclass if start is None else start.competing
    first = None if start is None else _as_vector(start)
    weights = newton(design, y, sizes=sizes if competing else None, start=first)
    if start is None and not multiclass:
        other = newton(design, y, sizes=sizes)
        independent_loss = _marginal_loss(logistic(design @ weights), y)
        competing_loss = _marginal_loss(_conditional(design @ other, sizes)[0], y)
        if competing_loss < independent_loss:
            weights = other
            competing = True
    blend = _as_blend(weights, names, _fit_unlisted(unlisted, len(names)), competing)
    return replace(blend, list_lengths=lengths)


def _design(candidates: Candidates) -> Array:
    """Return a row for each candidate: features, products of u, log-frequency and a constant."""
    is_label = candidates.is_label
    columns = []
    for features in candidates.features.values():
        scaled = features[is_label].astype(np.float64)
        scaled[:, 1] /= LOG_SCALE
        columns += list(scaled.T)
    curved = [u[is_label].astype(np.float64) / LOG_SCALE for u in curved_features(candidates)]
    if len(candidates.features) == 1:
        curved[-1][:] = 0  # so the frequency gets no weight, and the ranking is that of the part
    for i, left in enumerate(curved):
        columns += [left * right for right in curved[: i + 1]]
    columns.append(curved[-1])
    columns.append(np.ones(len(curved[-1])))
    return np.stack(columns, axis=1)


def _as_blend(
    vector: Array, names: list[str], unlisted: tuple[float, ...], competing: bool
) -> Blend:
    """Return the blend whose design has these weights."""
    n_linear = FEATURES * len(names)
    linear = vector[:n_linear].reshape(len(names), FEATURES).copy()
    linear[:, 1] /= LOG_SCALE
    size = len(names) + 1
    quadratic = np.zeros((size, size))
    lower = np.tril_indices(size)
    quadratic[lower] = vector[n_linear:-2] / LOG_SCALE**2
    quadratic = (quadratic + quadratic.T) / 2
    return Blend(
        weights={name: tuple(row) for name, row in zip(names, linear.tolist(), strict=True)},
        quadratic=tuple(tuple(row) for row in quadratic.tolist()),
        frequency=float(vector[-2] / LOG_SCALE),
        bias=float(vector[-1]),
        unlisted=unlisted,
        competing=competing,
    )


def _as_vector(blend: Blend) -> Array:
    """Return the weights of a design that has this blend: the inverse of `_as_blend`."""
    linear = np.array(list(blend.weights.values()))
    linear[:, 1] *= LOG_SCALE
    quadratic = np.array(blend.quadratic) * LOG_SCALE**2
    both = quadratic + quadratic.T - np.diag(np.diag(quadratic))
    lower = both[np.tril_indices(len(both))]
    return np.concatenate([linear.ravel(), lower, [blend.frequency * LOG_SCALE, blend.bias]])


def _fit_unlisted(sample: UnlistedSample | None, n_parts: int) -> tuple[float, ...]:
    """Learn the weights of the labels that are in no list."""
    if sample is None or not sample.true.any() or sample.true.all():
        return (1 / n_parts,) * n_parts + (0.0, 0.0)
    scaled = [*(sample.log_odds.T / LOG_SCALE), sample.log_frequencies / LOG_SCALE]
    design = np.stack([*scaled, np.ones(len(sample.true))], axis=1).astype(np.float64)
    weights = newton(design, sample.true.astype(np.float64), importance=sample.weights)
    return (*(weights[:-1] / LOG_SCALE).tolist(), float(weights[-1]))


def logistic(log_odds: Array) -> Array:
    """Return the probability that has these log-odds."""
    bounded = np.clip(log_odds, -LARGEST_EXPONENT, LARGEST_EXPONENT)
    return np.asarray(1 / (1 + np.exp(-bounded)))


def competing_probabilities(log_odds: Array, n_labels: int) -> Array:
    """Return the probabilities of listed labels (n × m) that compete with "none of them".

    "None of them" has log-odds of zero and stands for the labels that are not listed. A listed
    label is more likely than one of these is on average. Where all labels are listed, nothing
    is left for others.
    """
    is_label = np.isfinite(log_odds)
    n_others = n_labels - is_label.sum(axis=1, keepdims=True)
    floor = np.where(n_others > 0, np.log(LEAST_SHARE / np.maximum(n_others, 1)), -np.inf)
    competing = np.where(is_label, np.maximum(log_odds, floor), -np.inf)
    nothing = np.where(n_others > 0, 0.0, -np.inf)
    largest = np.maximum(competing.max(axis=1, keepdims=True, initial=-np.inf), nothing)
    shares = np.exp(competing - largest)
    # The sum of each row is taken on its own, so that it does not depend on the width of the block.
    totals = np.cumsum(shares, axis=1)[:, -1:] + np.exp(nothing - largest)
    return np.asarray(shares / totals)


def newton(
    design: Array,
    y: Array,
    sizes: Array | None = None,
    importance: Array | None = None,
    start: Array | None = None,
) -> Array:
    """Minimise a penalised logistic loss by Newton steps with halving; the last column, a constant,
    is not penalised.

    With ``sizes``, rows of the design belong to groups of these sizes, and the members of a group
    compete with each other and with "none of them": a conditional logit.
    """
    with own_threads():  # the products are small
        return _newton(design, y, sizes, importance, start)


def _newton(
    design: Array, y: Array, sizes: Array | None, importance: Array | None, start: Array | None
) -> Array:
    penalty = np.full(design.shape[1], PENALTY)
    penalty[-1] = 1e-6
    if start is None:
        rate = np.clip(np.average(y, weights=importance), 1e-6, 1 - 1e-6)
        w = np.zeros(design.shape[1])
        w[-1] = np.log(rate) - np.log1p(-rate)
    else:
        w = start
    loss, slope, curvature = _newton_terms(design, y, sizes, importance, w, penalty)
    for _ in range(MAX_STEPS):
        step = np.linalg.solve(curvature, slope)
        size = 1.0
        terms = _newton_terms(design, y, sizes, importance, w - step, penalty)
        while not terms[0] <= loss and size > 1e-6:
            size /= 2
            terms = _newton_terms(design, y, sizes, importance, w - size * step, penalty)
        if not terms[0] <= loss:
            break
        gain = loss - terms[0]
        w = w - size * step
        loss, slope, curvature = terms
        if gain <= TOLERANCE * abs(loss):
            break
    return w


def _newton_terms(
    design: Array,
    y: Array,
    sizes: Array | None,
    importance: Array | None,
    w: Array,
    penalty: Array,
) -> tuple[float, Array, Array]:
    """Return the penalised loss at ``w``, its gradient and its Hessian."""
    z = design @ w
    if sizes is None:
        p = logistic(z)
        terms = np.logaddexp(0, z) - z * y
        residual = p - y
        variance = p * (1 - p)
        if importance is not None:
            terms = terms * importance
            residual = residual * importance
            variance = variance * importance
        loss = float(terms.sum())
        curvature = (design * variance[:, None]).T @ design
    else:
        p, log_totals = _conditional(z, sizes)
        groups = np.repeat(np.arange(len(sizes)), sizes)
        # A group with several true members counts as that many choices, one with none as a choice
        # of none of them.
        choices = np.maximum(np.bincount(groups, y, minlength=len(sizes)), 1.0)
        expected = p * choices[groups]
        loss = float(choices @ log_totals - z @ y)
        residual = expected - y
        curvature = (design * expected[:, None]).T @ design
        starts = (np.cumsum(sizes) - sizes)[sizes > 0]
        means = np.add.reduceat(design * p[:, None], starts, axis=0)
        curvature -= (means * choices[sizes > 0][:, None]).T @ means
    loss += 0.5 * float(penalty @ w**2)
    slope = design.T @ residual + penalty * w
    return loss, slope, curvature + np.diag(penalty)


def _conditional(z: Array, sizes: Array) -> tuple[Array, Array]:
    """Return the probabilities of the members of groups, and the log-normalizer of each group."""
    used = sizes > 0
    starts = (np.cumsum(sizes) - sizes)[used]
    largest = np.zeros(len(sizes))
    largest[used] = np.maximum(0, np.maximum.reduceat(z, starts))
    groups = np.repeat(np.arange(len(sizes)), sizes)
    shares = np.exp(z - largest[groups])
    totals = np.exp(-largest) + np.bincount(groups, shares, minlength=len(sizes))
    return shares / totals[groups], np.log(totals) + largest


def _marginal_loss(p: Array, y: Array) -> float:
    """Return the logistic loss of single labels."""
    inside = np.clip(p, 1e-12, 1 - 1e-12)
    return float(-(y * np.log(inside) + (1 - y) * np.log1p(-inside)).sum())


def union(lists: list[Labels]) -> Labels:
    """Return the distinct labels of each row of several lists, in ascending order, -1 at the
    end.
    """
    last = np.iinfo(np.int64).max
    joined = np.sort(np.hstack(lists), axis=1)
    joined[:, 1:][joined[:, 1:] == joined[:, :-1]] = -1
    joined = np.sort(np.where(joined < 0, last, joined), axis=1)
    width = int((joined < last).sum(axis=1).max(initial=1))
    return np.where(joined == last, -1, joined)[:, :width]
