"""Recall and precision by the training frequency of labels."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rembrandt.errors import DataError
from rembrandt.metrics.hits import label_counts


@dataclass(frozen=True)
class Decile:
    """One tenth of the labels, by training frequency.

    Attributes
    ----------
    rarest, commonest : int
        Training counts of its rarest and its most frequent label.
    n_labels : int
        Number of labels.
    n_true : int
        Number of true labels in the evaluated rows.
    recall : float
        Fraction of those that were predicted; NaN if there are none.
    covered : float
        Fraction of its labels with a true entry that were predicted correctly at least once; NaN if
        there are none.
    n_predicted : int
        Number of predictions.
    precision : float
        Fraction of those that are true; NaN if there are none.
    """

    rarest: int
    commonest: int
    n_labels: int
    n_true: int
    recall: float
    covered: float
    n_predicted: int
    precision: float


def coverage_by_decile(truth: Any, labels: ArrayLike, train_counts: ArrayLike) -> list[Decile]:
    """Return recall, coverage and precision for ten groups of labels of equal size.

    Parameters
    ----------
    truth : sparse matrix of shape (n_samples, n_labels)
        True labels.
    labels : ndarray of shape (n_samples, k)
        Predicted label indices, -1 for no prediction.
    train_counts : ndarray of shape (n_labels,)
        Number of training examples of each label. Labels with the same count are ordered by index.

    Returns
    -------
    list of Decile
        The groups, the most frequent labels first.
    """
    counts = np.asarray(train_counts)
    true, predicted, found = label_counts(truth, labels)
    if counts.shape != true.shape:
        raise DataError(
            f"{counts.size} training counts for {true.size} labels; pass one count per column"
        )
    groups = np.array_split(np.argsort(-counts, kind="stable"), 10)
    return [
        _decile(counts[group], true[group], found[group], predicted[group])
        for group in groups
        if len(group)
    ]


def _decile(counts: Any, true: Any, found: Any, predicted: Any) -> Decile:
    return Decile(
        rarest=int(counts.min()),
        commonest=int(counts.max()),
        n_labels=len(counts),
        n_true=int(true.sum()),
        recall=_fraction(found.sum(), true.sum()),
        covered=_fraction((found > 0).sum(), (true > 0).sum()),
        n_predicted=int(predicted.sum()),
        precision=_fraction(found.sum(), predicted.sum()),
    )


def _fraction(part: Any, whole: Any) -> float:
    return float(part / whole) if whole else float("nan")
