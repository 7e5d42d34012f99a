"""Which scorers a model keeps, their blend and the threshold: learned on held-out rows."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from rembrandt.data.examples import Examples
from rembrandt.linalg.ranking import rank
from rembrandt.metrics import calibration_error, reliability
from rembrandt.metrics.hits import hits
from rembrandt.recipe import ScorerName, Threshold
from rembrandt.scorers.blend import Blend, Candidates, fit_blend, probabilities
from rembrandt.scorers.protocol import Array
from rembrandt.scorers.thresholds import Pairs, best_threshold, label_thresholds
from rembrandt.selection.trial import KS, Measures, measures


@dataclass(frozen=True)
class Blended:
    """A blend of some scorers; its measures come from blends that were learned on other rows."""

    blend: Blend
    measures: Measures
    threshold: float | Array
    calibration_error: float

    @property
    def names(self) -> tuple[ScorerName, ...]:
        """Names of the scorers."""
        return tuple(self.blend.weights)  # type: ignore[arg-type]

    def facts(self) -> dict[str, Any]:
        """Return the scorers and their measures as JSON."""
        return {"scorers": list(self.names), **self.measures.facts()}


def blends(
    candidates: Candidates, held: Examples, threshold: Threshold, proposing: set[str], chance: float
) -> list[Blended]:
    """Learn a blend of every subset of the scorers with one that proposes labels, the best first.

    Of blends whose quality differs by less than ``chance`` from the best, the one with the fewest
    scorers comes first.
    """
    subsets = [names for names in _subsets(tuple(candidates.features)) if proposing & set(names)]
    found = [_blended(candidates.of(names), held, threshold) for names in subsets]
    most = max(each.measures.quality for each in found)
    return sorted(
        found,
        key=lambda each: (
            each.measures.quality < most - chance,
            len(each.names),
            -each.measures.quality,
        ),
    )


def _subsets(names: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for size in range(1, len(names) + 1):
        yield from combinations(names, size)


def _blended(own: Candidates, held: Examples, threshold: Threshold) -> Blended:
    true = hits(held.Y, own.labels)
    likely, z = np.zeros(own.labels.shape), np.full(own.labels.shape, -np.inf, dtype=np.float32)
    for half in (0, 1):
        mine = np.arange(held.n) % 2 == half
        learned = fit_blend(own.take(~mine), true[~mine], held.multiclass)
        part = own.take(mine)
        z[mine] = learned.log_odds(part)
        likely[mine] = probabilities(z[mine], part.listed, held.n_labels, held.multiclass)
    best, scores = rank(own.labels, np.where(own.given & own.listed, likely, -np.inf))
    best, scores = best[:, : max(KS)], scores[:, : max(KS)]
    shown = best >= 0
    error = calibration_error(reliability(scores[shown], hits(held.Y, best)[shown]))
    pairs = Pairs(
        own.labels[own.given],
        likely[own.given],
        true[own.given],
        np.bincount(held.Y.indices, minlength=held.n_labels),
    )
    chosen: Any = {"micro": best_threshold, "macro": label_thresholds}.get(
        str(threshold), lambda _: threshold
    )(pairs)
    return Blended(
        fit_blend(own, true, held.multiclass), measures(held, best), chosen, float(error)
    )
