"""How well each label is found: the best and the worst of them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rembrandt.metrics.hits import as_ranked, as_truth, hits


@dataclass(frozen=True)
class LabelQuality:
    """For each label how often it is true, predicted, and both."""

    true: NDArray[np.int64]
    predicted: NDArray[np.int64]
    found: NDArray[np.int64]

    @property
    def recall(self) -> NDArray[np.float64]:
        """NaN for labels that are never true."""
        return np.divide(self.found, self.true, out=np.full(len(self.true), np.nan), where=self.true > 0)

    @property
    def precision(self) -> NDArray[np.float64]:
        """NaN for labels that are never predicted."""
        return np.divide(self.found, self.predicted, out=np.full(len(self.true), np.nan), where=self.predicted > 0)

    @property
    def f1(self) -> NDArray[np.float64]:
        """The harmonic mean of both; 0 for labels that are never found."""
        return 2 * self.found / np.maximum(self.true + self.predicted, 1)

    def extremes(self, n: int = 10, least: int = 10) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The best and the worst ``n`` labels by F1, of those true ``least`` times or more; no label is in both.

        Among equals the more frequent come first: they say more.
        """
        judged = np.flatnonzero(self.true >= least)
        order = judged[np.lexsort((judged, -self.true[judged], -self.f1[judged]))]
        n = min(n, len(order) // 2)
        worst = judged[np.lexsort((judged, -self.true[judged], self.f1[judged]))]
        return order[:n], worst[~np.isin(worst, order[:n])][:n]


def label_quality(truth: Any, labels: ArrayLike) -> LabelQuality:
    """Count over the rows of the truth and the predicted columns, n × k."""
    Y = as_truth(truth)
    ranked = as_ranked(labels, Y)
    c = Y.shape[1]
    return LabelQuality(
        true=np.bincount(Y.indices, minlength=c),
        predicted=np.bincount(ranked[ranked >= 0], minlength=c),
        found=np.bincount(ranked[hits(Y, ranked)], minlength=c),
    )
