"""Labels that are close to each other in an embedding."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rembrandt.linalg.blocks import spans
from rembrandt.linalg.ranking import top_k
from rembrandt.progress import Report, silent

_COSINES = 1 << 24  # entries of the largest block: 64 MB


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
    return np.asarray(vectors * np.sqrt(np.maximum(fitted.singular_values_, 0.0)))


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
    return np.divide(vectors, lengths, out=np.full_like(vectors, np.nan), where=lengths > 0)


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
    wanted = np.arange(len(unit)) if rows is None else np.asarray(rows)
    nearest = np.full((len(wanted), k), -1, dtype=np.int64)
    cosines = np.full((len(wanted), k), -np.inf, dtype=unit.dtype)
    for part in spans(len(wanted), max(1, _COSINES // max(1, len(unit)))):
        report("comparing labels", part.start, len(wanted))
        block = unit[wanted[part]] @ unit.T
        block[np.arange(len(block)), wanted[part]] = -np.inf
        if allowed is not None:
            block[:, ~allowed] = -np.inf
        nearest[part], cosines[part] = top_k(block, k)
    report("comparing labels", len(wanted), len(wanted))
    return nearest, cosines
