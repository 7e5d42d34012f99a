"""The candidates of a row: the labels that the parts list, with what each part says of them.

Each part lists its best labels of a row, a number of them that the model fixes. The union of the
lists is scored by every part. The features of a score are its likelihood, the log-odds of that, how
far it is below the best of the row, and its reciprocal rank in the part's list. All are on fixed
scales. `blend` turns them into a probability.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from rembrandt.linalg import Array
from rembrandt.linalg.ranking import look_up, rank
from rembrandt.parts.protocol import Labels, Part

Parts = Mapping[str, Part]
PreparedRows = Mapping[str, Any]  # of each part, what its `prepare` returned
Lists = dict[str, tuple[Labels, Array]]  # of each part, ranked labels and their scores

MAX_UNSEEN_LABELS = 20  # labels without examples that are listed for a row
LIST_LENGTH = 10  # labels that a part lists for a row, on average over the parts
SMOOTHED_RANKS = 5  # over which the precision of a list is averaged when its length is chosen
N_FEATURES = 4  # likelihood, its log-odds, distance from the best of the row, reciprocal rank
LIKELIHOOD, LOG_ODDS, DISTANCE, RECIPROCAL_RANK = range(N_FEATURES)
SMALLEST_LIKELIHOOD = 1e-4  # and distance from 1, below which differences are uninformative
LARGEST_LIKELIHOOD = 5.0  # absolute value of least-squares scores


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
        features = {name: self.features[name]}
        return replace(self, features=features)

    def take(self, rows: Array) -> "Candidates":
        """Return the candidates of some rows."""
        features = {}
        for name, values in self.features.items():
            features[name] = values[rows]
        return Candidates(
            labels=self.labels[rows],
            features=features,
            log_frequencies=self.log_frequencies[rows],
        )

    def among(self, is_wanted: Array) -> "Candidates":
        """Return the candidates that are wanted; ``is_wanted`` has a value for each label."""
        is_kept = self.is_label & is_wanted[self.labels]
        wanted_labels = np.where(is_kept, self.labels, -1)
        order = np.argsort(~is_kept, axis=1, kind="stable")  # wanted ones first

        def ordered(values: Array) -> Array:
            return np.take_along_axis(values, order, axis=1)

        order_of_features = order[..., None]
        features = {}
        for name, values in self.features.items():
            features[name] = np.take_along_axis(values, order_of_features, axis=1)
        return Candidates(
            labels=ordered(wanted_labels),
            features=features,
            log_frequencies=ordered(self.log_frequencies),
        )

    @classmethod
    def joined(cls, blocks: list["Candidates"]) -> "Candidates":
        """Stack blocks of rows whose widths may differ."""
        labels = [block.labels for block in blocks]
        log_frequencies = [block.log_frequencies for block in blocks]
        features = {}
        for name in blocks[0].features:
            of_part = [block.features[name] for block in blocks]
            features[name] = _stacked(of_part)
        return cls(
            labels=_stacked(labels, fill=-1),
            features=features,
            log_frequencies=_stacked(log_frequencies),
        )


def _stacked(blocks: list[Array], fill: int = 0) -> Array:
    """Stack arrays of n × m or n × m × 4 that differ in m."""
    widths = [block.shape[1] for block in blocks]
    widest = max(widths)
    padded = []
    for block, width in zip(blocks, widths, strict=True):
        n_missing = widest - width
        before_and_after = [(0, 0)] * block.ndim
        before_and_after[1] = (0, n_missing)
        wide = np.pad(block, before_and_after, constant_values=fill)
        padded.append(wide)
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
        log_odds = self.log_odds[:, [number]]
        return replace(self, log_odds=log_odds)

    @classmethod
    def joined(cls, samples: list["UnlistedSample"]) -> "UnlistedSample":
        """Concatenate samples."""
        log_odds = [sample.log_odds for sample in samples]
        log_frequencies = [sample.log_frequencies for sample in samples]
        true = [sample.true for sample in samples]
        weights = [sample.weights for sample in samples]
        return cls(
            log_odds=np.concatenate(log_odds),
            log_frequencies=np.concatenate(log_frequencies),
            true=np.concatenate(true),
            weights=np.concatenate(weights),
        )


@dataclass(frozen=True)
class UnseenSample:
    """Pairs of a row and a label without examples that a part finds for it."""

    likelihood: Array  # N
    is_true: Array  # N

    @classmethod
    def empty(cls) -> "UnseenSample":
        """Return a sample without pairs."""
        return cls(np.zeros(0, dtype=np.float32), np.zeros(0, dtype=np.bool_))

    @classmethod
    def joined(cls, samples: list["UnseenSample"]) -> "UnseenSample":
        """Concatenate samples."""
        likelihood = [sample.likelihood for sample in samples]
        is_true = [sample.is_true for sample in samples]
        return cls(np.concatenate(likelihood), np.concatenate(is_true))


def log_frequencies_of(label_counts: Array, n_examples: int) -> Array:
    """Return the logarithm of the relative frequency of each label."""
    frequencies = (label_counts + 0.5) / (n_examples + 1)
    return np.log(frequencies).astype(np.float32)


def choose_list_lengths(hits_by_rank: dict[str, Array]) -> dict[str, int]:
    """Return how many labels each part lists: together ten for each, where they are most precise.

    ``hits_by_rank`` are the hits (n × ranks) of the ranked labels of each part on held-out rows.
    A weak part would otherwise list labels that are less likely than many unlisted ones.
    """
    precisions = {}
    beyond = np.zeros(SMOOTHED_RANKS)
    for name, hits in hits_by_rank.items():
        precision = hits.mean(axis=0)
        precisions[name] = np.append(precision, beyond)
    lengths = dict.fromkeys(precisions, 0)

    def next_precision(name: str) -> float:
        start = lengths[name]
        next_ranks = precisions[name][start : start + SMOOTHED_RANKS]
        return float(next_ranks.mean())

    n_listed = LIST_LENGTH * len(lengths)
    for _ in range(n_listed):
        best = max(lengths, key=next_precision)
        lengths[best] += 1
    return lengths


def collect(
    parts: Parts,
    rows: PreparedRows,
    log_frequencies: Array,
    list_lengths: Mapping[str, int] = MappingProxyType({}),
) -> Candidates:
    """Return the candidates of prepared rows: the union of the lists, scored by every part.

    A part without a list, such as one that would have to score all labels to find the best, ranks
    what the others list.
    """
    lists = _lists(parts, rows, list_lengths)
    listed_labels = [listed for listed, _ in lists.values()]
    labels = union(listed_labels)
    features = {}
    for name, part in parts.items():
        part_rows = rows[name]
        if name in lists:
            listed, scores = lists[name]
        else:
            unranked = part.at(part_rows, labels)
            listed, scores = rank(labels, unranked)
            listed = listed[:, :LIST_LENGTH]
            scores = scores[:, :LIST_LENGTH]
        scores_of_union = _scores_of(part, part_rows, labels, listed, scores)
        likelihood = part.likelihood(part_rows, labels, scores_of_union)
        best_label = listed[:, :1]
        best_score = scores[:, :1]
        best = part.likelihood(part_rows, best_label, best_score)
        features[name] = features_of(likelihood, labels, listed, scores, best)
    label_or_first = np.maximum(labels, 0)
    return Candidates(labels, features, log_frequencies[label_or_first])


def _lists(
    parts: Parts,
    rows: PreparedRows,
    list_lengths: Mapping[str, int],
) -> Lists:
    """Return the ranked labels and scores of the parts that list any."""
    lists = {}
    for name, part in parts.items():
        length = list_lengths.get(name, LIST_LENGTH)
        if part.retrieves_labels and length:
            lists[name] = part.top(rows[name], length)
    return lists


def _scores_of(
    part: Part,
    rows: Any,
    labels: Labels,
    listed: Labels,
    scores: Array,
) -> Array:
    """Return a part's scores of ``labels``, of which it has listed some with their scores."""
    result = np.full(labels.shape, np.nan, dtype=scores.dtype)
    look_up(labels, listed, scores, result)
    is_unlisted = np.isnan(result)
    if not is_unlisted.any():
        return result
    unlisted = np.where(is_unlisted, labels, -1)
    their_scores = part.at(rows, unlisted)
    return np.where(is_unlisted, their_scores, result)


def features_of(
    likelihood: Array,
    labels: Labels,
    listed: Labels,
    scores: Array,
    best: Array,
) -> Array:
    """Return the features (n × m × 4) of the likelihoods of ``labels``.

    ``listed`` is the part's list of each row with its ``scores``, and ``best`` the likelihood of
    its first label.
    """
    without_padding = np.where(labels < 0, 0, likelihood)
    bounded = _bounded(without_padding)
    ranks = ranks_of(scores)
    reciprocal_ranks = np.zeros(labels.shape, dtype=np.float32)
    look_up(labels, listed, 1 / ranks, reciprocal_ranks)
    shape = (*labels.shape, N_FEATURES)
    features = np.empty(shape, dtype=np.float32)
    features[..., LIKELIHOOD] = bounded
    features[..., LOG_ODDS] = log_odds_of(bounded)
    features[..., DISTANCE] = _bounded(best) - bounded
    features[..., RECIPROCAL_RANK] = reciprocal_ranks
    return features


def ranks_of(scores: Array) -> Array:
    """Return the ranks, from 1, of descending scores (n × m); equal scores have equal ranks."""
    width = scores.shape[1]
    positions = np.arange(1, width + 1, dtype=np.float32)
    scores_before = scores[:, :-1]
    is_lower = np.ones(scores.shape, dtype=bool)
    is_lower[:, 1:] = scores[:, 1:] < scores_before
    new_ranks = np.where(is_lower, positions, 0)
    ranks = np.maximum.accumulate(new_ranks, axis=1)
    return np.asarray(ranks)


def _bounded(likelihood: Array) -> Array:
    return np.clip(likelihood, -LARGEST_LIKELIHOOD, LARGEST_LIKELIHOOD)


def log_odds_of(likelihood: Array) -> Array:
    """Return the logarithm of the odds, within the range in which differences are informative."""
    inside = np.clip(likelihood, SMALLEST_LIKELIHOOD, 1 - SMALLEST_LIKELIHOOD)
    log_odds = np.log(inside) - np.log1p(-inside)
    return np.asarray(log_odds)


def unlisted_scores(parts: Parts, rows: PreparedRows, labels: Labels) -> list[Array]:
    """Return the log-odds that each part gives to some labels (n × m) of prepared rows."""
    log_odds = []
    for name, part in parts.items():
        part_rows = rows[name]
        scores = part.at(part_rows, labels)
        likelihood = part.likelihood(part_rows, labels, scores)
        without_padding = np.where(labels < 0, 0, likelihood)
        log_odds.append(log_odds_of(without_padding).astype(np.float32))
    return log_odds


def all_scores(parts: Parts, rows: PreparedRows, n_rows: int) -> list[Array]:
    """Return the log-odds that each part gives to all labels (n × c) of prepared rows."""
    log_odds = []
    for name, part in parts.items():
        labels = np.arange(part.n_labels)
        labels_of_rows = np.broadcast_to(labels, (n_rows, part.n_labels))
        scores = part.every(rows[name])
        likelihood = part.likelihood(rows[name], labels_of_rows, scores)
        log_odds.append(log_odds_of(likelihood).astype(np.float32))
    return log_odds


def sample_unlisted(
    parts: Parts,
    rows: PreparedRows,
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
    n_rows, n_true = true_labels.shape
    n_labels = len(log_frequencies)
    drawn = rng.integers(0, n_labels, size=(n_rows, per_row))
    is_true_one = is_among(drawn, true_labels)
    drawn_others = np.where(is_true_one, -1, drawn)
    labels = np.hstack([true_labels, drawn_others])
    is_listed = is_among(labels, candidates.labels)
    is_kept = (labels >= 0) & ~is_listed
    labels = np.where(is_kept, labels, -1)
    log_odds = unlisted_scores(parts, rows, labels)

    is_true = np.zeros(labels.shape, dtype=bool)
    is_true[:, :n_true] = True
    n_kept_true = (is_kept & is_true).sum(axis=1)
    n_kept_drawn = (is_kept & ~is_true).sum(axis=1)
    n_unlisted = n_labels - candidates.is_label.sum(axis=1)
    n_others = n_unlisted - n_kept_true
    weight_of_drawn = n_others / np.maximum(n_kept_drawn, 1)
    weights = np.where(is_true, 1.0, weight_of_drawn[:, None])

    kept_labels = labels[is_kept]
    kept_log_odds = [values[is_kept] for values in log_odds]
    return UnlistedSample(
        log_odds=np.stack(kept_log_odds, axis=1),
        log_frequencies=log_frequencies[kept_labels],
        true=is_true[is_kept],
        weights=weights[is_kept],
    )


def is_among(labels: Labels, others: Labels) -> Array:
    """Return which entries of ``labels`` are in the same row of ``others``; -1 is in none."""
    largest = int(labels.max(initial=0))
    largest_other = int(others.max(initial=0))
    n_codes = max(largest, largest_other) + 1
    rows = np.arange(len(labels))
    # A code for each pair of a row and a label.
    first_codes = rows[:, None] * n_codes
    codes = first_codes + labels
    other_codes = first_codes + others
    is_other = others >= 0
    is_member = np.isin(codes, other_codes[is_other])
    return np.asarray(is_member & (labels >= 0))


def union(lists: list[Labels]) -> Labels:
    """Return the distinct labels of each row of several lists, in ascending order, -1 at the
    end.
    """
    beyond = np.iinfo(np.int64).max  # takes the place of -1 to be sorted to the end
    joined = np.hstack(lists)
    joined = np.sort(joined, axis=1)
    steps = np.diff(joined, axis=1)
    is_repeated = np.zeros(joined.shape, dtype=bool)
    is_repeated[:, 1:] = steps == 0
    is_missing = joined < 0
    joined[is_repeated | is_missing] = beyond
    joined = np.sort(joined, axis=1)
    n_distinct = (joined < beyond).sum(axis=1)
    width = int(n_distinct.max(initial=1))
    distinct = joined[:, :width]
    return np.where(distinct == beyond, -1, distinct)
