"""Ranked labels of rows as people see them: as many as there are, and none for a text without a
known word.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.linalg.blocks import spans
from rembrandt.linalg.sparse import Matrix, is_sparse
from rembrandt.model.model import Model
from rembrandt.progress import Report, silent
from rembrandt.scorers.blend import LONG
from rembrandt.scorers.protocol import Array, Labels

_ROWS = 1 << 14  # whose labels are in memory before those below the threshold are left out


def is_blank(model: Model, X: Matrix) -> NDArray[np.bool_]:
    """Return which rows are texts without a single term of the model: their scores say nothing
    about them.
    """
    if model.text is None or not is_sparse(X):
        return np.zeros(X.shape[0], dtype=bool)
    return np.asarray(np.diff(X.indptr) == 0)


def ranked_labels(
    model: Model,
    X: Matrix,
    k: int,
    allowed: Labels | None = None,
    worth: Array | None = None,
    report: Report = silent,
) -> tuple[Labels, Array]:
    """Return `Model.top_k` with at most as many columns as there are labels; no label in rows
    without a known word.
    """
    k = min(k, model.n_labels if allowed is None else len(allowed))
    if k == 0:
        return np.empty((X.shape[0], 0), np.int64), np.empty((X.shape[0], 0), np.float32)
    labels, scores = model.top_k(X, k, allowed, worth, report)
    blank = is_blank(model, X)
    labels[blank], scores[blank] = -1, 0
    return labels, scores


def predicted_sets(
    model: Model,
    X: Matrix,
    threshold: float | Array | None = None,
    k: int | None = None,
    allowed: Labels | None = None,
    worth: Array | None = None,
    report: Report = silent,
) -> tuple[Labels, Array]:
    """Return the labels whose probability reaches the threshold, best first and -1 after them, and
    probabilities.

    The threshold is that of the model by default; with one label a row that is the best label. A
    row has ``k`` labels at most, or `LONG`. With ``worth`` they are ranked by probability × worth.
    """
    if threshold is None and model.multiclass:
        threshold, k = 0.0, 1
    least = np.broadcast_to(model.threshold if threshold is None else threshold, (model.n_labels,))
    n = X.shape[0]
    parts: list[tuple[Labels, Array]] = [(np.empty((0, 0), np.int64), np.empty((0, 0), np.float32))]
    for rows in spans(n, _ROWS):
        report("predicting", rows.start, n)
        labels, found = ranked_labels(model, X[rows], k or LONG, allowed, worth)
        if worth is not None:
            found = (found / worth[labels]).astype(found.dtype)
        parts.append(kept_first(labels, found, (labels >= 0) & (found >= least[labels])))
    report("predicting", n, n)
    return _stacked([labels for labels, _ in parts], -1), _stacked([found for _, found in parts], 0)


def _stacked(blocks: list[Array], fill: int) -> Array:
    """Return consecutive blocks of rows in as many columns as the widest has."""
    width = max(block.shape[1] for block in blocks)
    return np.vstack(
        [np.pad(b, ((0, 0), (0, width - b.shape[1])), constant_values=fill) for b in blocks]
    )


def kept_first(
    labels: Labels, probabilities: Array, kept: NDArray[np.bool_]
) -> tuple[Labels, Array]:
    """Return the labels that are kept in their order, -1 after them, in as few columns as
    possible.
    """
    order, width = np.argsort(~kept, axis=1, kind="stable"), int(kept.sum(axis=1).max(initial=0))
    labels = np.take_along_axis(np.where(kept, labels, -1), order, axis=1)
    probabilities = np.take_along_axis(np.where(kept, probabilities, 0), order, axis=1)
    return labels[:, :width], probabilities[:, :width]


def indicator(labels: Labels, n_labels: int) -> sparse.csr_array:
    """Return lists of labels, -1 after the last, as a 0/1 matrix."""
    counts = (labels >= 0).sum(axis=1)
    ends = np.concatenate([[0], np.cumsum(counts)])
    chosen = labels[labels >= 0]
    matrix = sparse.csr_array(
        (np.ones(len(chosen), np.int8), chosen, ends), shape=(len(labels), n_labels)
    )
    matrix.sort_indices()
    return matrix
