"""The likelihood that a label without examples is right, from its match and its similarity."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rembrandt.forks import cached_property
from rembrandt.linalg import Array
from rembrandt.linalg.blocks import spans
from rembrandt.linalg.cluster_search import paired_scores
from rembrandt.linalg.ranking import look_up, top_k
from rembrandt.parts.names.encoded import EncodedNames
from rembrandt.parts.names.index import Matches
from rembrandt.parts.names.label_texts import LabelTexts
from rembrandt.parts.names.terms import Spelled
from rembrandt.parts.names.word_map import WordMap
from rembrandt.parts.protocol import Labels
from rembrandt.storage.arrays import Arrays, checked

# Labels that are listed for a text because their names are similar to it.
MAX_SIMILAR = 50
# Similarities that are in memory at a time.
BLOCK_SIMILARITIES = 1 << 23
# Features without an encoder, and those of the cosine under one.
N_FEATURES = 7
N_ENCODED_FEATURES = 6


@dataclass(frozen=True)
class Similarity:
    """A map from texts to names, and the weights of a label that has no examples.

    Its log-odds are linear in those of the match of its name, in the cosine of the text and the
    name under the map, and in their products (`similarity_features`). Where the model has an
    encoder, its cosine is one more.
    """

    word_map: WordMap
    weights: Array  # of these features, and a bias
    encoded: EncodedNames | None = None

    def log_odds(self, compared: "Compared") -> Array:
        """Return the log-odds of labels."""
        features = similarity_features(compared)
        # Every entry is computed by the same operations, so that it does not depend on the others.
        total = np.full(compared.labels.shape, self.weights[-1])
        for number, weight in enumerate(self.weights[:-1].tolist()):
            total = total + weight * features[..., number]
        return total

    def arrays(self) -> Arrays:
        """Return map and weights as named arrays."""
        arrays = self.word_map.arrays()
        arrays["map.weights"] = self.weights.astype(np.float32)
        if self.encoded is not None:
            arrays |= self.encoded.arrays()
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Arrays, n_added: int) -> "Similarity | None":
        """Rebuild what `arrays` returned; None where there is no map."""
        if "map.weights" not in arrays:
            return None
        encoded = EncodedNames.from_arrays(arrays, n_added)
        n_features = N_FEATURES
        if encoded is not None:
            n_features += N_ENCODED_FEATURES
        weights = checked("map.weights", arrays, (n_features + 1,)).astype(np.float64)
        return cls(WordMap.from_arrays(arrays), weights, encoded)


def similarity_features(compared: "Compared") -> Array:
    """Return what the log-odds of a label without examples are linear in (… × features).

    A cosine says more of a label whose name does not match, and more where it matches well.
    """
    cosines = compared.cosines
    is_unmatched = np.isnan(compared.match_log_odds)
    matched = np.where(is_unmatched, 0, compared.match_log_odds)
    squares = cosines * np.abs(cosines)
    columns = [
        matched,
        is_unmatched,
        cosines,
        squares,
        matched * cosines,
        is_unmatched * cosines,
        is_unmatched * squares,
    ]
    encoded = compared.encoded_cosines
    if encoded is not None:
        encoded_squares = encoded * np.abs(encoded)
        columns += [
            encoded,
            encoded_squares,
            matched * encoded,
            is_unmatched * encoded,
            is_unmatched * encoded_squares,
            cosines * encoded,
        ]
    return np.stack(columns, axis=-1).astype(np.float64)


class Compared(NamedTuple):
    """What is known of some labels of texts (n × m each)."""

    labels: Labels  # ascending, -1 last
    match_log_odds: Array  # NaN where the name does not match
    cosines: Array
    encoded_cosines: Array | None  # under an encoder
    is_compared: NDArray[np.bool_]  # which have cosines

    def only_compared(self) -> "Compared":
        """Return the compared labels, one after the other."""
        chosen = self.is_compared
        encoded = None
        if self.encoded_cosines is not None:
            encoded = self.encoded_cosines[chosen]
        return Compared(
            labels=self.labels[chosen],
            match_log_odds=self.match_log_odds[chosen],
            cosines=self.cosines[chosen],
            encoded_cosines=encoded,
            is_compared=chosen[chosen],
        )


@dataclass(frozen=True)
class ComparedLabels:
    """Labels whose names are compared with texts."""

    word_map: WordMap
    texts: LabelTexts
    labels: NDArray[np.int64]  # ascending
    encoded_names: NDArray[np.float32] | None = None  # under an encoder, unit vectors

    @cached_property
    def vectors(self) -> NDArray[np.float32]:
        """The unit vectors of the labels, and a column of zeros: no bias."""
        of_all = self.word_map.label_rows(self.texts)
        return _without_bias(of_all[self.labels])

    @cached_property
    def encoded_vectors(self) -> NDArray[np.float32]:
        """The same under an encoder."""
        assert self.encoded_names is not None
        return _without_bias(self.encoded_names)

    def compare(
        self,
        spelled: Spelled,
        matches: Matches,
        encoded_rows: NDArray[np.float32] | None = None,
    ) -> Compared:
        """Return the labels that match texts, and those whose names are most similar to them.

        ``encoded_rows`` are the unit vectors of the texts under an encoder.
        """
        rows = self.word_map.text_rows(spelled)
        has_vector = np.asarray(rows.any(axis=1))
        labels = distinct(matches.labels, self._most_similar(rows, self.vectors))
        if encoded_rows is not None:
            has_vector |= encoded_rows.any(axis=1)
            labels = distinct(labels, self._most_similar(encoded_rows, self.encoded_vectors))

        match_log_odds = np.full(labels.shape, np.nan, dtype=np.float32)
        known_log_odds = matches.log_odds.astype(np.float32)
        look_up(labels, matches.labels, known_log_odds, match_log_odds)

        place = np.full(self.texts.n_labels + 1, -1, dtype=np.int64)
        place[self.labels] = np.arange(len(self.labels))
        is_compared = (place[labels] >= 0) & has_vector[:, None]
        places = np.where(is_compared, place[labels], -1)
        encoded_cosines = None
        if encoded_rows is not None:
            encoded_cosines = _cosines(encoded_rows, self.encoded_vectors, places)
        return Compared(
            labels=labels,
            match_log_odds=match_log_odds,
            cosines=_cosines(rows, self.vectors, places),
            encoded_cosines=encoded_cosines,
            is_compared=is_compared,
        )

    def _most_similar(self, rows: Array, vectors: Array) -> Labels:
        """Return the labels with the largest cosines for each text, -1 after the last."""
        best = most_similar(rows, vectors[:, :-1])
        return np.where(best < 0, -1, self.labels[best])


def _without_bias(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return rows with a column of zeros."""
    zeros = np.zeros((len(rows), 1), dtype=np.float32)
    return np.hstack([rows, zeros])


def _cosines(rows: Array, vectors: Array, places: Labels) -> Array:
    """Return the products of unit rows with the vectors at some places, 0 where there is none."""
    products = np.zeros(places.shape, dtype=np.float32)
    paired_scores(rows, vectors, places, products)
    return np.where(places < 0, np.float32(0), products)


def most_similar(rows: Array, label_vectors: Array) -> Labels:
    """Return the labels with the largest cosines for each text; none for a text of unknown words.

    A few of the last ones may be others where cosines are equal to rounding.
    """
    n_best = min(MAX_SIMILAR, len(label_vectors))
    similar = np.full((len(rows), n_best), -1, dtype=np.int64)
    known = np.flatnonzero(rows.any(axis=1))
    block_rows = max(1, BLOCK_SIMILARITIES // len(label_vectors))
    for span in spans(len(known), block_rows):
        cosines = rows[known[span]] @ label_vectors.T
        labels, _ = top_k(cosines, n_best)
        similar[known[span]] = labels
    return similar


def distinct(matched: Labels, similar: Labels) -> Labels:
    """Return the distinct labels of each row of two lists, ascending, -1 last."""
    last = np.iinfo(np.int64).max
    joined = np.hstack([matched, similar])
    joined = np.sort(np.where(joined < 0, last, joined), axis=1)
    is_repeated = joined[:, 1:] == joined[:, :-1]
    joined[:, 1:][is_repeated] = last
    joined = np.sort(joined, axis=1)
    return np.where(joined == last, -1, joined)
