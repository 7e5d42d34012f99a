"""Scores by how well the names and descriptions of a label match a text."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from rembrandt.errors import DataError
from rembrandt.kernels import kernel
from rembrandt.linalg import Array
from rembrandt.linalg.ranking import rank
from rembrandt.parts.contributions import Contributions
from rembrandt.parts.names.index import N_FEATURES, NameIndex, StemFrequencies
from rembrandt.parts.names.label_texts import LabelTexts, label_texts
from rembrandt.parts.protocol import Facts, Labels, Part
from rembrandt.storage.arrays import Arrays, checked, finite


class MatchedTexts(NamedTuple):
    """The labels whose names match texts, and their likelihoods."""

    labels: Labels  # n × m, ascending, -1 last
    likelihoods: Array  # n × m, of labels above the floor


@dataclass(frozen=True)
class Names(Part):
    """What is known of labels as text, and what a match says.

    A score is the likelihood that a logistic model gives to the match; that of a label without a
    match is the ``floor``. It does not depend on the examples of the label, so that labels without
    examples have scores, too.
    """

    texts: LabelTexts
    frequencies: StemFrequencies
    weights: Array  # of the features of a match, and a bias
    floor: float

    @property
    def n_labels(self) -> int:
        return self.texts.n_labels

    @property
    def n_features(self) -> int:
        return 1  # the text

    @property
    def scores_unseen_labels(self) -> bool:
        return True

    @cached_property
    def index(self) -> NameIndex:
        """The inverted lists, which are built when they are first needed."""
        return NameIndex.of(self.texts, self.frequencies)

    def prepare(self, X: Any) -> MatchedTexts:
        """Match the names against texts."""
        if X is None:
            raise DataError("the model reads texts; give the texts, not a matrix of their features")
        matches = self.index.match(X, self.weights)
        with np.errstate(over="ignore"):
            likelihoods = (1 / (1 + np.exp(-matches.log_odds))).astype(np.float32)
        is_matched = (matches.labels >= 0) & (likelihoods > np.float32(self.floor))
        labels = np.where(is_matched, matches.labels, self.n_labels)
        order = np.argsort(labels, axis=1, kind="stable")
        labels = np.take_along_axis(labels, order, axis=1)
        likelihoods = np.take_along_axis(likelihoods, order, axis=1)
        return MatchedTexts(np.where(labels == self.n_labels, -1, labels), likelihoods)

    def top(self, rows: MatchedTexts, k: int) -> tuple[Labels, Array]:
        """See `Part`. Labels that do not match follow in their order."""
        scores = np.where(rows.labels < 0, -np.inf, rows.likelihoods).astype(np.float32)
        ranked, ranked_scores = rank(rows.labels, scores)
        n = len(ranked)
        best = np.full((n, k), -1, dtype=np.int64)
        best_scores = np.full((n, k), -np.inf, dtype=np.float32)
        width = min(k, ranked.shape[1])
        best[:, :width] = ranked[:, :width]
        best_scores[:, :width] = ranked_scores[:, :width]
        _fill_unmatched(rows.labels, self.n_labels, np.float32(self.floor), best, best_scores)
        return best, best_scores

    def top_among(self, rows: MatchedTexts, is_allowed: Array, k: int) -> tuple[Labels, Array]:
        """See `Part`. Labels that do not match are left out."""
        is_kept = (rows.labels >= 0) & is_allowed[rows.labels]
        scores = np.where(is_kept, rows.likelihoods, -np.inf).astype(np.float32)
        labels, best = rank(np.where(is_kept, rows.labels, -1), scores)
        return labels[:, :k], best[:, :k]

    def at(self, rows: MatchedTexts, labels: Labels) -> Array:
        scores = np.where(labels < 0, -np.inf, self.floor).astype(np.float32)
        _look_up_matches(rows.labels, rows.likelihoods, labels, scores)
        return scores

    def every(self, rows: MatchedTexts) -> Array:
        scores = np.full((len(rows.labels), self.n_labels), self.floor, dtype=np.float32)
        row, entry = np.nonzero(rows.labels >= 0)
        scores[row, rows.labels[row, entry]] = rows.likelihoods[row, entry]
        return scores

    def explain(self, row: Any, labels: Labels) -> Contributions:
        """See `Part`. The text is one entry."""
        likelihoods = self.at(self.prepare(row), labels[None])[0].astype(np.float64)
        base = np.full(len(labels), np.float64(np.float32(self.floor)))
        return Contributions(base, (likelihoods - base)[None])

    def with_label_names(
        self, classes: Array, names: Sequence[str] | None, descriptions: Sequence[str] | None
    ) -> "Names":
        return replace(self, texts=label_texts(classes, names, descriptions))

    def facts(self) -> Facts:
        n_described = sum(map(bool, self.texts.descriptions))
        return {"names": len(self.texts.names), "descriptions": n_described}

    def arrays(self) -> tuple[Arrays, Facts]:
        arrays = self.texts.arrays() | self.frequencies.arrays()
        arrays["weights"] = np.asarray(self.weights, dtype=np.float32)
        return arrays, {"n_texts": self.frequencies.n_texts, "floor": self.floor}

    @classmethod
    def from_arrays(cls, arrays: Arrays, facts: Facts) -> "Names":
        texts = LabelTexts.from_arrays(arrays)
        frequencies = StemFrequencies.from_arrays(arrays, facts["n_texts"])
        weights = checked("weights", arrays, (N_FEATURES + 1,)).astype(np.float64)
        floor = min(max(finite(facts["floor"]), 0.0), 1.0)
        return cls(texts, frequencies, weights, floor)


@kernel()
def _fill_unmatched(matched: Any, n_labels: int, floor: Any, best: Any, scores: Any) -> None:
    """Fill the ends of rankings with the labels that are not in a row of ``matched``, which
    ascends.
    """
    for row in range(best.shape[0]):
        position = 0
        while position < best.shape[1] and best[row, position] >= 0:
            position += 1
        at = 0
        for label in range(n_labels):
            if position == best.shape[1]:
                break
            if at < matched.shape[1] and matched[row, at] == label:
                at += 1
                continue
            best[row, position] = label
            scores[row, position] = floor
            position += 1


@kernel()
def _look_up_matches(matched: Any, values: Any, labels: Any, out: Any) -> None:
    """Write into ``out`` the value of every label that is in its row of ``matched``, which ascends
    with -1 at the end.
    """
    for row in range(labels.shape[0]):
        last = matched.shape[1]
        while last > 0 and matched[row, last - 1] < 0:
            last -= 1
        for position in range(labels.shape[1]):
            label = labels[row, position]
            at = np.searchsorted(matched[row, :last], label)
            if at < last and matched[row, at] == label:
                out[row, position] = values[row, at]
