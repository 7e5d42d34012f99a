"""The explanation of one score: what each feature adds, and where the words occur in the text."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rembrandt.features.spans import TermSpans

Array = NDArray[Any]


@dataclass(frozen=True)
class Explanation:
    """The log-odds of one label for one row as an exact sum: ``score = base + contributions.sum() +
    comparison``.

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

    @cached_property
    def score(self) -> float:
        """The log-odds that are explained."""
        return float(self.base + self.contributions.sum() + self.comparison)

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
        return [
            (self.name(int(self.features[i])), float(self.contributions[i]))
            for i in self._largest(k)
        ]

    def segments(self) -> list[tuple[int, int, float]]:
        """Cut the text into segments that do not overlap; their contributions sum to those of all
        features.

        The contribution of a feature is divided equally among its occurrences, and that of an
        occurrence among the segments it covers by their length.

        Returns
        -------
        list of (int, int, float)
            Start, stop and contribution in the order of the text; empty if the row is not a text.
        """
        found = self.occurrences
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
            (int(cuts[i]), int(cuts[i + 1]), float(densities[i] * (cuts[i + 1] - cuts[i])))
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
            ``label``, ``score``, ``base``, ``comparison``, ``words`` (each with ``word``,
            ``contribution`` and ``spans``) and ``rest``.
        """
        shown = self._largest(k)
        words = [
            {"word": word, "contribution": contribution, "spans": self.spans(int(feature))}
            for (word, contribution), feature in zip(self.top(k), self.features[shown], strict=True)
        ]
        rest = float(self.contributions.sum() - self.contributions[shown].sum())
        facts = {
            "label": self.label,
            "score": self.score,
            "base": self.base,
            "comparison": self.comparison,
        }
        return facts | {"words": words, "rest": rest}

    def spans(self, feature: int) -> list[tuple[int, int]]:
        """Return start and end of each occurrence of a feature in the text."""
        if self.occurrences is None:
            return []
        found = self.occurrences.columns == feature
        return list(
            zip(
                self.occurrences.starts[found].tolist(),
                self.occurrences.stops[found].tolist(),
                strict=True,
            )
        )

    def name(self, feature: int) -> str:
        """Return the name of a feature; a hashed one as it is spelled in the text."""
        if self.names is not None:
            return str(self.names[feature])
        spelled = [(self.text or "")[start:stop].lower() for start, stop in self.spans(feature)]
        return " / ".join(dict.fromkeys(spelled)) or str(feature)

    def _largest(self, k: int) -> NDArray[np.int64]:
        return np.argsort(-np.abs(self.contributions), kind="stable")[:k]
