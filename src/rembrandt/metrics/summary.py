"""The table that papers print, in one call, and the baseline that any model must beat."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rembrandt.errors import DataError
from rembrandt.metrics.hits import as_ranked, as_truth, hits
from rembrandt.metrics.propensity import inverse_propensity, psp
from rembrandt.metrics.ranking import as_missing, ndcg, precision, rank


def evaluate(
    truth: Any,
    labels: ArrayLike,
    scores: ArrayLike | None,
    train_counts: ArrayLike,
    n_train: int,
    A: float = 0.55,
    B: float = 1.5,
    ks: Sequence[int] = (1, 3, 5),
    missing_labels: ArrayLike | None = None,
) -> dict[str, float]:
    """Return ``error`` and ``p@k``, ``ndcg@k``, ``psp@k`` for every k, as fractions.

    Parameters
    ----------
    truth : sparse matrix, n × c
        The true labels.
    labels, scores : arrays, n × k
        Predicted labels and their scores; -1 is no prediction. They are ranked here by the tie rule, so their order
        within a row does not matter. With ``scores=None`` the columns are taken to be in rank order.
    train_counts : array, c
        How often each label occurs in the ``n_train`` training examples; the propensities rest on it.
    A, B : float
        Propensity constants of the data set, see `inverse_propensity`.
    missing_labels : array, n, optional
        Each row's number of true labels that are not among the columns because training never saw them. No model can
        predict them, but the ideal of nDCG and PSP holds them: the result is the same as with an empty column of
        training count 0 for each.
    """
    Y = as_truth(truth)
    if scores is not None:
        labels, _ = rank(labels, scores)
    ranked = as_ranked(labels, Y)
    found = hits(Y, ranked)
    missing = as_missing(missing_labels, Y.shape[0])
    n_true = np.diff(Y.indptr) + missing
    inverse = inverse_propensity(train_counts, n_train, A, B)
    unseen = float(inverse_propensity(0, n_train, A, B))

    table = {"error": 1.0 - precision(found, 1)}
    table |= {f"p@{k}": precision(found, k) for k in ks}
    table |= {f"ndcg@{k}": ndcg(found, n_true, k) for k in ks}
    scored = psp(Y, ranked, found, inverse, missing, unseen, ks)
    return table | {f"psp@{k}": value for k, value in zip(ks, scored, strict=True)}


def most_popular(train_counts: ArrayLike, n: int, k: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Predict the k labels most frequent in training for each of n rows, scored by their counts."""
    counts = np.asarray(train_counts)
    if counts.ndim != 1 or k < 1:
        raise DataError(f"most_popular takes one count per label and k ≥ 1, not shape {counts.shape} and k = {k}")
    best = np.argsort(-counts, kind="stable")[:k]
    padding = k - len(best)
    labels = np.pad(best, (0, padding), constant_values=-1)
    scores = np.pad(counts[best].astype(np.float32), (0, padding), constant_values=-np.inf)
    return np.tile(labels, (n, 1)), np.tile(scores, (n, 1))
