"""All measures of a prediction in one call.

Also measures of label sets, the largest precision that is possible, and a baseline.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rembrandt.linalg import Array, Floats, Indices
from rembrandt.linalg.ranking import top_k
from rembrandt.metrics.hits import Hits, as_ranked, as_truth, hits, label_counts
from rembrandt.metrics.propensity import inverse_propensity, psp
from rembrandt.metrics.ranking import as_missing, first, ndcg


def evaluate(
    truth: Any,
    labels: ArrayLike,
    train_counts: ArrayLike,
    n_train: int,
    A: float = 0.55,
    B: float = 1.5,
    ks: Sequence[int] = (1, 3, 5),
    missing_labels: ArrayLike | None = None,
) -> dict[str, float]:
    """Return the error, P@k, nDCG@k, PSP@k, R@k and F1@k of ranked predictions.

    Parameters
    ----------
    truth : sparse matrix of shape (n_samples, n_labels)
        True labels.
    labels : ndarray of shape (n_samples, n_ranks)
        Predicted label indices in rank order, -1 for no prediction.
    train_counts : ndarray of shape (n_labels,)
        Number of training examples of each label, for the propensities.
    n_train : int
        Number of training examples.
    A, B : float, default=0.55, 1.5
        Constants of the propensities; see `inverse_propensity`.
    ks : sequence of int, default=(1, 3, 5)
        Numbers of predictions that count.
    missing_labels : ndarray of shape (n_samples,), optional
        Number of true labels of each row that have no column, because training never saw them. The
        ideal rankings of nDCG and PSP contain them, as if each had an empty column with training
        count 0.

    Returns
    -------
    dict of str to float
        ``error`` and ``p@k``, ``ndcg@k``, ``psp@k``, ``r@k``, ``f1@k`` for every k, as fractions.
    """
    terms = row_terms(truth, labels, train_counts, n_train, A, B, ks, missing_labels)
    measures = {}
    for name, (numerator, denominator) in terms.items():
        measures[name] = 0.0
        if denominator.any():
            quotient = numerator.sum() / denominator.sum()
            measures[name] = float(quotient)
    error = 1.0 - measures.pop("hit")
    return {"error": error, **measures}


def row_terms(
    truth: Any,
    labels: ArrayLike,
    train_counts: ArrayLike,
    n_train: int,
    A: float = 0.55,
    B: float = 1.5,
    ks: Sequence[int] = (1, 3, 5),
    missing_labels: ArrayLike | None = None,
) -> dict[str, tuple[Floats, Floats]]:
    """Return what each row adds to the numerator and the denominator of every measure.

    `bootstrap` takes them.

    Parameters
    ----------
    truth, labels, train_counts, n_train, A, B, ks, missing_labels
        As in `evaluate`.

    Returns
    -------
    dict of str to (ndarray, ndarray)
        Numerators and denominators by row; ``hit`` is P@1, one minus the error.
    """
    Y = as_truth(truth)
    ranked = as_ranked(labels, Y)
    is_hit = hits(Y, ranked)
    is_predicted = ranked >= 0
    missing = as_missing(missing_labels, Y.shape[0])
    n_true = np.diff(Y.indptr) + missing
    is_labelled = n_true > 0
    labelled = is_labelled.astype(np.float64)
    inverse = inverse_propensity(train_counts, n_train, A, B)
    unseen_inverse = float(inverse_propensity(0, n_train, A, B))
    ones = np.ones(len(is_hit))

    n_hits = _count_first(is_hit, 1)
    terms = {"hit": (n_hits, ones)}
    for k in ks:
        n_hits = _count_first(is_hit, k)
        terms[f"p@{k}"] = (n_hits, k * ones)
    for k in ks:
        gains = ndcg(is_hit, n_true, k)
        terms[f"ndcg@{k}"] = (gains, ones)
    for k in ks:
        terms[f"psp@{k}"] = psp(Y, ranked, is_hit, inverse, missing, unseen_inverse, k)
    for k in ks:
        n_hits = _count_first(is_hit, k)
        n_predicted = _count_first(is_predicted, k)
        recall = n_hits / np.maximum(n_true, 1)
        f1 = 2 * n_hits / np.maximum(n_true + n_predicted, 1)
        terms[f"r@{k}"] = (recall, labelled)
        terms[f"f1@{k}"] = (f1, labelled)
    return terms


def _count_first(marks: Hits, k: int) -> Array:
    """Return how many of the first ``k`` columns are marked in each row."""
    return first(marks, k).sum(axis=1)


def f1_scores(
    truth: Any,
    labels: ArrayLike,
    missing_labels: ArrayLike | None = None,
    n_missing: int = 0,
) -> dict[str, float]:
    """Return the micro and macro F1 of predicted label sets.

    Parameters
    ----------
    truth : sparse matrix of shape (n_samples, n_labels)
        True labels.
    labels : ndarray of shape (n_samples, n_largest)
        Predicted label indices, -1 after the last one of a row.
    missing_labels : ndarray of shape (n_samples,), optional
        Number of true labels of each row that have no column, because training never saw them.
    n_missing : int, default=0
        Number of different labels that have no column.

    Returns
    -------
    dict of str to float
        ``micro_f1``, of all labels together, and ``macro_f1``, the mean over the labels that are
        true or predicted.
    """
    Y = as_truth(truth)
    n_true, n_predicted, n_hits = label_counts(Y, labels)
    missing = as_missing(missing_labels, Y.shape[0])
    n_occurrences = n_true + n_predicted
    n_total = n_occurrences.sum() + missing.sum()
    micro_f1 = 2 * n_hits.sum() / max(n_total, 1)

    label_f1 = 2 * n_hits / np.maximum(n_occurrences, 1)
    is_used = n_occurrences > 0
    n_used_labels = int(is_used.sum()) + n_missing
    macro_f1 = label_f1.sum() / max(n_used_labels, 1)
    return {"micro_f1": float(micro_f1), "macro_f1": float(macro_f1)}


def largest_precision(truth: Any, k: int) -> float:
    """Return the P@k of a perfect ranking: examples may have fewer than ``k`` labels.

    Parameters
    ----------
    truth : sparse matrix of shape (n_samples, n_labels)
        True labels.
    k : int
        Number of predictions that count.

    Returns
    -------
    float
        A fraction between 0 and 1.
    """
    n_true = np.diff(as_truth(truth).indptr)
    n_hits = np.minimum(n_true, k).sum()
    n_rows = max(len(n_true), 1)
    return float(n_hits / (k * n_rows))


def most_popular(train_counts: ArrayLike, n: int, k: int) -> Indices:
    """Predict the most frequent labels of the training data for every row.

    Parameters
    ----------
    train_counts : ndarray of shape (n_labels,)
        Number of training examples of each label.
    n : int
        Number of rows.
    k : int
        Number of labels per row.

    Returns
    -------
    ndarray of shape (n, k)
        The labels, -1 where there are fewer than ``k``.
    """
    counts = np.asarray(train_counts, dtype=np.float64)
    labels, _ = top_k(counts[None], k)
    return labels.repeat(n, axis=0)
