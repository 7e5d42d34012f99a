"""Predicted label sets against true ones, both sparse: F1 scores and the Hamming loss."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.errors import DataError
from rembrandt.metrics.hits import as_truth


def micro_f1(truth: Any, predicted: Any) -> float:
    """Return 2·hits / (true + predicted) over all entries together; 0 where both sides are empty."""
    both, true, guessed = (counts.sum() for counts in _label_counts(truth, predicted))
    return float(2.0 * both / (true + guessed)) if true + guessed else 0.0


def macro_f1(truth: Any, predicted: Any) -> float:
    """Return the mean over all columns of each label's F1; a label neither true nor predicted counts 0."""
    both, true, guessed = _label_counts(truth, predicted)
    return float(np.mean(2.0 * both / np.maximum(true + guessed, 1))) if len(both) else 0.0


def hamming(truth: Any, predicted: Any) -> float:
    """Return the fraction of the n × c entries where truth and prediction differ."""
    n, c = truth.shape
    both, true, guessed = (counts.sum() for counts in _label_counts(truth, predicted))
    return float((true + guessed - 2.0 * both) / max(n * c, 1))


def _label_counts(truth: Any, predicted: Any) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return, per label, how often it is true and predicted at once, true, and predicted."""
    Y, guess = as_truth(truth), as_truth(predicted)
    if Y.shape != guess.shape:
        raise DataError(f"truth is {Y.shape} and the prediction {guess.shape}; both must be examples × labels")
    both = _as_ones(Y).multiply(_as_ones(guess)).tocsr()
    c = Y.shape[1]
    return (
        np.bincount(both.indices, minlength=c),
        np.bincount(Y.indices, minlength=c),
        np.bincount(guess.indices, minlength=c),
    )


def _as_ones(Y: sparse.csr_array) -> sparse.csr_array:
    return sparse.csr_array((np.ones(Y.nnz, dtype=np.int8), Y.indices, Y.indptr), shape=Y.shape)
