"""The best entries of each row of a score matrix, with a fixed rule for ties."""

from typing import Any

import numba as nb
import numpy as np
from numpy.typing import ArrayLike, NDArray

from rembrandt.errors import DataError


def top_k(scores: ArrayLike, k: int) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return the ``k`` best labels of every row and their scores, best first.

    Parameters
    ----------
    scores : array of shape (n_samples, n_labels)
        Scores; NaN and -inf mean no prediction.
    k : int
        Number of labels per row.

    Returns
    -------
    labels : ndarray of shape (n_samples, k)
        Label indices, -1 where a row has fewer than ``k``. Equal scores are ordered by label index.
    scores : ndarray of shape (n_samples, k)
        Their scores, -inf where the label is -1.

    Examples
    --------
    >>> top_k(np.float32([[0.5, 2.0, 0.5, np.nan]]), 2)
    (array([[1, 0]]), array([[2. , 0.5]], dtype=float32))
    """
    block = np.asarray(scores)
    if block.ndim != 2 or k < 1:
        raise DataError(
            f"top_k takes a matrix and k ≥ 1, not an array of shape {block.shape} and k = {k}"
        )
    if block.dtype not in (np.float32, np.float64):
        block = block.astype(np.float32)
    labels = np.full((len(block), k), -1, dtype=np.int64)
    best = np.full((len(block), k), -np.inf, dtype=block.dtype)
    _keep_best(np.ascontiguousarray(block), labels, best)
    return rank(labels, best)


def rank(labels: ArrayLike, scores: ArrayLike) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Order the labels of each row by decreasing score, equal scores by label index; -1 and NaN go
    last.
    """
    labels, scores = np.asarray(labels), np.asarray(scores)
    if labels.shape != scores.shape:
        raise DataError(
            f"labels have shape {labels.shape} and scores {scores.shape}; pass one score per label"
        )
    order = np.lexsort((labels, np.where(labels < 0, np.inf, -scores)), axis=-1)
    return np.take_along_axis(labels, order, axis=-1), np.take_along_axis(scores, order, axis=-1)


@nb.njit(nogil=True, cache=True)
def _keep_best(block: NDArray[Any], labels: NDArray[np.int64], best: NDArray[Any]) -> None:
    """Fill each row of ``labels`` and ``best`` with the best entries of the row, in heap order.

    One pass over each row with a heap whose root is the worst entry kept: the lowest score, and
    among equal scores the highest label. Labels come in increasing order, so a new entry must be
    strictly better than the root; NaN never is.
    """
    n, c = block.shape
    for i in range(n):
        kept, owner = best[i], labels[i]
        for j in range(c):
            score = block[i, j]
            if score > kept[0]:
                replace_worst(kept, owner, score, j)


@nb.njit(nogil=True, cache=True)
def replace_worst(kept: NDArray[Any], owner: NDArray[np.int64], score: Any, label: int) -> None:
    """Replace the root of a heap of scores, the worst entry, by a better one."""
    k, hole = kept.shape[0], 0
    while True:
        child = 2 * hole + 1
        if child >= k:
            break
        other = child + 1
        if other < k and (
            kept[other] < kept[child]
            or (kept[other] == kept[child] and owner[other] > owner[child])
        ):
            child = other
        if kept[child] >= score:  # a child with an equal score has a lower label, so it is better
            break
        kept[hole], owner[hole] = kept[child], owner[child]
        hole = child
    kept[hole], owner[hole] = score, label


@nb.njit(nogil=True, cache=True)
def look_up(
    labels: NDArray[np.int64], listed: NDArray[np.int64], values: NDArray[Any], out: NDArray[Any]
) -> None:
    """Write into ``out`` the value of every label that is in the list of its row; ``labels``
    ascend, -1 last.
    """
    for row in range(len(labels)):
        last = labels.shape[1]
        while last > 0 and labels[row, last - 1] < 0:
            last -= 1
        for place in range(listed.shape[1]):
            label = listed[row, place]
            if label >= 0:
                at = np.searchsorted(labels[row, :last], label)
                if at < last and labels[row, at] == label:
                    out[row, at] = values[row, place]
