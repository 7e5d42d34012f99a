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
        n_rows = len(self.row_quality)
        standard_error = 0.0
        if n_rows > 0:
            differences = self.row_quality - other.row_quality
            deviation = float(np.std(differences))
            standard_error = deviation / n_rows**0.5
        smallest = max(standard_error, SMALLEST_DIFFERENCE)
        return self.quality - other.quality > smallest

    def facts(self) -> dict[str, float]:
        """Return the measures as JSON."""
        p1, p3, p5 = self.precision
        return {
            "p@1": p1,
            "p@3": p3,
            "p@5": p5,
            "quality": self.quality,
        }

    def of_parts(self, names: Any, n_examples: int) -> HeldOutMeasures:
        """Return the measures as what some parts reached on ``n_examples`` examples."""
        p1, p3, p5 = self.precision
        return HeldOutMeasures(
            parts=tuple(names),
            p1=p1,
            p3=p3,
            p5=p5,
            quality=self.quality,
            n_examples=n_examples,
        )


def measure_labels(held_out: Examples, labels: Labels) -> Measures:
    """Measure the ranked labels of held-out rows."""
    return measure_hits(held_out, hits(held_out.Y, labels))


def measure_hits(held_out: Examples, hit: Array) -> Measures:
    """Measure ranked labels of held-out rows by their hits (n × ranks).

    The quality is P@1 or, where rows have several labels, the mean of P@1 and nDCG@5.
    """
    p1, p3, p5 = (precision(hit, k) for k in KS)
    first_is_right = hit[:, 0]
    if held_out.multiclass:
        row_quality = first_is_right.astype(np.float64)
        quality = p1
    else:
        n_labels = np.diff(held_out.Y.indptr)
        row_ndcg = ndcg(hit, n_labels, max(KS))
        row_quality = (first_is_right + row_ndcg) / 2
        quality = float(row_quality.mean())
    return Measures((p1, p3, p5), quality, row_quality)
