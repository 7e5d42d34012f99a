"""How the scores of several scorers become one, and how that becomes a probability."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from rembrandt.linalg.blocks import as_numpy
from rembrandt.scorers.calibration import MonotoneMap
from rembrandt.scorers.protocol import Array, Labels
from rembrandt.storage.arrays import Arrays, checked, positive

LEAST = 1e-6  # no probability is certain


@dataclass(frozen=True)
class Blend:
    """A weighted mean of the scorers' likelihoods, and a map from it to a probability.

    ``calibration`` is learned on held-out examples; without it the mean itself is clipped to between 0 and 1.
    """

    weights: dict[str, float]
    calibration: MonotoneMap | None = None

    def __call__(self, likelihoods: dict[str, Array]) -> Array:
        """Return the blended score of labels from the likelihoods of each scorer."""
        total: Any = 0
        for name, likelihood in likelihoods.items():
            total = total + likelihood.dtype.type(self.weights[name]) * likelihood
        return np.asarray(total)

    def probability(self, scores: Array) -> Array:
        """Return the probability of labels, each by itself, from their blended scores."""
        if self.calibration is not None:
            return as_numpy(self.calibration(scores))
        return np.clip(scores, LEAST, 1 - LEAST)

    def arrays(self) -> tuple[Arrays, dict[str, Any]]:
        """Return the blend as named arrays and JSON."""
        return {} if self.calibration is None else dict(vars(self.calibration)), {"weights": self.weights}

    @classmethod
    def from_arrays(cls, arrays: Arrays, facts: dict[str, Any]) -> "Blend":
        """Rebuild what `arrays` returned."""
        calibration = None
        if "scores" in arrays:
            scores = checked("scores", arrays, (None,))
            calibration = MonotoneMap(scores, checked("probabilities", arrays, scores.shape, "f", 0, 1.0000001))
        return cls({name: positive(weight, or_zero=True) for name, weight in facts["weights"].items()}, calibration)


def union(lists: list[Labels]) -> Labels:
    """Return the distinct labels of each row of several lists, in ascending order, -1 at the end."""
    joined = np.sort(np.hstack(lists), axis=1)
    joined[:, 1:][joined[:, 1:] == joined[:, :-1]] = -1
    last = np.iinfo(np.int64).max
    joined = np.sort(np.where(joined < 0, last, joined), axis=1)
    return np.where(joined == last, -1, joined)[:, : int((joined < last).sum(axis=1).max(initial=1))]
