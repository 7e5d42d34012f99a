"""The blend of the parts and the threshold, learned and measured on held-out rows."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from rembrandt.blend import Blend, fit_blend
from rembrandt.candidates import Candidates, UnlistedSample
from rembrandt.data.examples import Examples
from rembrandt.declarations import Threshold
from rembrandt.linalg import Array
from rembrandt.linalg.ranking import rank
from rembrandt.metrics import calibration_error, reliability
from rembrandt.metrics.hits import hits
from rembrandt.model.facts import HeldOutMeasures
from rembrandt.parts.protocol import Labels
from rembrandt.search.measures import KS, Measures, measure_hits, measure_labels
from rembrandt.thresholds import Pairs, best_threshold, label_thresholds

# Probability from which a calibration error is measured: nearly all candidates are less likely
SHOWN_PROBABILITY = 0.05


@dataclass(frozen=True)
class Blended:
    """A blend of all parts; its measures come from blends that were learned on other rows."""

    blend: Blend
    measures: Measures
    alone: dict[str, Measures]  # of each part by itself
    threshold: float | Array
    calibration_error: float

    def held_out_measures(self, n_examples: int) -> tuple[HeldOutMeasures, ...]:
        """Return the measures of the blend and of each part, the blend first."""
        together = self.measures.of_parts(self.alone, n_examples)
        alone = [measures.of_parts([name], n_examples) for name, measures in self.alone.items()]
        return (together, *alone)


def blended(
    candidates: Candidates,
    unlisted: UnlistedSample,
    held: Examples,
    threshold: Threshold,
    list_lengths: Mapping[str, int] = MappingProxyType({}),
    ranked_hits: Mapping[str, Array] = MappingProxyType({}),
) -> Blended:
    """Learn the blend of all parts, and measure it by blends of either half of the rows.

    ``ranked_hits`` (n × ranks) are the hits of the labels that each part ranks first; a part
    that finds no labels itself is measured on those that the others list.
    """
    together = _cross_fitted(candidates, unlisted, held)
    alone = {name: _alone(candidates, name, held) for name in candidates.features}
    alone |= {name: measure_hits(held, hit) for name, hit in ranked_hits.items()}
    probabilities = together.probabilities
    true = hits(held.Y, candidates.labels).astype(np.bool_)
    is_label = candidates.is_label
    pairs = Pairs(
        candidates.labels[is_label],
        probabilities[is_label],
        true[is_label],
        np.bincount(held.Y.indices, minlength=held.n_labels),
    )
    shown = is_label & (probabilities >= SHOWN_PROBABILITY)
    error = calibration_error(reliability(probabilities[shown], true[shown]))
    return Blended(
        replace(together.blend, list_lengths=dict(list_lengths)),
        together.measures,
        alone,
        _threshold(threshold, pairs),
        float(error),
    )


@dataclass(frozen=True)
class _CrossFitted:
    """A blend of all held-out rows, and probabilities by blends of the other half of the rows."""

    blend: Blend
    probabilities: Array
    measures: Measures


def _cross_fitted(candidates: Candidates, unlisted: UnlistedSample, held: Examples) -> _CrossFitted:
    true = hits(held.Y, candidates.labels).astype(np.bool_)
    blend = fit_blend(candidates, true, unlisted, held.multiclass)
    probabilities = np.zeros(candidates.labels.shape, dtype=np.float32)
    for half in (0, 1):
        rows = np.arange(held.n) % 2 == half
        other = fit_blend(candidates.take(~rows), true[~rows], None, held.multiclass, start=blend)
        probabilities[rows] = other.probabilities(candidates.take(rows), held.n_labels)
    ranked = _ranked(candidates, probabilities)
    return _CrossFitted(blend, probabilities, measure_labels(held, ranked[:, : max(KS)]))


def _alone(candidates: Candidates, name: str, held: Examples) -> Measures:
    """Measure the ranking of the listed labels by one part."""
    likelihood = candidates.features[name][..., 0]
    return measure_labels(held, _ranked(candidates, likelihood)[:, : max(KS)])


def _ranked(candidates: Candidates, probabilities: Array) -> Labels:
    """Return the labels of each row, the most probable first."""
    scores = np.where(candidates.is_label, probabilities, -np.inf)
    return rank(candidates.labels, scores)[0]


def _threshold(threshold: Threshold, pairs: Pairs) -> float | Array:
    """Return the probability from which a label is predicted, chosen where a rule is given."""
    if threshold == "micro":
        return best_threshold(pairs)
    if threshold == "macro":
        return label_thresholds(pairs)
    return float(threshold)
