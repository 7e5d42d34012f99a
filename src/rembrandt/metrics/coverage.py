"""Recall and precision by the training frequency of labels."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rembrandt.errors import DataError
from rembrandt.linalg import Indices
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
    n_true, n_predicted, n_hits = label_counts(truth, labels)
    if counts.shape != n_true.shape:
        raise DataError(
            f"{counts.size} training counts for {n_true.size} labels; pass one count per column"
        )
    order = np.argsort(-counts, kind="stable")
    deciles = []
    for group in np.array_split(order, 10):
        if len(group) > 0:
            decile = _decile(counts[group], n_true[group], n_hits[group], n_predicted[group])
            deciles.append(decile)
    return deciles


def _decile(
    counts: NDArray[Any],
    n_true: Indices,
    n_hits: Indices,
    n_predicted: Indices,
) -> Decile:
    """Summarize the counts of the labels of one group."""
    total_true = n_true.sum()
    total_hits = n_hits.sum()
    total_predicted = n_predicted.sum()
    n_labels_hit = (n_hits > 0).sum()
    n_labels_true = (n_true > 0).sum()
    return Decile(
        rarest=int(counts.min()),
        commonest=int(counts.max()),
        n_labels=len(counts),
        n_true=int(total_true),
        recall=_fraction(total_hits, total_true),
        covered=_fraction(n_labels_hit, n_labels_true),
        n_predicted=int(total_predicted),
        precision=_fraction(total_hits, total_predicted),
    )


def _fraction(count: Any, total: Any) -> float:
    """``count / total``, or NaN where there is nothing to count."""
    if total == 0:
        return float("nan")
    return float(count / total)
