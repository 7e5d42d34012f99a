"""Measures of ranked predictions: P@k and nDCG@k."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rembrandt.errors import DataError
from rembrandt.metrics.hits import as_truth, hits


def precision_at_k(truth: Any, labels: ArrayLike, k: int) -> float:
    """Return P@k, the mean over rows of (true labels among the first ``k`` predictions) / k.

    Parameters
    ----------
    truth : sparse matrix of shape (n_samples, n_labels)
        True labels.
    labels : ndarray of shape (n_samples, n_ranks)
        Predicted label indices in rank order, -1 for no prediction.
    k : int
        Number of predictions that count.

    Returns
    -------
    float
        A fraction between 0 and 1.
    """
    return precision(hits(truth, labels), k)


def ndcg_at_k(
    truth: Any, labels: ArrayLike, k: int, missing_labels: ArrayLike | None = None
) -> float:
    """Return nDCG@k, the mean over rows of the discounted gain relative to that of the ideal
    ranking.

    Parameters
    ----------
    truth, labels, k
        As in `precision_at_k`.
    missing_labels : ndarray of shape (n_samples,), optional
        Number of true labels of each row that have no column; the ideal ranking contains them.

    Returns
    -------
    float
        A fraction between 0 and 1.
    """
    Y = as_truth(truth)
    gains = ndcg(hits(Y, labels), np.diff(Y.indptr) + as_missing(missing_labels, Y.shape[0]), k)
    return float(gains.sum() / max(len(gains), 1))


def precision(found: NDArray[np.bool_], k: int) -> float:
    """Return P@k from the hits."""
    return float(first(found, k).sum() / (k * max(len(found), 1)))


def ndcg(found: NDArray[np.bool_], n_true: NDArray[np.int64], k: int) -> NDArray[np.float64]:
    """Return nDCG@k of each row from its hits and its number of true labels."""
    discounts = 1.0 / np.log2(np.arange(2, k + 2))
    gains = first(found, k) @ discounts[: found.shape[1]]
    return (
        gains / np.cumsum(discounts)[np.clip(n_true, 1, k) - 1]
    )  # rows without labels have no gain


def first(found: NDArray[Any], k: int) -> NDArray[Any]:
    """Return the first ``k`` columns, or all if there are fewer."""
    if k < 1:
        raise DataError(f"k must be at least 1, not {k}")
    return found[:, :k]


def as_missing(missing_labels: ArrayLike | None, n: int) -> NDArray[np.int64]:
    """Return the number of true labels without a column for each row, zero by default."""
    missing = np.zeros(n, dtype=np.int64) if missing_labels is None else np.asarray(missing_labels)
    if missing.shape != (n,) or not np.issubdtype(missing.dtype, np.integer) or (missing < 0).any():
        raise DataError(
            f"missing_labels must hold a count ≥ 0 for each of the {n} rows; its shape is "
            f"{missing.shape}"
        )
    return missing.astype(np.int64, copy=False)
