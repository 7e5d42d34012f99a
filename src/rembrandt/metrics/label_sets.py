"""Measures of label sets, and what a perfect ranking could reach."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rembrandt.metrics.hits import as_truth, label_counts
from rembrandt.metrics.ranking import as_missing


def f1_scores(
    truth: Any, labels: ArrayLike, missing_labels: ArrayLike | None = None, n_missing: int = 0
) -> dict[str, float]:
    """Return the micro and macro F1 of predicted label sets.

    Parameters
    ----------
    truth : sparse matrix of shape (n_samples, n_labels)
        True labels.
    labels : ndarray of shape (n_samples, n_largest)
        Predicted label indices, -1 after the last one of a row.
    missing_labels : ndarray of shape (n_samples,), optional
        Number of true labels of each row that have no column, because training never saw them.
    n_missing : int, default=0
        Number of different labels that have no column.

    Returns
    -------
    dict of str to float
        ``micro_f1``, of all labels together, and ``macro_f1``, the mean over the labels that are true or predicted.
    """
    Y = as_truth(truth)
    true, predicted, found = label_counts(Y, labels)
    total = true.sum() + predicted.sum() + as_missing(missing_labels, Y.shape[0]).sum()
    each = 2 * found / np.maximum(true + predicted, 1)
    n_used = int((true + predicted > 0).sum()) + n_missing
    return {"micro_f1": float(2 * found.sum() / max(total, 1)), "macro_f1": float(each.sum() / max(n_used, 1))}


def largest_precision(truth: Any, k: int) -> float:
    """Return the P@k of a perfect ranking: examples may have fewer than ``k`` labels.

    Parameters
    ----------
    truth : sparse matrix of shape (n_samples, n_labels)
        True labels.
    k : int
        Number of predictions that count.

    Returns
    -------
    float
        A fraction between 0 and 1.
    """
    n_true = np.diff(as_truth(truth).indptr)
    return float(np.minimum(n_true, k).sum() / (k * max(len(n_true), 1)))
