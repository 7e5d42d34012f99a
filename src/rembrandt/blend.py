"""The blend: from the scores of several parts to one probability of a row and a label.

A label that is in the list of a part (`candidates`) gets the log-odds

    bias + Σ over parts of (weights · features of its score) + weight · f + uᵀ Q u,

where f is the logarithm of the label's frequency in the training examples and u holds the log-odds
that each part gives to the label, softly bounded, and f. Labels of a row may compete: then "none of
the listed labels" is one of the outcomes, and their probabilities sum to one.

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

from rembrandt.candidates import LOG_ODDS, N_FEATURES, Candidates, UnlistedSample
from rembrandt.errors import StorageError
from rembrandt.linalg import Array
from rembrandt.linalg.logistic import conditional, logistic, newton
from rembrandt.storage.arrays import finite, positive

Weights = tuple[float, ...]

LOG_SCALE = 4.0  # of log-odds and log-frequencies: divided by it they are of order one
FEWEST_TRUE = 20  # true labels that weights are learned from
AS_STATED: Weights = (1.0, 0.0)  # of log-odds, and a bias
# Of a listed label that competes, relative to the mean of the unlisted ones: with more than one the
# shares of these can differ, and keep their order.
LEAST_SHARE = 1.1
# Probabilities lie strictly between zero and one.
SMALLEST = np.finfo(np.float32).tiny
LARGEST = np.nextafter(np.float32(1), np.float32(0))


@dataclass(frozen=True)
class Blend:
    """The weights of a blend."""

    weights: dict[str, Weights]  # of the features of each part
    quadratic: tuple[Weights, ...]  # Q, symmetric, (parts + 1)²
    frequency: float
    bias: float
    unlisted: Weights  # of the parts' log-odds, of f, and a bias
    competing: bool = False
    # Labels that each part lists; one that is missing lists `LIST_LENGTH`.
    list_lengths: dict[str, int] = field(default_factory=dict)
    # Of the log-odds of labels that the fit knew and had no examples of, and a bias.
    unseen: Weights = AS_STATED

    @classmethod
    def fixed(cls, names: Iterable[str], competing: bool = False) -> "Blend":
        """Return the mean log-odds of the parts, for when there are no rows to learn from."""
        parts = list(names)
        share = 1 / len(parts)
        # The likelihood orders what has the same bounded log-odds.
        part_weights = (0.001 * share, share, 0.0, 0.0)
        size = len(parts) + 1
        no_weights = (0.0,) * size
        return cls(
            weights=dict.fromkeys(parts, part_weights),
            quadratic=(no_weights,) * size,
            frequency=0.0,
            bias=0.0,
            unlisted=_fixed_unlisted(len(parts)),
            competing=competing,
        )

    def log_odds(self, candidates: Candidates) -> Array:
        """Return the log-odds of listed labels (n × m); -inf where there is no label.

        Every entry is computed by the same operations in the same order, so that it does not depend
        on the rows around it.
        """
        log_frequencies = candidates.log_frequencies.astype(np.float64)
        total = self.bias + self.frequency * log_frequencies
        for name, weights in self.weights.items():
            features = candidates.features[name]
            for number, weight in enumerate(weights):
                total = total + weight * features[..., number]
        u = curved_features(candidates)
        for u_i, row in zip(u, self.quadratic, strict=True):
            slope = _linear_form(row, u)
            total = total + u_i * slope
        return np.where(candidates.is_label, total, -np.inf)

    def unlisted_log_odds(self, log_odds: list[Array], log_frequencies: Array) -> Array:
        """Return the log-odds of unlisted labels from those of each part."""
        *part_weights, frequency, bias = self.unlisted
        total = bias + frequency * log_frequencies.astype(np.float64)
        for weight, values in zip(part_weights, log_odds, strict=True):
            total = total + weight * values
        return np.asarray(total)

    def unseen_probabilities(self, likelihood: Array) -> Array:
        """Return the probabilities of labels that the fit knew and had no examples of, from the
        estimates of a part that knows their names.
        """
        if self.unseen == AS_STATED:
            return likelihood
        weight, bias = self.unseen
        log_odds = weight * _log_odds(likelihood) + bias
        return logistic(log_odds).astype(np.float32)

    def probabilities(self, candidates: Candidates, n_labels: int) -> Array:
        """Return the probabilities of listed labels (n × m, float32); 0 where there is no label."""
        log_odds = self.log_odds(candidates)
        if self.competing:
            exact = competing_probabilities(log_odds, n_labels)
        else:
            exact = logistic(log_odds)
        rounded = exact.astype(np.float32)
        inside = np.clip(rounded, SMALLEST, LARGEST)
        return np.where(candidates.is_label, inside, np.float32(0))

    def to_json(self) -> dict[str, Any]:
        """Return the blend as JSON."""
        weights = {}
        for name, part_weights in self.weights.items():
            weights[name] = list(part_weights)
        quadratic = [list(row) for row in self.quadratic]
        return {
            "weights": weights,
            "quadratic": quadratic,
            "frequency": self.frequency,
            "bias": self.bias,
            "unlisted": list(self.unlisted),
            "competing": self.competing,
            "list_lengths": self.list_lengths,
            "unseen": list(self.unseen),
        }

    @classmethod
    def from_json(cls, facts: dict[str, Any]) -> "Blend":
        """Rebuild what `to_json` returned."""
        weights = {}
        for name, part_weights in facts["weights"].items():
            weights[name] = _finite_weights(part_weights)
        quadratic = tuple(_finite_weights(row) for row in facts["quadratic"])
        unlisted = _finite_weights(facts["unlisted"])
        size = len(weights) + 1
        other_lengths = _lengths_of(weights.values()) - {N_FEATURES}
        if other_lengths:
            raise StorageError(f"a blend has {N_FEATURES} weights for each part")
        if len(quadratic) != size or _lengths_of(quadratic) != {size}:
            raise StorageError(f"the quadratic form of this blend has {size} rows and columns")
        if len(unlisted) != size + 1 or not isinstance(facts["competing"], bool):
            raise StorageError("the weights of unlisted labels do not belong to this blend")
        # A model of an earlier version has none.
        unseen = _finite_weights(facts.get("unseen", AS_STATED))
        if len(unseen) != len(AS_STATED) or unseen[0] < 0:
            raise StorageError("the weights of labels without examples do not belong to a blend")
        lengths = {}
        for name, length in facts["list_lengths"].items():
            lengths[name] = positive(length, int, or_zero=True)
        longest = max(lengths.values(), default=1)
        if longest == 0 or not lengths.keys() <= weights.keys():
            raise StorageError("the lists of this blend have no labels, or belong to others")
        return cls(
            weights=weights,
            quadratic=quadratic,
            frequency=finite(facts["frequency"]),
            bias=finite(facts["bias"]),
            unlisted=unlisted,
            competing=facts["competing"],
            list_lengths=lengths,
            unseen=unseen,
        )


def _finite_weights(values: Iterable[Any]) -> Weights:
    return tuple(finite(value) for value in values)


def _lengths_of(rows: Iterable[Weights]) -> set[int]:
    return {len(row) for row in rows}


def _linear_form(weights: Weights, u: list[Array]) -> Any:
    """Return the sum of the entries of ``u``, each times its weight."""
    products = (weight * u_j for weight, u_j in zip(weights, u, strict=True))
    return sum(products)


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
    y = true[is_label].astype(np.float64)
    if y.sum() < FEWEST_TRUE:
        fixed = Blend.fixed(names, competing=multiclass)
        return replace(fixed, list_lengths=dict(list_lengths))

    design = _design(candidates)
    sizes = is_label.sum(axis=1)
    if start is not None:
        competing = start.competing
        groups = sizes if competing else None
        first = _as_vector(start)
        weights = newton(design, y, sizes=groups, start=first)
    elif multiclass:
        competing = True
        weights = newton(design, y, sizes=sizes)
    else:
        weights, competing = _better_of_both(design, y, sizes)
    unlisted_weights = _fit_unlisted(unlisted, len(names))
    blend = _as_blend(weights, names, unlisted_weights, competing)
    return replace(blend, list_lengths=dict(list_lengths))


def _better_of_both(design: Array, y: Array, sizes: Array) -> tuple[Array, bool]:
    """Return the weights that describe single labels better, and whether labels compete."""
    independent = newton(design, y)
    competing = newton(design, y, sizes=sizes)
    independent_p = logistic(design @ independent)
    competing_p, _ = conditional(design @ competing, sizes)
    independent_loss = _marginal_loss(independent_p, y)
    competing_loss = _marginal_loss(competing_p, y)
    if competing_loss < independent_loss:
        return competing, True
    return independent, False


def _marginal_loss(p: Array, y: Array) -> float:
    """Return the logistic loss of single labels."""
    inside = np.clip(p, 1e-12, 1 - 1e-12)
    if_true = np.log(inside)
    if_false = np.log1p(-inside)
    log_likelihoods = y * if_true + (1 - y) * if_false
    return float(-log_likelihoods.sum())


def _design(candidates: Candidates) -> Array:
    """Return a row for each candidate: features, products of u, log-frequency and a constant."""
    is_label = candidates.is_label
    columns = []
    for features in candidates.features.values():
        scaled = features[is_label].astype(np.float64)
        scaled[:, LOG_ODDS] /= LOG_SCALE
        columns += list(scaled.T)
    u = []
    for values in curved_features(candidates):
        of_labels = values[is_label].astype(np.float64)
        u.append(of_labels / LOG_SCALE)
    log_frequency = u[-1]
    if len(candidates.features) == 1:
        log_frequency[:] = 0  # so it gets no weight, and the ranking is that of the part
    for i, left in enumerate(u):
        for right in u[: i + 1]:
            columns.append(left * right)
    constant = np.ones(len(log_frequency))
    columns += [log_frequency, constant]
    return np.stack(columns, axis=1)


def _as_blend(
    vector: Array,
    names: list[str],
    unlisted: Weights,
    competing: bool,
) -> Blend:
    """Return the blend whose design has these weights."""
    n_parts = len(names)
    n_linear = N_FEATURES * n_parts
    linear = vector[:n_linear].copy()
    linear = linear.reshape(n_parts, N_FEATURES)
    linear[:, LOG_ODDS] /= LOG_SCALE
    weights = {}
    for name, part_weights in zip(names, linear.tolist(), strict=True):
        weights[name] = tuple(part_weights)

    size = n_parts + 1
    products = vector[n_linear:-2]
    lower = np.zeros((size, size))
    lower[np.tril_indices(size)] = products / LOG_SCALE**2
    symmetric = (lower + lower.T) / 2
    rows = symmetric.tolist()
    return Blend(
        weights=weights,
        quadratic=tuple(tuple(row) for row in rows),
        frequency=float(vector[-2] / LOG_SCALE),
        bias=float(vector[-1]),
        unlisted=unlisted,
        competing=competing,
    )


def _as_vector(blend: Blend) -> Array:
    """Return the weights of a design that has this blend: the inverse of `_as_blend`."""
    part_weights = list(blend.weights.values())
    linear = np.array(part_weights)
    linear[:, LOG_ODDS] *= LOG_SCALE
    symmetric = np.array(blend.quadratic) * LOG_SCALE**2
    # A product of two different entries of u has one weight in the design, and two in Q.
    diagonal = np.diag(symmetric)
    doubled = symmetric + symmetric.T - np.diag(diagonal)
    lower = np.tril_indices(len(doubled))
    products = doubled[lower]
    frequency = blend.frequency * LOG_SCALE
    last = [frequency, blend.bias]
    return np.concatenate([linear.ravel(), products, last])


def _fit_unlisted(sample: UnlistedSample | None, n_parts: int) -> Weights:
    """Learn the weights of the labels that are in no list."""
    if sample is None:
        return _fixed_unlisted(n_parts)
    is_true = sample.true
    if is_true.all() or not is_true.any():
        return _fixed_unlisted(n_parts)
    log_odds = sample.log_odds.T / LOG_SCALE
    log_frequencies = sample.log_frequencies / LOG_SCALE
    constant = np.ones(len(is_true))
    columns = [*log_odds, log_frequencies, constant]
    design = np.stack(columns, axis=1).astype(np.float64)
    y = is_true.astype(np.float64)
    weights = newton(design, y, importance=sample.weights)
    weights[:-1] /= LOG_SCALE
    return tuple(weights.tolist())


def fit_unseen(likelihood: Array, is_true: Array) -> Weights:
    """Learn what the estimates of a part say of labels without examples.

    The part learns from labels with examples. Those without are often very many, and each of them
    is rare, so that a name that matches says less.
    """
    n_expected = max(float(likelihood.sum()), int(is_true.sum()))
    if n_expected < FEWEST_TRUE:
        return AS_STATED
    ones = np.ones(len(likelihood))
    design = np.stack([_log_odds(likelihood) / LOG_SCALE, ones], axis=1)
    weight, bias = newton(design, is_true.astype(np.float64))
    # What is more likely by its name stays so.
    return (max(0.0, float(weight) / LOG_SCALE), float(bias))


def _log_odds(likelihood: Array) -> Array:
    inside = np.clip(likelihood.astype(np.float64), SMALLEST, LARGEST)
    return np.asarray(np.log(inside) - np.log1p(-inside))


def _fixed_unlisted(n_parts: int) -> Weights:
    """Return the weights of the mean log-odds of the parts."""
    part_weights = (1 / n_parts,) * n_parts
    frequency = 0.0
    bias = 0.0
    return (*part_weights, frequency, bias)


def curved_features(candidates: Candidates) -> list[Array]:
    """Return u: the softly bounded log-odds of each part (n × m) and the log-frequency."""
    u = []
    for features in candidates.features.values():
        log_odds = features[..., LOG_ODDS]
        u.append(softly_bounded(log_odds))
    u.append(candidates.log_frequencies)
    return u


def softly_bounded(log_odds: Array) -> Array:
    """Return log-odds that approach ±`LOG_SCALE`: a quadratic form of them bends little beyond."""
    relative = log_odds / LOG_SCALE
    return np.asarray(log_odds / np.sqrt(1 + relative**2))


def competing_probabilities(log_odds: Array, n_labels: int) -> Array:
    """Return the probabilities of listed labels (n × m) that compete with "none of them".

    "None of them" has log-odds of zero and stands for the labels that are not listed. A listed
    label is more likely than one of these is on average. Where all labels are listed, nothing
    is left for others.
    """
    impossible = -np.inf
    is_label = np.isfinite(log_odds)
    n_listed = is_label.sum(axis=1, keepdims=True)
    n_others = n_labels - n_listed
    has_others = n_others > 0
    least_odds = LEAST_SHARE / np.maximum(n_others, 1)
    floor = np.where(has_others, np.log(least_odds), impossible)
    raised = np.maximum(log_odds, floor)
    competing = np.where(is_label, raised, impossible)
    nothing = np.where(has_others, 0.0, impossible)
    largest_listed = competing.max(axis=1, keepdims=True, initial=impossible)
    # Nothing overflows after the largest is subtracted.
    largest = np.maximum(largest_listed, nothing)
    shares = np.exp(competing - largest)
    # The sum of each row is taken on its own, so that it does not depend on the width of the block.
    running_sums = np.cumsum(shares, axis=1)
    sums = running_sums[:, -1:]
    totals = sums + np.exp(nothing - largest)
    return np.asarray(shares / totals)
