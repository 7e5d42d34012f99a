"""Pairs of labels that a model confuses: one is true and was missed, the other was predicted and is
wrong.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from rembrandt.metrics.hits import as_ranked, as_truth, hits


@dataclass(frozen=True)
class Confusion:
    """Two labels by column, in the direction that occurs more often.

    Attributes
    ----------
    true, predicted : int
        The label that was missed and the one that was predicted instead.
    count : int
        Number of examples where that happened.
    rate : float
        Fraction of the examples with the true label.
    reverse : int
        Number of examples where it happened the other way round.
    expected : float
        Expected number in both directions if misses and wrong predictions were independent.
    examples : list of int
        Some of the rows.
    """

    true: int
    predicted: int
    count: int
    rate: float
    reverse: int
    expected: float
    examples: list[int]


def confusions(
    truth: Any, labels: ArrayLike, n_pairs: int = 50, n_examples: int = 3
) -> list[Confusion]:
    """Find the pairs of labels that are confused more often than by chance.

    A label that is predicted often meets every label that is missed often. Pairs are therefore
    ordered by the log-likelihood ratio of a Poisson count over both directions; pairs that are not
    above chance are left out.

    Parameters
    ----------
    truth : sparse matrix of shape (n_samples, n_labels)
        The true labels.
    labels : ndarray of shape (n_samples, k)
        Predicted columns, -1 for none.
    n_pairs : int, default=50
        Number of pairs at most.
    n_examples : int, default=3
        Number of examples per pair at most.

    Returns
    -------
    list of Confusion
        The pairs, the strongest first.
    """
    Y = as_truth(truth)
    ranked = as_ranked(labels, Y)
    is_hit = hits(Y, ranked)
    is_wrong = ~is_hit & (ranked >= 0)
    wrong = _entries(ranked, is_wrong, Y.shape)
    correct = _entries(ranked, is_hit, Y.shape)
    true = sparse.csr_array((np.ones(Y.nnz), Y.indices, Y.indptr), shape=Y.shape)
    missed = true - correct
    missed.eliminate_zeros()

    counts = sparse.csr_array(missed.T @ wrong)
    pairs = sparse.coo_array(sparse.triu(counts + counts.T, k=1))
    total = pairs.data
    expected = _expected_counts(missed, wrong, pairs.row, pairs.col)
    excess = total - expected
    evidence = total * np.log(total / expected) - excess
    above_chance = np.flatnonzero(total > expected)
    by_evidence = np.argsort(-evidence[above_chance], kind="stable")
    strongest = above_chance[by_evidence[:n_pairs]]

    n_true = np.bincount(Y.indices, minlength=Y.shape[1])
    missed_by_label = sparse.csc_array(missed)
    wrong_by_label = sparse.csc_array(wrong)
    confused = []
    for i in strongest.tolist():
        a = int(pairs.row[i])
        b = int(pairs.col[i])
        if counts[b, a] > counts[a, b]:
            a, b = b, a
        count = int(counts[a, b])
        rows_missed = missed_by_label[:, [a]].indices
        rows_wrong = wrong_by_label[:, [b]].indices
        rows = np.intersect1d(rows_missed, rows_wrong)
        confusion = Confusion(
            true=a,
            predicted=b,
            count=count,
            rate=count / max(1, int(n_true[a])),
            reverse=int(counts[b, a]),
            expected=float(expected[i]),
            examples=rows[:n_examples].tolist(),
        )
        confused.append(confusion)
    return confused


def _expected_counts(
    missed: sparse.csr_array,
    wrong: sparse.csr_array,
    first: NDArray[Any],
    second: NDArray[Any],
) -> NDArray[np.float64]:
    """Return how often pairs would meet, in both directions, if misses and wrong predictions were
    independent.
    """
    n_missed = np.asarray(missed.sum(axis=0)).ravel()
    n_wrong = np.asarray(wrong.sum(axis=0)).ravel()
    n_samples = max(1, missed.shape[0])
    first_missed = n_missed[first] * n_wrong[second]
    second_missed = n_missed[second] * n_wrong[first]
    return (first_missed + second_missed) / n_samples


def _entries(
    ranked: NDArray[np.int64], chosen: NDArray[np.bool_], shape: tuple[int, int]
) -> sparse.csr_array:
    """Return the chosen predictions as a 0/1 matrix."""
    n_chosen = chosen.sum(axis=1)
    starts = np.concatenate([[0], np.cumsum(n_chosen)])
    ones = np.ones(starts[-1])
    return sparse.csr_array((ones, ranked[chosen], starts), shape=shape)
