"""Measures of ranked predictions: P@k and nDCG@k."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rembrandt.errors import DataError
from rembrandt.linalg import Floats, Indices
from rembrandt.metrics.hits import Hits, as_truth, hits


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
    is_hit = hits(truth, labels)
    return precision(is_hit, k)


def ndcg_at_k(
    truth: Any,
    labels: ArrayLike,
    k: int,
    missing_labels: ArrayLike | None = None,
) -> float:
    """Return nDCG@k, normalized discounted cumulative gain.

    This is the mean over rows of the discounted gain relative to that of the ideal ranking.

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
    is_hit = hits(Y, labels)
    missing = as_missing(missing_labels, Y.shape[0])
    n_true = np.diff(Y.indptr) + missing
    gains = ndcg(is_hit, n_true, k)
    n_rows = max(len(gains), 1)
    return float(gains.sum() / n_rows)


def precision(is_hit: Hits, k: int) -> float:
    """Return P@k from the hits."""
    n_hits = first(is_hit, k).sum()
    n_rows = max(len(is_hit), 1)
    return float(n_hits / (k * n_rows))


def ndcg(is_hit: Hits, n_true: Indices, k: int) -> Floats:
    """Return nDCG@k of each row from its hits and its number of true labels."""
    ranks = np.arange(1, k + 1)
    discounts = 1.0 / np.log2(ranks + 1)
    counted_hits = first(is_hit, k)
    n_ranks = counted_hits.shape[1]
    gains = counted_hits @ discounts[:n_ranks]
    ideal_gains = np.cumsum(discounts)  # of 1, 2, … hits
    n_ideal_hits = np.clip(n_true, 1, k)  # a row without labels has no gain in any case
    return gains / ideal_gains[n_ideal_hits - 1]


def first(columns: NDArray[Any], k: int) -> NDArray[Any]:
    """Return the first ``k`` columns, or all if there are fewer."""
    if k < 1:
        raise DataError(f"k must be at least 1, not {k}")
    return columns[:, :k]


def as_missing(missing_labels: ArrayLike | None, n: int) -> Indices:
    """Return the number of true labels without a column for each row, zero by default."""
    if missing_labels is None:
        return np.zeros(n, dtype=np.int64)
    missing = np.asarray(missing_labels)
    is_integer = np.issubdtype(missing.dtype, np.integer)
    has_shape = missing.shape == (n,)
    if not has_shape or not is_integer or (missing < 0).any():
        raise DataError(
            f"missing_labels must hold a count ≥ 0 for each of the {n} rows; its shape is "
            f"{missing.shape}"
        )
    return missing.astype(np.int64, copy=False)
