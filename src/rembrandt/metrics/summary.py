"""The table that papers print, in one call, and the baseline that any model must beat."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rembrandt.errors import DataError
from rembrandt.metrics.hits import as_ranked, as_truth, hits
from rembrandt.metrics.propensity import inverse_propensity, psp
from rembrandt.metrics.ranking import as_missing, first, ndcg, rank


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
    terms = row_terms(truth, labels, scores, train_counts, n_train, A, B, ks, missing_labels)
    table = {name: quotient(above.sum(), below.sum()) for name, (above, below) in terms.items()}
    return {"error": 1.0 - table.pop("hit"), **table}


def row_terms(
    truth: Any,
    labels: ArrayLike,
    scores: ArrayLike | None,
    train_counts: ArrayLike,
    n_train: int,
    A: float = 0.55,
    B: float = 1.5,
    ks: Sequence[int] = (1, 3, 5),
    missing_labels: ArrayLike | None = None,
) -> dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Return what each row adds above and below the line: every measure of `evaluate` is a quotient of two sums.

    ``hit`` stands for P@1, which the error rate is one less.
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
    ones = np.ones(len(found))

    terms = {"hit": (first(found, 1).sum(axis=1), ones)}
    terms |= {f"p@{k}": (first(found, k).sum(axis=1), k * ones) for k in ks}
    terms |= {f"ndcg@{k}": (ndcg(found, n_true, k), ones) for k in ks}
    scored = psp(Y, ranked, found, inverse, missing, unseen, ks)
    return terms | {f"psp@{k}": sums for k, sums in zip(ks, scored, strict=True)}


def quotient(above: float, below: float) -> float:
    """Return the quotient, 0 where there is nothing to divide by."""
    return float(above / below) if below else 0.0


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
