"""The probabilities of the labels of rows.

The probability of a label depends on the row and the label alone. Labels that a part lists are
scored by every part. Every other label is less likely than the least likely listed one of the row.

A label without examples has no weights of its own in a blend. A part that can score it gives its
probability, as it is for labels that were added after the fit, and corrected by the blend for those
that the fit knew. Those that are at least as likely as the least likely listed label are listed,
too.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rembrandt.blend import LARGEST, SMALLEST
from rembrandt.candidates import (
    DISTANCE,
    LIKELIHOOD,
    LOG_ODDS,
    MAX_UNSEEN_LABELS,
    Candidates,
    all_scores,
    collect,
    unlisted_scores,
)
from rembrandt.data.views import Views, as_views
from rembrandt.forks import cached_property
from rembrandt.linalg import Array
from rembrandt.linalg.logistic import logistic
from rembrandt.linalg.ranking import rank
from rembrandt.linalg.sparse import is_sparse
from rembrandt.model.model import Model
from rembrandt.parts.protocol import Labels, Part

Mask = NDArray[np.bool_]
Probabilities = NDArray[np.float32]
Prepared = dict[str, Any]  # what each part computed for some rows

MAX_UNSEEN_SHARE = 0.99  # of the probability where rows have exactly one label
SMALLEST_SUM = 1e-300  # keeps a division by a sum of odds finite


@dataclass(frozen=True)
class ListedLabels:
    """The listed labels of rows, -1 after the last one, and their probabilities, 0 there."""

    labels: Labels  # n × m
    probabilities: Array

    @cached_property
    def is_label(self) -> Mask:
        """Which entries are labels."""
        return np.asarray(self.labels >= 0)

    @cached_property
    def smallest(self) -> Array:
        """The probability of the least likely listed label of each row, infinite without one."""
        of_labels = np.where(self.is_label, self.probabilities, np.inf)
        smallest = of_labels.min(axis=1, initial=np.inf)
        return np.asarray(smallest)

    def without(self, rows: Mask) -> "ListedLabels":
        """Return the same lists, empty for some rows."""
        is_out = rows[:, None]
        labels = np.where(is_out, -1, self.labels)
        probabilities = np.where(is_out, 0, self.probabilities)
        return ListedLabels(labels, probabilities)


def listed_labels(model: Model, prepared: Prepared) -> ListedLabels:
    """Return the listed labels of prepared rows.

    Where rows have exactly one label, those without examples take their share from the others.
    """
    candidates = _candidates(model, prepared)
    probabilities = model.blend.probabilities(candidates, model.n_labels)
    seen = ListedLabels(candidates.labels, probabilities)
    if model.unseen_part is None:
        return seen
    unseen = _listed_unseen(model, prepared, seen.smallest)
    if model.multiclass:
        seen, unseen = _with_shares_of_one(seen, unseen)
    return _merged(seen, unseen, model.n_labels)


def probabilities_of_all(model: Model, rows: Views) -> Probabilities:
    """Return the probabilities of all labels of rows that are scored together, n × c."""
    prepared = model.prepared(rows)
    listed = listed_labels(model, prepared)
    return with_unlisted(model, rows, prepared, listed)


def with_unlisted(
    model: Model,
    rows: Views,
    prepared: Prepared,
    listed: ListedLabels,
) -> Probabilities:
    """Return the probabilities of all labels of prepared rows whose listed labels are known."""
    as_unlisted = _unlisted_log_odds(model, prepared, rows.n)
    listed_rows, entries = np.nonzero(listed.is_label)
    columns = listed.labels[listed_rows, entries]
    cap = _next_below(listed.smallest)
    if model.blend.competing:
        is_unlisted = np.ones(as_unlisted.shape, dtype=bool)
        is_unlisted[listed_rows, columns] = False
        total = listed.probabilities.sum(axis=1, dtype=np.float64)
        remaining = np.maximum(1 - total, 0)
        unlisted = _shares(as_unlisted, is_unlisted, remaining, cap)
    else:
        unlisted = logistic(as_unlisted)
    unlisted = unlisted.astype(np.float32)
    P = np.clip(unlisted, SMALLEST, cap[:, None])
    P[listed_rows, columns] = listed.probabilities[listed_rows, entries]
    P[is_blank(model, rows)] = 0
    return P


def is_blank(model: Model, rows: Any) -> Mask:
    """Return which rows are texts of which the model knows nothing.

    They have no single term of the model, and no name of a label without examples occurs in them.
    A model with a part that reads every text knows something of all but empty ones.
    """
    views = as_views(rows)
    if views.texts is not None and model.reads_every_text:
        is_empty = [not text.strip() for text in views.texts]
        return np.array(is_empty, dtype=bool)
    has_terms = is_sparse(views.features) and not views.has_vectors
    if model.text is None or not has_terms:
        return np.zeros(views.n, dtype=bool)
    n_terms = np.diff(views.features.indptr)
    blank = np.asarray(n_terms == 0)
    if model.unseen_part is None or not blank.any():
        return blank
    without_terms = np.flatnonzero(blank)
    part = model.parts[model.unseen_part]
    view = model.settings.parts[model.unseen_part].view
    blank_rows = views[without_terms].view(view)
    prepared = part.prepare(blank_rows)
    best_name, _ = part.top_among(prepared, model.is_unseen, 1)
    is_without_name = best_name < 0
    blank[without_terms] = is_without_name.all(axis=1)
    return blank


def log_odds(probabilities: Array) -> NDArray[np.float32]:
    """Return the log-odds of probabilities; those of zero are as low as a probability can be."""
    exact = probabilities.astype(np.float64)
    inside = np.clip(exact, SMALLEST, LARGEST)
    exact_log_odds = np.log(inside) - np.log1p(-inside)
    return exact_log_odds.astype(np.float32)


@dataclass(frozen=True)
class ScoredLabels:
    """What the blend knows of some labels of one row, for explanations (m each)."""

    is_listed: Mask
    likelihood: Array  # parts × m
    log_odds_of_parts: Array  # parts × m
    log_frequencies: Array
    comparison: Array  # what ranks in the row and the bound by listed labels add
    log_odds: Array  # of the probability


def scored_labels(model: Model, row: Views, labels: Labels) -> ScoredLabels:
    """Return the terms of the log-odds of ``labels`` for one row."""
    prepared = model.prepared(row)
    of_parts = unlisted_scores(model.parts, prepared, labels[None])
    log_odds_of_parts = np.vstack(of_parts).astype(np.float64)
    frequencies = model.log_frequencies[labels]
    log_frequencies = frequencies.astype(np.float64)
    likelihood = np.zeros(log_odds_of_parts.shape)
    from_ranks = np.zeros(len(labels))
    candidates = _candidates(model, prepared)
    is_label = candidates.is_label[0]
    candidate_labels = candidates.labels[0][is_label]
    is_listed = np.isin(labels, candidate_labels)
    entries = np.searchsorted(candidate_labels, labels[is_listed])
    for number, (name, features) in enumerate(candidates.features.items()):
        weights = np.array(model.blend.weights[name])
        features_of_listed = features[0, entries].astype(np.float64)
        likelihood[number, is_listed] = features_of_listed[:, LIKELIHOOD]
        log_odds_of_parts[number, is_listed] = features_of_listed[:, LOG_ODDS]
        rank_features = features_of_listed[:, DISTANCE:]
        rank_weights = weights[DISTANCE:]
        from_ranks[is_listed] += rank_features @ rank_weights
    blend = model.blend
    of_blend = blend.unlisted_log_odds(list(log_odds_of_parts), log_frequencies)
    of_candidates = blend.log_odds(candidates)[0]
    of_blend[is_listed] = of_candidates[entries]
    probabilities = probabilities_of_all(model, row)[0]
    of_labels = log_odds(probabilities[labels])
    of_probability = of_labels.astype(np.float64)
    return ScoredLabels(
        is_listed=is_listed,
        likelihood=likelihood,
        log_odds_of_parts=log_odds_of_parts,
        log_frequencies=log_frequencies,
        # Competition, bounds and rounding are comparisons with the other labels of the row, too.
        comparison=from_ranks + of_probability - of_blend,
        log_odds=of_probability,
    )


def _candidates(model: Model, prepared: Prepared) -> Candidates:
    """Return the listed labels that have examples."""
    candidates = collect(
        model.parts,
        prepared,
        model.log_frequencies,
        model.blend.list_lengths,
    )
    if model.unseen_part is None:
        return candidates
    return candidates.among(~model.is_unseen)


def _listed_unseen(model: Model, prepared: Prepared, smallest: Array) -> ListedLabels:
    """Return the labels without examples that are at least as likely as the ``smallest`` of the
    others.
    """
    assert model.unseen_part is not None
    part = model.parts[model.unseen_part]
    rows = prepared[model.unseen_part]
    is_known, is_added = _unseen_labels(model, part)
    known, of_known = part.top_among(rows, is_known, MAX_UNSEEN_LABELS)
    added, of_added = part.top_among(rows, is_added, MAX_UNSEEN_LABELS)
    of_known = model.blend.unseen_probabilities(of_known)
    labels, likelihood = rank(
        np.hstack([known, added]).astype(np.int64), np.hstack([of_known, of_added])
    )
    labels = labels[:, :MAX_UNSEEN_LABELS]
    likelihood = likelihood[:, :MAX_UNSEEN_LABELS]
    bar = np.minimum(smallest, LARGEST)
    is_label = labels >= 0
    is_listed = is_label & (likelihood >= bar[:, None])
    labels = np.where(is_listed, labels, -1)
    inside = np.clip(likelihood, SMALLEST, LARGEST)
    probabilities = np.where(is_listed, inside, 0)
    return ListedLabels(labels, probabilities.astype(np.float32))


def _unseen_labels(model: Model, part: Part) -> tuple[Mask, Mask]:
    """Return which labels without examples the fit knew, and which were added later."""
    is_later = np.arange(model.n_labels) >= part.n_fitted_labels
    return model.is_unseen & ~is_later, model.is_unseen & is_later


def _with_shares_of_one(
    seen: ListedLabels,
    unseen: ListedLabels,
) -> tuple[ListedLabels, ListedLabels]:
    """Divide one between labels without examples, which take their probabilities, and others."""
    total = unseen.probabilities.sum(axis=1, keepdims=True)
    taken = np.minimum(total, MAX_UNSEEN_SHARE)
    divisor = np.where(total > 0, total, 1)
    of_unseen = unseen.probabilities * (taken / divisor)
    of_seen = seen.probabilities * (1 - taken)
    of_seen = np.maximum(of_seen, SMALLEST)
    of_seen = np.where(seen.is_label, of_seen, 0)
    shares_of_seen = replace(seen, probabilities=of_seen)
    shares_of_unseen = replace(unseen, probabilities=of_unseen)
    return shares_of_seen, shares_of_unseen


def _merged(seen: ListedLabels, unseen: ListedLabels, n_labels: int) -> ListedLabels:
    """Return the labels of two lists of each row in ascending order."""
    labels = np.hstack([seen.labels, unseen.labels])
    probabilities = np.hstack([seen.probabilities, unseen.probabilities])
    probabilities = probabilities.astype(np.float32)
    last_without_label = np.where(labels < 0, n_labels, labels)
    order = np.argsort(last_without_label, axis=1, kind="stable")

    def ordered(values: Array) -> Array:
        return np.take_along_axis(values, order, axis=1)

    return ListedLabels(ordered(labels), ordered(probabilities))


def _unlisted_log_odds(model: Model, prepared: Prepared, n_rows: int) -> Array:
    """Return the log-odds of all labels (n × c) as if none were listed."""
    of_parts = all_scores(model.parts, prepared, n_rows)
    total = model.blend.unlisted_log_odds(of_parts, model.log_frequencies)
    if model.unseen_part is not None:
        part = model.parts[model.unseen_part]
        likelihood = part.every(prepared[model.unseen_part])
        known, added = _unseen_labels(model, part)
        total[:, known] = log_odds(model.blend.unseen_probabilities(likelihood[:, known]))
        total[:, added] = log_odds(likelihood[:, added])
    return total


def _next_below(probabilities: Array) -> Probabilities:
    """Return the next smaller probabilities."""
    bounded = np.minimum(probabilities, LARGEST)
    bounded = bounded.astype(np.float32)
    zero = np.float32(0)
    below = np.nextafter(bounded, zero)
    return np.maximum(below, SMALLEST)


def _shares(
    log_odds: Array,
    is_unlisted: Array,
    remaining: Array,
    cap: Array,
) -> Array:
    """Divide what remains of the probability of each row among its unlisted labels.

    The shares are proportional to the odds, mixed with equal shares as far as the largest must
    become smaller to stay below ``cap``.
    """
    remaining = remaining[:, None]
    z = np.where(is_unlisted, log_odds, -np.inf)
    shift = z.max(axis=1, keepdims=True, initial=-np.inf)
    is_finite = np.isfinite(shift)
    shift = np.where(is_finite, shift, 0)
    odds = np.exp(z - shift)
    total = odds.sum(axis=1, keepdims=True)
    proportional = remaining * odds / np.maximum(total, SMALLEST_SUM)
    n_unlisted = is_unlisted.sum(axis=1, keepdims=True)
    equal = remaining / np.maximum(n_unlisted, 1)
    largest = proportional.max(axis=1, keepdims=True, initial=0)
    excess = largest - cap[:, None]
    spread = largest - equal
    mixing = excess / np.maximum(spread, SMALLEST_SUM)
    mixing = np.clip(mixing, 0, 1)
    mixed = (1 - mixing) * proportional + mixing * equal
    return np.asarray(mixed)
