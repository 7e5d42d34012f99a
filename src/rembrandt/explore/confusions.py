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
    found = hits(Y, ranked)
    wrong = _entries(ranked, ~found & (ranked >= 0), Y.shape)
    missed = sparse.csr_array((np.ones(Y.nnz), Y.indices, Y.indptr), shape=Y.shape) - _entries(
        ranked, found, Y.shape
    )
    missed.eliminate_zeros()
    counts = sparse.csr_array(missed.T @ wrong)
    both = sparse.coo_array(sparse.triu(counts + counts.T, k=1))
    first, second, total = both.row, both.col, both.data
    n_missed, n_wrong = (np.asarray(M.sum(axis=0)).ravel() for M in (missed, wrong))
    expected = (n_missed[first] * n_wrong[second] + n_missed[second] * n_wrong[first]) / max(
        1, Y.shape[0]
    )
    evidence = total * np.log(total / expected) - (total - expected)
    above = np.flatnonzero(total > expected)
    n_true = np.bincount(Y.indices, minlength=Y.shape[1])
    missed_rows, wrong_rows = sparse.csc_array(missed), sparse.csc_array(wrong)

    def confusion(i: int) -> Confusion:
        a, b = int(first[i]), int(second[i])
        if counts[b, a] > counts[a, b]:
            a, b = b, a
        rows = np.intersect1d(missed_rows[:, [a]].indices, wrong_rows[:, [b]].indices)[
            :n_examples
        ].tolist()
        count = int(counts[a, b])
        return Confusion(
            a, b, count, count / max(1, int(n_true[a])), int(counts[b, a]), float(expected[i]), rows
        )

    return [
        confusion(i) for i in above[np.argsort(-evidence[above], kind="stable")[:n_pairs]].tolist()
    ]


def _entries(
    ranked: NDArray[np.int64], chosen: NDArray[np.bool_], shape: tuple[int, int]
) -> sparse.csr_array:
    """Return the chosen predictions as a 0/1 matrix."""
    starts = np.concatenate([[0], np.cumsum(chosen.sum(axis=1))])
    return sparse.csr_array((np.ones(starts[-1]), ranked[chosen], starts), shape=shape)
