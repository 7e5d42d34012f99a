"""Measures of predicted label sets: F1 scores and the Hamming loss."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.errors import DataError
from rembrandt.metrics.hits import as_truth


def micro_f1(truth: Any, predicted: Any) -> float:
    """Return ``2·hits / (true + predicted)`` over all entries together.

    Parameters
    ----------
    truth, predicted : sparse matrix of shape (n_samples, n_labels)
        True and predicted label sets.

    Returns
    -------
    float
        A fraction between 0 and 1; 0 if both are empty.
    """
    both, true, guessed = (counts.sum() for counts in _label_counts(truth, predicted))
    return float(2.0 * both / (true + guessed)) if true + guessed else 0.0


def macro_f1(truth: Any, predicted: Any) -> float:
    """Return the mean F1 of all labels; a label that is neither true nor predicted counts as 0.

    Parameters
    ----------
    truth, predicted
        As in `micro_f1`.

    Returns
    -------
    float
        A fraction between 0 and 1.
    """
    both, true, guessed = _label_counts(truth, predicted)
    return float(np.mean(2.0 * both / np.maximum(true + guessed, 1))) if len(both) else 0.0


def hamming(truth: Any, predicted: Any) -> float:
    """Return the fraction of the entries where truth and prediction differ.

    Parameters
    ----------
    truth, predicted
        As in `micro_f1`.

    Returns
    -------
    float
        A fraction between 0 and 1.
    """
    n, c = truth.shape
    both, true, guessed = (counts.sum() for counts in _label_counts(truth, predicted))
    return float((true + guessed - 2.0 * both) / max(n * c, 1))


def _label_counts(truth: Any, predicted: Any) -> tuple[NDArray[np.int64], ...]:
    """Return how often each label is both true and predicted, true, and predicted."""
    Y, guess = as_truth(truth), as_truth(predicted)
    if Y.shape != guess.shape:
        raise DataError(f"truth is {Y.shape} and the prediction {guess.shape}; both must be examples × labels")
    both = _as_ones(Y).multiply(_as_ones(guess)).tocsr()
    return tuple(np.bincount(matrix.indices, minlength=Y.shape[1]) for matrix in (both, Y, guess))


def _as_ones(Y: sparse.csr_array) -> sparse.csr_array:
    return sparse.csr_array((np.ones(Y.nnz, dtype=np.int8), Y.indices, Y.indptr), shape=Y.shape)
