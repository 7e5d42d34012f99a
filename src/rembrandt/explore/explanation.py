"""The explanation of one score: what each feature adds, and where the words occur in the text."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rembrandt.features.spans import TermSpans

Array = NDArray[Any]


class Segment(NamedTuple):
    """A piece of a text and what it adds to a score."""

    start: int
    stop: int
    contribution: float


@dataclass(frozen=True)
class Words:
    """Names of the features of one row and, for a text, where they occur."""

    names: Sequence[str] | None = None  # of all columns; None for numbered and for hashed features
    text: str | None = None
    occurrences: TermSpans | None = None

    def spans(self, feature: int) -> list[tuple[int, int]]:
        """Return start and end of each occurrence of a feature in the text."""
        if self.occurrences is None:
            return []
        found = self.occurrences.columns == feature
        starts, stops = self.occurrences.starts[found], self.occurrences.stops[found]
        return list(zip(starts.tolist(), stops.tolist(), strict=True))

    def name(self, feature: int) -> str:
        """Return the name of a feature; a hashed one as it is spelled in the text."""
        if self.names is not None:
            return str(self.names[feature])
        spelled = [(self.text or "")[start:stop].lower() for start, stop in self.spans(feature)]
        return " / ".join(dict.fromkeys(spelled)) or str(feature)


@dataclass(frozen=True)
class Explanation:
    """The score of one label for one row as an exact sum: ``score = base + contributions.sum()``.

    Parameters
    ----------
    label : str or int
        The label.
    column : int
        Its column in the model.
    base : float
        The score of an empty row.
    features : ndarray of shape (n_entries,)
        Columns of the features that the row has.
    contributions : ndarray of shape (n_entries,)
        What each of them adds to the score.
    words : Words
        Names of the features and their occurrences in the text.
    """

    label: Any
    column: int
    base: float
    features: Array
    contributions: Array
    words: Words = field(default_factory=Words)

    @cached_property
    def score(self) -> float:
        """The score that is explained."""
        return float(self.base + self.contributions.sum())

    def top(self, k: int = 10) -> list[tuple[str, float]]:
        """Return the ``k`` features with the largest contributions, positive or negative.

        Parameters
        ----------
        k : int, default=10
            Number of features.

        Returns
        -------
        list of (str, float)
            Names and contributions, the largest first.
        """
        return [(self.words.name(int(self.features[i])), float(self.contributions[i])) for i in self._largest(k)]

    def segments(self) -> list[Segment]:
        """Cut the text into segments that do not overlap; their contributions sum to those of all features.

        The contribution of a feature is divided equally among its occurrences, and that of an occurrence among the
        segments it covers by their length.

        Returns
        -------
        list of Segment
            ``(start, stop, contribution)`` in the order of the text; empty if the row is not a text.
        """
        found = self.words.occurrences
        if found is None:
            return []
        feature = np.searchsorted(self.features, found.columns)
        share = self.contributions[feature] / np.bincount(feature)[feature]
        density = share / (found.stops - found.starts)
        # The contribution per character rises where an occurrence begins and falls where it ends.
        cuts, at = np.unique(np.concatenate([found.starts, found.stops]), return_inverse=True)
        densities = np.bincount(at, np.concatenate([density, -density]), len(cuts)).cumsum()
        covered = np.bincount(at, np.repeat([1, -1], len(density)), len(cuts)).cumsum() > 0.5
        return [
            Segment(int(cuts[i]), int(cuts[i + 1]), float(densities[i] * (cuts[i + 1] - cuts[i])))
            for i in np.flatnonzero(covered).tolist()
        ]

    def document(self, k: int = 20) -> dict[str, Any]:
        """Return the explanation as JSON.

        Parameters
        ----------
        k : int, default=20
            Number of words; the contribution of all others is ``rest``.

        Returns
        -------
        dict
            ``label``, ``score``, ``base``, ``words`` (each with ``word``, ``contribution`` and ``spans``) and ``rest``.
        """
        shown = self._largest(k)
        return {
            "label": self.label,
            "score": self.score,
            "base": self.base,
            "words": [
                {
                    "word": self.words.name(int(self.features[i])),
                    "contribution": float(self.contributions[i]),
                    "spans": self.words.spans(int(self.features[i])),
                }
                for i in shown
            ],
            "rest": float(self.score - self.base - self.contributions[shown].sum()),
        }

    def _largest(self, k: int) -> NDArray[np.int64]:
        return np.argsort(-np.abs(self.contributions), kind="stable")[:k]
