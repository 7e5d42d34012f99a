"""Precision and recall of each label, and the labels with the best and the worst."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rembrandt.metrics.hits import label_counts


@dataclass(frozen=True)
class LabelQuality:
    """How often each label is true, predicted, and both."""

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
        """Harmonic mean of both; 0 for labels that are never found."""
        return 2 * self.found / np.maximum(self.true + self.predicted, 1)

    def extremes(self, n: int = 10, min_count: int = 10) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the ``n`` best and the ``n`` worst labels by F1 among those true ``min_count`` times or more.

        No label is in both. Of labels with the same F1, the more frequent come first.
        """
        frequent = np.flatnonzero(self.true >= min_count)
        best, worst = (
            frequent[np.lexsort((frequent, -self.true[frequent], sign * self.f1[frequent]))] for sign in (-1, 1)
        )
        n = min(n, len(frequent) // 2)
        return best[:n], worst[~np.isin(worst, best[:n])][:n]


def label_quality(truth: Any, labels: ArrayLike) -> LabelQuality:
    """Count true and predicted labels.

    Parameters
    ----------
    truth : sparse matrix of shape (n_samples, n_labels)
        True labels.
    labels : ndarray of shape (n_samples, k)
        Predicted columns, -1 for none.

    Returns
    -------
    LabelQuality
        The counts of every label.
    """
    return LabelQuality(*label_counts(truth, labels))
