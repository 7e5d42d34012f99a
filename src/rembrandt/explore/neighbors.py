"""Labels that are close to each other in an embedding."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rembrandt.linalg.blocks import spans
from rembrandt.linalg.ranking import top_k
from rembrandt.progress import Report, silent

_MAX_BLOCK_COSINES = 1 << 24  # entries of the largest block: 64 MB


def scaled_vectors(fitted: Any) -> NDArray[Any]:
    """Return label vectors whose inner products are meaningful.

    The columns of an embedding are orthonormal, so at full rank all labels are orthogonal. Scaled
    by the square roots of the eigenvalues, the inner product of two labels is that of their
    predictions over the training examples.

    Parameters
    ----------
    fitted : RembrandtClassifier or LabelEmbedder
        A fitted estimator.

    Returns
    -------
    ndarray of shape (n_labels, n_components)
        The scaled vectors.
    """
    vectors = np.asarray(fitted.embedding_)
    if fitted.method in ("pca", "cs"):  # label means over the features, and random directions
        return vectors
    eigenvalues = np.maximum(fitted.singular_values_, 0.0)
    scales = np.sqrt(eigenvalues)
    return np.asarray(vectors * scales)


def unit_vectors(fitted: Any) -> NDArray[Any]:
    """Return label vectors of unit length.

    Parameters
    ----------
    fitted : RembrandtClassifier or LabelEmbedder
        A fitted estimator.

    Returns
    -------
    ndarray of shape (n_labels, n_components)
        The vectors of `scaled_vectors` divided by their length; rows of NaN for labels whose vector
        is zero.
    """
    vectors = scaled_vectors(fitted)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = np.full_like(vectors, np.nan)
    return np.divide(vectors, lengths, out=unit, where=lengths > 0)


def nearest_labels(
    unit: NDArray[Any],
    k: int,
    rows: Sequence[int] | None = None,
    allowed: NDArray[np.bool_] | None = None,
    report: Report = silent,
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return the labels with the largest cosine to each label.

    Parameters
    ----------
    unit : ndarray of shape (n_labels, n_components)
        What `unit_vectors` returns.
    k : int
        Number of neighbours.
    rows : sequence of int, optional
        The labels whose neighbours are wanted; all by default.
    allowed : ndarray of bool, of shape (n_labels,), optional
        Labels that may be neighbours; all by default.
    report : callable, optional
        Called as ``report(stage, done, total)``.

    Returns
    -------
    labels : ndarray of shape (n_rows, k)
        The neighbours, nearest first; -1 where there are fewer than ``k``.
    cosines : ndarray of shape (n_rows, k)
        Their cosines, -inf where the label is -1.
    """
    n_labels = len(unit)
    if rows is None:
        wanted = np.arange(n_labels)
    else:
        wanted = np.asarray(rows)
    n_wanted = len(wanted)
    shape = (n_wanted, k)
    nearest = np.full(shape, -1, dtype=np.int64)
    cosines = np.full(shape, -np.inf, dtype=unit.dtype)
    block_rows = _MAX_BLOCK_COSINES // max(1, n_labels)
    block_rows = max(1, block_rows)
    for span in spans(n_wanted, block_rows):
        report("comparing labels", span.start, n_wanted)
        labels = wanted[span]
        block = unit[labels] @ unit.T
        block_row = np.arange(len(labels))
        block[block_row, labels] = -np.inf  # a label is not its own neighbour
        if allowed is not None:
            block[:, ~allowed] = -np.inf
        block_nearest, block_cosines = top_k(block, k)
        nearest[span] = block_nearest
        cosines[span] = block_cosines
    report("comparing labels", n_wanted, n_wanted)
    return nearest, cosines
