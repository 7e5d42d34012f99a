"""The blend of the scorers and the threshold, learned and measured on held-out rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from rembrandt.data.examples import Examples
from rembrandt.linalg.ranking import rank
from rembrandt.metrics import calibration_error, reliability
from rembrandt.metrics.hits import hits
from rembrandt.scorers.blend import Blend, Candidates, UnlistedSample, fit_blend
from rembrandt.scorers.protocol import Array
from rembrandt.scorers.thresholds import Pairs, best_threshold, label_thresholds
from rembrandt.selection.trial import KS, Measures, measures
from rembrandt.settings import Threshold

# Probability from which a calibration error is measured: nearly all candidates are less likely
SHOWN_PROBABILITY = 0.05


@dataclass(frozen=True)
class Blended:
    """A blend of all scorers; its measures come from blends that were learned on other rows."""

    blend: Blend
    measures: Measures
    alone: dict[str, Measures]  # of each scorer by itself
    threshold: float | Array
    calibration_error: float

    def facts(self) -> list[dict[str, Any]]:
        """Return the measures of the blend and of each scorer as JSON, the blend first."""
        together = {"scorers": list(self.alone), **self.measures.facts()}
        return [
            together,
            *({"scorers": [name], **alone.facts()} for name, alone in self.alone.items()),
        ]


def blended(
    candidates: Candidates,
    unlisted: UnlistedSample,
    held: Examples,
    threshold: Threshold,
    list_lengths: Mapping[str, int] = MappingProxyType({}),
) -> Blended:
    """Learn the blend of all scorers, and measure it by blends of either half of the rows."""
    true = hits(held.Y, candidates.labels).astype(np.bool_)
    blend = fit_blend(candidates, true, unlisted, held.multiclass, list_lengths=list_lengths)
    probabilities = np.zeros(candidates.labels.shape, dtype=np.float32)
    for half in (0, 1):
        rows = np.arange(held.n) % 2 == half
        other = fit_blend(candidates.take(~rows), true[~rows], None, held.multiclass, start=blend)
        probabilities[rows] = other.probabilities(candidates.take(rows), held.n_labels)
    is_label = candidates.is_label
    ranked = rank(candidates.labels, np.where(is_label, probabilities, -np.inf))[0]
    pairs = Pairs(
        candidates.labels[is_label],
        probabilities[is_label],
        true[is_label],
        np.bincount(held.Y.indices, minlength=held.n_labels),
    )
    shown = is_label & (probabilities >= SHOWN_PROBABILITY)
    error = calibration_error(reliability(probabilities[shown], true[shown]))
    return Blended(
        blend,
        measures(held, ranked[:, : max(KS)]),
        {name: _alone(candidates, name, held) for name in candidates.features},
        _threshold(threshold, pairs),
        float(error),
    )


def _alone(candidates: Candidates, name: str, held: Examples) -> Measures:
    """Measure the list of one scorer."""
    reciprocal_ranks = candidates.features[name][..., 3]
    in_list = candidates.is_label & (reciprocal_ranks > 0)
    labels = np.where(in_list, candidates.labels, -1)
    ranked = rank(labels, np.where(in_list, reciprocal_ranks, -np.inf))[0]
    return measures(held, ranked[:, : max(KS)])


def _threshold(threshold: Threshold, pairs: Pairs) -> float | Array:
    """Return the probability from which a label is predicted, chosen where a rule is given."""
    if threshold == "micro":
        return best_threshold(pairs)
    if threshold == "macro":
        return label_thresholds(pairs)
    return float(threshold)
