"""What an explanation says, feature by feature or over the characters of a text."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rembrandt.checks import plain
from rembrandt.features.spans import TermSpans

Array = NDArray[Any]


class Part(NamedTuple):
    """What one part of a model adds to the scores of labels: to an empty row, and by each feature of a row."""

    base: Array  # n × m
    contributions: Array  # non-zeros × m, in the order of the rows' entries


class Segment(NamedTuple):
    """A piece of a text and what it adds to a score."""

    start: int
    stop: int
    contribution: float


@dataclass(frozen=True)
class Words:
    """What features are called, and where they stand in the texts that they come from."""

    names: Sequence[str] | None = (
        None  # of each column; None where it has a number only or, hashed, the text's own word
    )
    texts: list[str] | None = None
    places: TermSpans | None = None


@dataclass(frozen=True)
class Explanation:
    """Scores as exact sums: ``score = base + Σ contributions`` for each row and each of its labels.

    Entry e of ``features`` and ``contributions`` belongs to row i where ``indptr[i] <= e < indptr[i + 1]``, as in a CSR
    matrix. ``base`` is what a row without any feature scores.
    """

    labels: NDArray[np.int64]  # n × m, columns of the model
    base: Array  # n × m
    indptr: Array  # n + 1
    features: Array  # e: columns of the features
    contributions: Array  # e × m
    names: Array  # of all labels
    words: Words = field(default_factory=Words)

    @cached_property
    def score(self) -> Array:
        """The scores, n × m."""
        sums = np.concatenate([np.zeros((1, self.labels.shape[1])), np.cumsum(self.contributions, axis=0)])
        return self.base + sums[self.indptr[1:]] - sums[self.indptr[:-1]]

    def word(self, entry: int) -> str:
        """What the feature of an entry is called; a hashed one as the text spells it."""
        column = int(self.features[entry])
        if self.words.names is not None:
            return str(self.words.names[column])
        spelled = [self._text(entry)[start:stop].lower() for start, stop in self.spans(entry)]
        return " / ".join(dict.fromkeys(spelled)) or str(column)

    def spans(self, entry: int) -> list[tuple[int, int]]:
        """Where an entry's term stands in its text."""
        if self.words.places is None:
            return []
        first, last = np.searchsorted(self._occurrence_entries[0], [entry, entry + 1])
        chosen = self._occurrence_entries[1][first:last]
        places = self.words.places
        return list(zip(places.starts[chosen].tolist(), places.stops[chosen].tolist(), strict=True))

    def top(self, row: int, column: int = 0, k: int = 10) -> list[tuple[str, float]]:
        """The features that move a label's score most, up or down, with what they add."""
        return [
            (self.word(entry), float(self.contributions[entry, column])) for entry in self._strongest(row, column, k)
        ]

    def highlights(self, row: int, column: int = 0) -> list[Segment]:
        """The text cut into pieces that do not overlap, with what each adds; together all contributions of the row.

        A feature is shared among its occurrences, and an occurrence among the pieces that it covers by their length.
        """
        if self.words.places is None:
            return []
        first, last = np.searchsorted(self._occurrence_entries[0], [self.indptr[row], self.indptr[row + 1]])
        entries, chosen = (part[first:last] for part in self._occurrence_entries)
        starts, stops = self.words.places.starts[chosen], self.words.places.stops[chosen]
        length = stops - starts
        share = (
            self.contributions[entries, column] / np.bincount(entries - self.indptr[row])[entries - self.indptr[row]]
        )
        # The density of what is added, per character, rises where an occurrence begins and falls where it ends.
        cuts, where = np.unique(np.concatenate([starts, stops]), return_inverse=True)
        density = np.bincount(where, np.concatenate([share / length, -share / length]), len(cuts)).cumsum()
        covered = np.bincount(where, np.repeat([1, -1], len(starts)), len(cuts)).cumsum() > 0.5
        return [
            Segment(start, stop, float(weight * (stop - start)))
            for start, stop, weight, inside in zip(
                cuts[:-1].tolist(), cuts[1:].tolist(), density[:-1].tolist(), covered[:-1].tolist(), strict=True
            )
            if inside
        ]

    def document(self, row: int, column: int = 0, k: int = 20) -> dict[str, Any]:
        """The explanation of one score for JSON, with the ``k`` strongest words; ``rest`` is what all others add."""
        entries = self._strongest(row, column, k)
        shown = self.contributions[entries, column]
        return {
            "label": plain(self.names[self.labels[row, column]]),
            "score": float(self.score[row, column]),
            "base": float(self.base[row, column]),
            "words": [
                {"word": self.word(entry), "contribution": float(value), "spans": self.spans(entry)}
                for entry, value in zip(entries.tolist(), shown.tolist(), strict=True)
            ],
            "rest": float(self.score[row, column] - self.base[row, column] - shown.sum()),
        }

    def _strongest(self, row: int, column: int, k: int) -> NDArray[np.int64]:
        entries = np.arange(self.indptr[row], self.indptr[row + 1])
        order = np.argsort(-np.abs(self.contributions[entries, column]), kind="stable")
        return entries[order[:k]]

    def _text(self, entry: int) -> str:
        row = int(np.searchsorted(self.indptr, entry, side="right")) - 1
        return "" if self.words.texts is None else self.words.texts[row]

    @cached_property
    def _occurrence_entries(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The entry that each occurrence belongs to, rising, and the occurrences in that order."""
        places = self.words.places
        if places is None:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        width = int(max(self.features.max(initial=0), places.columns.max(initial=0))) + 1
        rows = np.repeat(np.arange(len(self.indptr) - 1), np.diff(self.indptr))
        entries = np.searchsorted(rows * width + self.features, places.documents * width + places.columns)
        order = np.argsort(entries, kind="stable")
        return entries[order], order
