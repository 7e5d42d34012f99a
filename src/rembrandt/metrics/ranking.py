"""Ranking labels by score, and how good a ranking is: error, P@k, nDCG@k."""

from typing import Any

import numba as nb
import numpy as np
from numpy.typing import ArrayLike, NDArray

from rembrandt.errors import DataError
from rembrandt.metrics.hits import as_truth, hits


def top_k(scores: ArrayLike, k: int) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return the k best labels of every row of a dense block, and their scores, best first.

    Equal scores are ranked by label index, the lower first. NaN and -inf mean "no prediction"; where fewer than k
    labels remain, the row ends in label -1 with score -inf.

    >>> top_k(np.float32([[0.5, 2.0, 0.5, np.nan]]), 2)
    (array([[1, 0]]), array([[2. , 0.5]], dtype=float32))
    """
    block = np.asarray(scores)
    if block.ndim != 2 or k < 1:
        raise DataError(f"top_k takes a block of rows and k ≥ 1, not an array of shape {block.shape} and k = {k}")
    if block.dtype not in (np.float32, np.float64):
        block = block.astype(np.float32)
    labels = np.full((len(block), k), -1, dtype=np.int64)
    best = np.full((len(block), k), -np.inf, dtype=block.dtype)
    _keep_best(np.ascontiguousarray(block), labels, best)
    return rank(labels, best)


def rank(labels: ArrayLike, scores: ArrayLike) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Order each row's labels by falling score, equal scores by label index; no prediction (-1) and NaN go last."""
    labels, scores = np.asarray(labels), np.asarray(scores)
    if labels.shape != scores.shape:
        raise DataError(f"labels have shape {labels.shape} and scores {scores.shape}; pass one score per label")
    falling = np.where(labels < 0, np.inf, -scores)
    order = np.lexsort((labels, falling), axis=-1)
    return np.take_along_axis(labels, order, axis=-1), np.take_along_axis(scores, order, axis=-1)


@nb.njit(nogil=True, cache=True)
def _keep_best(block: NDArray[Any], labels: NDArray[np.int64], best: NDArray[Any]) -> None:
    """Fill each row of ``labels`` and ``best`` with the row's best entries, in heap order.

    One pass per row over a heap whose root is the worst entry kept: the lowest score, and among equals the highest
    label. Labels come in rising order, so a newcomer must be strictly better than the root, which NaN never is.
    """
    n, c = block.shape
    k = labels.shape[1]
    for i in range(n):
        kept, owner = best[i], labels[i]
        for j in range(c):
            score = block[i, j]
            if not score > kept[0]:
                continue
            hole = 0
            while True:
                child = 2 * hole + 1
                if child >= k:
                    break
                other = child + 1
                if other < k and (
                    kept[other] < kept[child] or (kept[other] == kept[child] and owner[other] > owner[child])
                ):
                    child = other
                if kept[child] >= score:  # an equal child has the lower label: it is the better, and belongs below
                    break
                kept[hole], owner[hole] = kept[child], owner[child]
                hole = child
            kept[hole], owner[hole] = score, j


def precision_at_k(truth: Any, labels: ArrayLike, k: int) -> float:
    """Return the mean over rows of (true labels among the first k predictions) / k."""
    return precision(hits(truth, labels), k)


def error(truth: Any, labels: ArrayLike) -> float:
    """Return the fraction of rows whose first prediction is not a true label; with one label a row, the error rate."""
    return 1.0 - precision_at_k(truth, labels, 1)


def ndcg_at_k(truth: Any, labels: ArrayLike, k: int, missing_labels: ArrayLike | None = None) -> float:
    """Return the mean over rows of the discounted gain of the first k predictions relative to the ideal ranking's.

    ``missing_labels`` is each row's number of true labels that have no column; the ideal ranking would hold them too.
    """
    Y = as_truth(truth)
    gains = ndcg(hits(Y, labels), np.diff(Y.indptr) + as_missing(missing_labels, Y.shape[0]), k)
    return float(gains.sum() / max(len(gains), 1))


def precision(found: NDArray[np.bool_], k: int) -> float:
    """Return P@k of rows whose hits are known."""
    return float(first(found, k).sum() / (k * max(len(found), 1)))


def ndcg(found: NDArray[np.bool_], n_true: NDArray[np.int64], k: int) -> NDArray[np.float64]:
    """Return nDCG@k of each row, from its hits and its number of true labels."""
    discounts = 1.0 / np.log2(np.arange(2, k + 2))
    gains = first(found, k) @ discounts[: found.shape[1]]
    ideal = np.cumsum(discounts)[np.clip(n_true, 1, k) - 1]  # a row without labels has no gains, whatever divides them
    return gains / ideal


def first(found: NDArray[Any], k: int) -> NDArray[Any]:
    """Return the first k columns, or all when there are fewer: ranks that nobody predicted are misses."""
    if k < 1:
        raise DataError(f"k must be at least 1, not {k}")
    return found[:, :k]


def as_missing(missing_labels: ArrayLike | None, n: int) -> NDArray[np.int64]:
    """Return the number of true labels without a column, per row; none unless told."""
    missing = np.zeros(n, dtype=np.int64) if missing_labels is None else np.asarray(missing_labels)
    if missing.shape != (n,) or not np.issubdtype(missing.dtype, np.integer) or (missing < 0).any():
        raise DataError(
            f"missing_labels must hold one count ≥ 0 for each of the {n} rows; it has shape {missing.shape}"
        )
    return missing.astype(np.int64, copy=False)
