"""A rising map from scores to probabilities, learnt from which scores turned out right."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from rembrandt.linalg.blocks import Block

Array = NDArray[Any]
KNOTS = 256  # of a map, at most
LEAST, MOST = 1e-9, 1 - 1e-6  # no score is certain


@dataclass(frozen=True)
class MonotoneMap:
    """Straight between its knots, flat beyond them."""

    scores: Array  # rising
    probabilities: Array  # not falling

    def __call__(self, values: Block) -> Block:
        xp = array_namespace(values)
        x, y = (
            xp.asarray(each, dtype=values.dtype, device=values.device) for each in (self.scores, self.probabilities)
        )
        at = xp.clip(xp.searchsorted(x, values), 1, len(self.scores) - 1)
        left, low = x[at - 1], y[at - 1]
        share = xp.clip((values - left) / (x[at] - left), 0.0, 1.0)
        return low + share * (y[at] - low)


def fit_monotone(scores: Array, right: Array, weights: Array) -> MonotoneMap:
    """The rising map nearest to what came, in squares: isotonic regression, at no more than a few hundred knots."""
    from sklearn.isotonic import IsotonicRegression

    fitted = IsotonicRegression(y_min=LEAST, y_max=MOST, out_of_bounds="clip").fit(scores, right, weights)
    x, y = (np.asarray(each, dtype=np.float64) for each in (fitted.X_thresholds_, fitted.y_thresholds_))
    if len(x) > KNOTS:
        kept = np.unique(np.linspace(0, len(x) - 1, KNOTS).astype(np.int64))
        x, y = x[kept], y[kept]
    # Knots must stay apart in single precision, which models may be in.
    apart = np.append(True, np.diff(x.astype(np.float32)) > 0)
    x, y = x[apart], y[apart]
    if len(x) < 2:
        x, y = np.array([x[0], x[0] + 1.0]), np.array([y[0], y[0]])
    return MonotoneMap(x, y)
