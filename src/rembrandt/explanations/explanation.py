"""The explanation of one label: what each feature adds, and where the words occur in the text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rembrandt.features.spans import TermSpans
from rembrandt.forks import cached_property

Array = NDArray[Any]
Segment = tuple[int, int, float]  # start, stop and contribution of some characters of a text


@dataclass(frozen=True)
class Explanation:
    """The log-odds of one label for one row as an exact sum: ``log_odds = base +
    contributions.sum() + comparison``.

    Parameters
    ----------
    label : str or int
        The label.
    column : int
        Its column in the model.
    base : float
        The log-odds of an empty row.
    features : ndarray of shape (n_entries,)
        Columns of the features that the row has.
    contributions : ndarray of shape (n_entries,)
        What each of them adds to the log-odds.
    comparison : float
        What the comparison with the other labels of the row adds.
    names : sequence of str, optional
        Names of all features; None for numbered and for hashed features.
    text : str, optional
        The text, if the row is one.
    occurrences : TermSpans, optional
        Occurrences of the features in the text.
    view_names : mapping, optional
        Names of the numbers that stand for all columns of vectors beside the features.
    estimates : mapping, optional
        For parts that read the text as a whole: start, end and contribution of its words, which are
        estimated by leaving each of them out. They do not add up.
    parts : mapping, optional
        What each part of the model adds to the log-odds: the same sum in another order, ``log_odds
        = base + sum(parts.values()) + comparison``.
    """

    label: Any
    column: int
    base: float
    features: Array
    contributions: Array
    comparison: float = 0.0
    names: Sequence[str] | None = None
    text: str | None = None
    occurrences: TermSpans | None = None
    view_names: Mapping[int, str] = field(default_factory=dict)
    estimates: Mapping[str, list[Segment]] = field(default_factory=dict)
    parts: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def log_odds(self) -> float:
        """The log-odds that are explained."""
        of_row = self.base + self.contributions.sum()
        return float(of_row + self.comparison)

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
        words = []
        for i in self._largest(k):
            name = self.name(int(self.features[i]))
            contribution = float(self.contributions[i])
            words.append((name, contribution))
        return words

    def segments(self) -> list[Segment]:
        """Cut the text into segments that do not overlap; their contributions sum to those of all
        features.

        The contribution of a feature is divided equally among its occurrences, and that of an
        occurrence among the segments it covers by their length.

        Returns
        -------
        list of (int, int, float)
            Start, stop and contribution in the order of the text; empty if the row is not a text.
        """
        occurrences = self.occurrences
        if occurrences is None:
            return []
        starts = occurrences.starts
        stops = occurrences.stops
        feature = np.searchsorted(self.features, occurrences.columns)
        n_occurrences = np.bincount(feature)[feature]
        share = self.contributions[feature] / n_occurrences
        density = share / (stops - starts)

        # The contribution per character rises where an occurrence begins and falls where it ends.
        ends = np.concatenate([starts, stops])
        cuts, cut_of = np.unique(ends, return_inverse=True)
        density_steps = np.concatenate([density, -density])
        densities = np.bincount(cut_of, density_steps, len(cuts)).cumsum()
        count_steps = np.repeat([1, -1], len(density))
        n_covering = np.bincount(cut_of, count_steps, len(cuts)).cumsum()

        segments = []
        for i in np.flatnonzero(n_covering > 0.5).tolist():
            start = cuts[i]
            stop = cuts[i + 1]
            contribution = densities[i] * (stop - start)
            segments.append((int(start), int(stop), float(contribution)))
        return segments

    def document(self, k: int = 20) -> dict[str, Any]:
        """Return the explanation as JSON.

        Parameters
        ----------
        k : int, default=20
            Number of words; the contribution of all others is ``rest``.

        Returns
        -------
        dict
            ``label``, ``log_odds``, ``base``, ``comparison``, ``words`` (each with ``word``,
            ``contribution`` and ``spans``), ``rest``, ``estimates`` (each with ``part`` and
            ``words``) and ``parts`` (each with ``part`` and ``contribution``, the largest first).
        """
        shown = self._largest(k)
        words = []
        for i in shown:
            feature = int(self.features[i])
            word = {
                "word": self.name(feature),
                "contribution": float(self.contributions[i]),
                "spans": self.spans(feature),
            }
            words.append(word)
        not_shown = self.contributions.sum() - self.contributions[shown].sum()
        return {
            "label": self.label,
            "log_odds": self.log_odds,
            "base": self.base,
            "comparison": self.comparison,
            "words": words,
            "rest": float(not_shown),
            "estimates": self._estimates(k),
            "parts": self._parts(),
        }

    def _parts(self) -> list[dict[str, Any]]:
        """Return what each part adds, as JSON."""
        largest_first = sorted(self.parts.items(), key=lambda entry: -abs(entry[1]))
        return [
            {"part": name, "contribution": contribution} for name, contribution in largest_first
        ]

    def _estimates(self, k: int) -> list[dict[str, Any]]:
        """Return the words that parts are estimated to rely on most, as JSON."""
        text = self.text or ""
        documents = []
        for part_name, segments in self.estimates.items():
            largest_first = sorted(segments, key=lambda segment: -abs(segment[2]))
            words = []
            for start, stop, contribution in largest_first[:k]:
                word = {
                    "word": text[start:stop],
                    "contribution": contribution,
                    "spans": [(start, stop)],
                }
                words.append(word)
            documents.append({"part": part_name, "words": words})
        return documents

    def spans(self, feature: int) -> list[tuple[int, int]]:
        """Return start and end of each occurrence of a feature in the text."""
        if self.occurrences is None:
            return []
        is_feature = self.occurrences.columns == feature
        starts = self.occurrences.starts[is_feature].tolist()
        stops = self.occurrences.stops[is_feature].tolist()
        return list(zip(starts, stops, strict=True))

    def name(self, feature: int) -> str:
        """Return the name of a feature; a hashed one as it is spelled in the text."""
        if feature in self.view_names:
            return self.view_names[feature]
        if self.names is not None:
            return str(self.names[feature])
        text = self.text or ""
        spellings = [text[start:stop].lower() for start, stop in self.spans(feature)]
        if not any(spellings):
            return str(feature)
        distinct = dict.fromkeys(spellings)
        return " / ".join(distinct)

    def _largest(self, k: int) -> NDArray[np.int64]:
        """Return the positions of the ``k`` largest contributions, positive or negative."""
        sizes = np.abs(self.contributions)
        largest_first = np.argsort(-sizes, kind="stable")
        return largest_first[:k]
