"""Measures on held-out rows, by which settings and blends are compared."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rembrandt.data.examples import Examples
from rembrandt.linalg import Array
from rembrandt.metrics.hits import hits
from rembrandt.metrics.ranking import ndcg, precision
from rembrandt.model.facts import HeldOutMeasures
from rembrandt.parts.protocol import Labels

KS = (1, 3, 5)
# Difference in quality below which settings count as equally good.
SMALLEST_DIFFERENCE = 0.001


@dataclass(frozen=True)
class Measures:
    """P@1, P@3 and P@5 on held-out rows, and the quality by which candidates are compared."""

    precision: tuple[float, float, float]
    quality: float
    row_quality: Array = field(default_factory=lambda: np.empty(0), compare=False, repr=False)

    def better_than(self, other: "Measures") -> bool:
        """Whether the difference in quality is more than its standard error over the rows, and than
        `SMALLEST_DIFFERENCE`.
        """
        n = len(self.row_quality)
        standard_error = 0.0
        if n:
            standard_error = float(np.std(self.row_quality - other.row_quality)) / n**0.5
        return self.quality - other.quality > max(standard_error, SMALLEST_DIFFERENCE)

    def facts(self) -> dict[str, float]:
        """Return the measures as JSON."""
        p1, p3, p5 = self.precision
        return {"p@1": p1, "p@3": p3, "p@5": p5, "quality": self.quality}

    def of_parts(self, names: Any, n_examples: int) -> HeldOutMeasures:
        """Return the measures as what some parts reached on ``n_examples`` examples."""
        p1, p3, p5 = self.precision
        return HeldOutMeasures(tuple(names), p1, p3, p5, self.quality, n_examples)


def measure_labels(held_out: Examples, labels: Labels) -> Measures:
    """Measure the ranked labels of held-out rows."""
    return measure_hits(held_out, hits(held_out.Y, labels))


def measure_hits(held_out: Examples, hit: Array) -> Measures:
    """Measure ranked labels of held-out rows by their hits (n × ranks).

    The quality is P@1 or, where rows have several labels, the mean of P@1 and nDCG@5.
    """
    p1, p3, p5 = (precision(hit, k) for k in KS)
    if held_out.multiclass:
        return Measures((p1, p3, p5), p1, hit[:, 0].astype(np.float64))
    n_labels = np.diff(held_out.Y.indptr)
    row_quality = (hit[:, 0] + ndcg(hit, n_labels, max(KS))) / 2
    return Measures((p1, p3, p5), float(row_quality.mean()), row_quality)


def mean_measures(of_splits: list[Measures]) -> Measures:
    """Average over several splits."""
    p1, p3, p5 = np.mean([measures.precision for measures in of_splits], axis=0).tolist()
    quality = float(np.mean([measures.quality for measures in of_splits]))
    row_quality = np.concatenate([measures.row_quality for measures in of_splits])
    return Measures((p1, p3, p5), quality, row_quality)
