"""The best entries of each row of a score matrix, with a fixed rule for ties."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rembrandt.errors import DataError
from rembrandt.kernels import inner_kernel, kernel


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
    n_rows = len(block)
    labels = np.full((n_rows, k), -1, dtype=np.int64)
    best = np.full((n_rows, k), -np.inf, dtype=block.dtype)
    _keep_best(np.ascontiguousarray(block), labels, best)
    return rank(labels, best)


def rank(labels: ArrayLike, scores: ArrayLike) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Order the labels of each row by decreasing score.

    Equal scores are ordered by label index; -1 and NaN go last.
    """
    labels = np.asarray(labels)
    scores = np.asarray(scores)
    if labels.shape != scores.shape:
        raise DataError(
            f"labels have shape {labels.shape} and scores {scores.shape}; pass one score per label"
        )
    keys = np.where(labels < 0, np.inf, -scores)
    order = np.lexsort((labels, keys), axis=-1)
    ranked_labels = np.take_along_axis(labels, order, axis=-1)
    ranked_scores = np.take_along_axis(scores, order, axis=-1)
    return ranked_labels, ranked_scores


@kernel(
    "void(float32[:,::1], int64[:,::1], float32[:,::1])",
    "void(float64[:,::1], int64[:,::1], float64[:,::1])",
)
def _keep_best(block: NDArray[Any], labels: NDArray[np.int64], best: NDArray[Any]) -> None:
    """Fill each row of ``labels`` and ``best`` with the best entries of the row, in heap order.

    One pass over each row with a heap whose root is the worst entry kept: the lowest score, and
    among equal scores the highest label. Labels come in increasing order, so a new entry must be
    strictly better than the root; NaN never is.
    """
    n_rows, n_labels = block.shape
    for i in range(n_rows):
        row_scores = best[i]
        row_labels = labels[i]
        for label in range(n_labels):
            score = block[i, label]
            if score > row_scores[0]:
                replace_worst(row_scores, row_labels, score, label)


@inner_kernel()
def replace_worst(
    row_scores: NDArray[Any], row_labels: NDArray[np.int64], score: Any, label: int
) -> None:
    """Replace the root of a heap of scores, the worst entry, by a better one."""
    k = row_scores.shape[0]
    hole = 0
    while True:
        child = 2 * hole + 1
        if child >= k:
            break
        other = child + 1
        if other < k:
            is_lower = row_scores[other] < row_scores[child]
            is_equal = row_scores[other] == row_scores[child]
            if is_lower or (is_equal and row_labels[other] > row_labels[child]):
                child = other
        if row_scores[child] >= score:  # with an equal score it has a lower label: it is better
            break
        row_scores[hole] = row_scores[child]
        row_labels[hole] = row_labels[child]
        hole = child
    row_scores[hole] = score
    row_labels[hole] = label


def look_up(
    labels: NDArray[np.int64], listed: NDArray[np.int64], values: NDArray[Any], out: NDArray[Any]
) -> None:
    """Write into ``out`` the value of every label that is in the list of its row.

    The ``labels`` of a row ascend, with -1 at the end.
    """
    labels = np.ascontiguousarray(labels)
    listed = np.ascontiguousarray(listed)
    _look_up(labels, listed, np.ascontiguousarray(values), out)


@kernel("void(int64[:,::1], int64[:,::1], float32[:,::1], float32[:,::1])")
def _look_up(
    labels: NDArray[np.int64], listed: NDArray[np.int64], values: NDArray[Any], out: NDArray[Any]
) -> None:
    """Search the labels of each row for those that are listed."""
    for row in range(labels.shape[0]):
        row_labels = labels[row]
        n_labels = row_labels.shape[0]
        while n_labels > 0 and row_labels[n_labels - 1] < 0:
            n_labels -= 1
        for position in range(listed.shape[1]):
            label = listed[row, position]
            if label < 0:
                continue
            low = 0
            high = n_labels
            while low < high:
                middle = (low + high) >> 1
                if row_labels[middle] < label:
                    low = middle + 1
                else:
                    high = middle
            if low < n_labels and row_labels[low] == label:
                out[row, low] = values[row, position]
