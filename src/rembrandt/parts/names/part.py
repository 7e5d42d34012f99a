"""Scores by how well the names and descriptions of a label match a text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rembrandt.errors import DataError, ModelError
from rembrandt.forks import cached_property
from rembrandt.kernels import kernel
from rembrandt.linalg import Array
from rembrandt.linalg.ranking import rank
from rembrandt.parts.contributions import Contributions
from rembrandt.parts.names.encoded import EncodedNames
from rembrandt.parts.names.index import MAX_MATCHES, N_FEATURES, NameIndex
from rembrandt.parts.names.label_texts import LabelTexts, label_texts
from rembrandt.parts.names.similarity import Compared, ComparedLabels, Similarity
from rembrandt.parts.names.stems import StemFrequencies
from rembrandt.parts.names.terms import spell
from rembrandt.parts.protocol import Facts, Labels, Part, TextVectors
from rembrandt.storage.arrays import Arrays, checked, finite, positive


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

    Labels that were added after the fit have no examples that other parts could learn from. Where
    there is a ``similarity``, their names are also compared with what a text says of the words of
    names, and with the text itself where the model has an ``encoder``.
    """

    texts: LabelTexts
    frequencies: StemFrequencies
    weights: Array  # of the features of a match, and a bias
    floor: float
    n_fitted: int  # labels that the fit knew
    similarity: Similarity | None = None
    encoder: TextVectors | None = field(default=None, repr=False, compare=False)

    @property
    def n_labels(self) -> int:
        return self.texts.n_labels

    @property
    def n_features(self) -> int:
        return 1  # the text

    @property
    def scores_unseen_labels(self) -> bool:
        return True

    @property
    def n_fitted_labels(self) -> int:
        return self.n_fitted

    @cached_property
    def index(self) -> NameIndex:
        """The inverted lists, which are built when they are first needed."""
        return NameIndex.of(self.texts, self.frequencies)

    def prepare(self, X: Any) -> MatchedTexts:
        """Match the names against texts."""
        if X is None:
            raise DataError("the model reads texts; give the texts, not a matrix of their features")
        labels, log_odds = self._scored_labels(X)
        with np.errstate(over="ignore"):
            odds_against = np.exp(-log_odds)
        likelihoods = (1 / (1 + odds_against)).astype(np.float32)
        floor = np.float32(self.floor)
        is_likely = (labels >= 0) & (likelihoods > floor)
        no_label = self.n_labels  # which is sorted to the end
        kept = np.where(is_likely, labels, no_label)
        order = np.argsort(kept, axis=1, kind="stable")
        ascending = np.take_along_axis(kept, order, axis=1)
        return MatchedTexts(
            labels=np.where(ascending == no_label, -1, ascending),
            likelihoods=np.take_along_axis(likelihoods, order, axis=1),
        )

    def _scored_labels(self, X: Any) -> tuple[Labels, Array]:
        """Return the labels that match texts or are compared with them, and their log-odds."""
        spelled = spell(X)
        matches = self.index.match(spelled, self.weights, MAX_MATCHES)
        if self.compared_labels is None:
            return matches.labels, matches.log_odds
        assert self.similarity is not None
        encoded_rows = self._encoded_rows(X)
        compared = self.compared_labels.compare(spelled, matches, encoded_rows)
        log_odds = _joined_log_odds(self.similarity, compared)
        return compared.labels, log_odds

    @cached_property
    def compared_labels(self) -> ComparedLabels | None:
        """The labels that were added after the fit; None where they are matched alone."""
        if self.similarity is None or self.n_labels == self.n_fitted:
            return None
        added = np.arange(self.n_fitted, self.n_labels)
        name_vectors = None
        if self._encoded_names is not None:
            name_vectors = self._encoded_names.vectors
        word_map = self.similarity.word_map
        return ComparedLabels(word_map, self.texts, added, name_vectors)

    @property
    def _encoded_names(self) -> EncodedNames | None:
        """The names under the encoder, where they are compared under it."""
        if self.similarity is None:
            return None
        return self.similarity.encoded

    def _encoded_rows(self, X: Any) -> NDArray[np.float32] | None:
        """Return the vectors of texts under the encoder, where names are compared with them."""
        if self._encoded_names is None:
            return None
        assert self.encoder is not None
        vectors = self.encoder.vectors(list(X))
        return self._encoded_names.text_rows(vectors)

    def beside(self, parts: Mapping[str, Part]) -> "Names":
        """See `Part`. Names are compared under the encoder that they were compared under in the
        fit.
        """
        if self._encoded_names is None:
            return self
        encoder = encoder_among(parts)
        if encoder is self.encoder:
            return self
        if encoder is None or encoder.width != self._encoded_names.width:
            raise ModelError("its names of labels were compared by an encoder that it has not")
        return replace(self, encoder=encoder)

    def with_texts(self, texts: LabelTexts) -> "Names":
        """Return a part that knows other names, of labels that may be more."""
        similarity = self.similarity
        if similarity is not None and similarity.encoded is not None:
            assert self.encoder is not None
            encoded = similarity.encoded.renamed(self.texts, texts, self.n_fitted, self.encoder)
            similarity = replace(similarity, encoded=encoded)
        return replace(self, texts=texts, similarity=similarity)

    def top(self, rows: MatchedTexts, k: int) -> tuple[Labels, Array]:
        """See `Part`. Labels that do not match follow in their order."""
        is_matched = rows.labels >= 0
        scores = np.where(is_matched, rows.likelihoods, -np.inf)
        ranked, ranked_scores = rank(rows.labels, scores.astype(np.float32))
        n_rows, n_ranked = ranked.shape
        best = np.full((n_rows, k), -1, dtype=np.int64)
        best_scores = np.full((n_rows, k), -np.inf, dtype=np.float32)
        width = min(k, n_ranked)
        best[:, :width] = ranked[:, :width]
        best_scores[:, :width] = ranked_scores[:, :width]
        floor = np.float32(self.floor)
        _fill_unmatched(rows.labels, self.n_labels, floor, best, best_scores)
        return best, best_scores

    def top_among(
        self,
        rows: MatchedTexts,
        is_allowed: Array,
        k: int,
    ) -> tuple[Labels, Array]:
        """See `Part`. Labels that do not match are left out."""
        is_matched = rows.labels >= 0
        is_kept = is_matched & is_allowed[rows.labels]
        kept = np.where(is_kept, rows.labels, -1)
        scores = np.where(is_kept, rows.likelihoods, -np.inf)
        ranked, ranked_scores = rank(kept, scores.astype(np.float32))
        return ranked[:, :k], ranked_scores[:, :k]

    def at(self, rows: MatchedTexts, labels: Labels) -> Array:
        labels = np.ascontiguousarray(labels, dtype=np.int64)
        scores = np.where(labels < 0, -np.inf, self.floor).astype(np.float32)
        _look_up_matches(rows.labels, rows.likelihoods, labels, scores)
        return scores

    def every(self, rows: MatchedTexts) -> Array:
        shape = (len(rows.labels), self.n_labels)
        scores = np.full(shape, self.floor, dtype=np.float32)
        matched_rows, entries = np.nonzero(rows.labels >= 0)
        labels = rows.labels[matched_rows, entries]
        scores[matched_rows, labels] = rows.likelihoods[matched_rows, entries]
        return scores

    def explain(self, row: Any, labels: Labels) -> Contributions:
        """See `Part`. The text is one entry."""
        matched = self.prepare(row)
        scores = self.at(matched, labels[None])
        likelihoods = scores[0].astype(np.float64)
        # As scores are rounded.
        floor = np.float32(self.floor)
        base = np.full(len(labels), floor, dtype=np.float64)
        added_by_text = likelihoods - base
        return Contributions(base, added_by_text[None])

    def with_label_names(
        self,
        classes: Array,
        names: Sequence[str] | None,
        descriptions: Sequence[str] | None,
        other_names: Sequence[str] | None = None,
    ) -> "Names":
        texts = label_texts(classes, names, descriptions, other_names)
        return self.with_texts(texts)

    def facts(self) -> Facts:
        n_described = sum(map(bool, self.texts.descriptions))
        return {
            "names": len(self.texts.names),
            "descriptions": n_described,
        }

    def arrays(self) -> tuple[Arrays, Facts]:
        arrays = self.texts.arrays() | self.frequencies.arrays()
        arrays["weights"] = np.asarray(self.weights, dtype=np.float32)
        if self.similarity is not None:
            arrays |= self.similarity.arrays()
        facts = {
            "n_texts": self.frequencies.n_texts,
            "floor": self.floor,
            "n_fitted": self.n_fitted,
        }
        return arrays, facts

    @classmethod
    def from_arrays(cls, arrays: Arrays, facts: Facts) -> "Names":
        texts = LabelTexts.from_arrays(arrays)
        frequencies = StemFrequencies.from_arrays(arrays, facts["n_texts"])
        weights = checked("weights", arrays, (N_FEATURES + 1,)).astype(np.float64)
        floor = finite(facts["floor"])
        floor = min(max(floor, 0.0), 1.0)
        n_labels = texts.n_labels
        # A model of an earlier version compares no names.
        n_fitted = positive(facts.get("n_fitted", n_labels), int, or_zero=True)
        n_fitted = min(n_fitted, n_labels)
        n_added = n_labels - n_fitted
        similarity = Similarity.from_arrays(arrays, n_added)
        return cls(
            texts=texts,
            frequencies=frequencies,
            weights=weights,
            floor=floor,
            n_fitted=n_fitted,
            similarity=similarity,
        )


def encoder_among(parts: Mapping[str, Part]) -> TextVectors | None:
    """Return what turns texts into vectors in a model with these parts, where one of them does."""
    for part in parts.values():
        encoder = part.text_vectors
        if encoder is not None:
            return encoder
    return None


def _joined_log_odds(similarity: Similarity, compared: Compared) -> Array:
    """Return the log-odds of compared labels and of labels that match alone."""
    of_added = similarity.log_odds(compared)
    log_odds = np.where(compared.is_compared, of_added, compared.match_log_odds)
    is_missing = np.isnan(log_odds)
    return np.where(is_missing, -np.inf, log_odds)


@kernel("void(int64[:,::1], int64, float32, int64[:,::1], float32[:,::1])")
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


@kernel("void(int64[:,::1], float32[:,::1], int64[:,::1], float32[:,::1])")
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
            at = 0
            high = last
            while at < high:
                middle = (at + high) >> 1
                if matched[row, middle] < label:
                    at = middle + 1
                else:
                    high = middle
            if at < last and matched[row, at] == label:
                out[row, position] = values[row, at]
