"""All measures of a prediction in one call, measures of label sets, and what is reached at most and
at least.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rembrandt.linalg.ranking import top_k
from rembrandt.metrics.hits import as_ranked, as_truth, hits, label_counts
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
    table = {
        name: float(above.sum() / below.sum()) if below.any() else 0.0
        for name, (above, below) in terms.items()
    }
    return {"error": 1.0 - table.pop("hit"), **table}


def row_terms(
    truth: Any,
    labels: ArrayLike,
    train_counts: ArrayLike,
    n_train: int,
    A: float = 0.55,
    B: float = 1.5,
    ks: Sequence[int] = (1, 3, 5),
    missing_labels: ArrayLike | None = None,
) -> dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Return what each row adds to the numerator and the denominator of every measure, for
    `bootstrap`.

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
    found = hits(Y, ranked)
    missing = as_missing(missing_labels, Y.shape[0])
    n_true = np.diff(Y.indptr) + missing
    inverse = inverse_propensity(train_counts, n_train, A, B)
    unseen = float(inverse_propensity(0, n_train, A, B))
    ones = np.ones(len(found))

    terms = {"hit": (first(found, 1).sum(axis=1), ones)}
    terms |= {f"p@{k}": (first(found, k).sum(axis=1), k * ones) for k in ks}
    terms |= {f"ndcg@{k}": (ndcg(found, n_true, k), ones) for k in ks}
    terms |= {f"psp@{k}": psp(Y, ranked, found, inverse, missing, unseen, k) for k in ks}
    labelled, n_predicted = (n_true > 0).astype(np.float64), ranked >= 0
    for k in ks:
        hit, given = first(found, k).sum(axis=1), first(n_predicted, k).sum(axis=1)
        terms[f"r@{k}"] = hit / np.maximum(n_true, 1), labelled
        terms[f"f1@{k}"] = 2 * hit / np.maximum(n_true + given, 1), labelled
    return terms


def f1_scores(
    truth: Any, labels: ArrayLike, missing_labels: ArrayLike | None = None, n_missing: int = 0
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
    true, predicted, found = label_counts(Y, labels)
    total = true.sum() + predicted.sum() + as_missing(missing_labels, Y.shape[0]).sum()
    each = 2 * found / np.maximum(true + predicted, 1)
    n_used = int((true + predicted > 0).sum()) + n_missing
    return {
        "micro_f1": float(2 * found.sum() / max(total, 1)),
        "macro_f1": float(each.sum() / max(n_used, 1)),
    }


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
    return float(np.minimum(n_true, k).sum() / (k * max(len(n_true), 1)))


def most_popular(train_counts: ArrayLike, n: int, k: int) -> NDArray[np.int64]:
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
    return top_k(np.asarray(train_counts, dtype=np.float64)[None], k)[0].repeat(n, axis=0)
