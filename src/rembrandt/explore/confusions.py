"""Pairs of labels that a model mixes up: one is true and was missed, the other was predicted and is wrong."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from rembrandt.metrics.hits import as_ranked, as_truth, hits


@dataclass(frozen=True)
class Confusion:
    """Two labels, by column. ``count`` is how often ``true`` was missed while ``predicted`` was said instead."""

    true: int
    predicted: int
    count: int
    rate: float  # of the examples where ``true`` is true
    reverse: int  # how often it was the other way round
    expected: float  # both ways together, if misses and wrong predictions met by chance
    examples: list[int]  # rows


def confusions(truth: Any, labels: ArrayLike, n_pairs: int = 50, n_examples: int = 3) -> list[Confusion]:
    """Return the pairs of labels that are mixed up most, by how far they exceed chance.

    ``labels`` are the predicted columns, n × k, -1 for none. A label that is predicted often meets every label that
    is missed often, so pairs are ordered by the evidence that there is more to it (the log-likelihood ratio of a
    Poisson count, both ways together); pairs that meet no more than by chance are left out.
    """
    Y = as_truth(truth)
    ranked = as_ranked(labels, Y)
    found = hits(Y, ranked)
    wrong = _entries(ranked, ~found & (ranked >= 0), Y.shape)
    missed = sparse.csr_array((np.ones(Y.nnz), Y.indices, Y.indptr), shape=Y.shape) - _entries(ranked, found, Y.shape)
    missed.eliminate_zeros()
    counts = sparse.csr_array(missed.T @ wrong)
    both = sparse.coo_array(sparse.triu(counts + counts.T, k=1))
    first, second, total = both.row, both.col, both.data
    misses, slips = (np.asarray(M.sum(axis=0)).ravel() for M in (missed, wrong))
    expected = (misses[first] * slips[second] + misses[second] * slips[first]) / max(1, Y.shape[0])
    evidence = total * np.log(total / expected) - (total - expected)
    notable = np.flatnonzero(total > expected)
    best = notable[np.argsort(-evidence[notable], kind="stable")[:n_pairs]]
    n_true = np.bincount(Y.indices, minlength=Y.shape[1])
    lists = (sparse.csc_array(missed), sparse.csc_array(wrong))
    return [
        _confusion(int(first[i]), int(second[i]), counts, float(expected[i]), n_true, lists, n_examples)
        for i in best.tolist()
    ]


def _entries(ranked: NDArray[np.int64], chosen: NDArray[np.bool_], shape: tuple[int, int]) -> sparse.csr_array:
    """The chosen predictions as a 0/1 matrix."""
    starts = np.concatenate([[0], np.cumsum(chosen.sum(axis=1))])
    columns = ranked[chosen]
    return sparse.csr_array((np.ones(len(columns)), columns, starts), shape=shape)


def _confusion(
    a: int, b: int, counts: Any, expected: float, n_true: NDArray[Any], lists: tuple[Any, Any], n_examples: int
) -> Confusion:
    """The pair in its more frequent direction."""
    if counts[b, a] > counts[a, b]:
        a, b = b, a
    missed, wrong = (M.indices[M.indptr[j] : M.indptr[j + 1]] for M, j in zip(lists, (a, b), strict=True))
    rows = np.intersect1d(missed, wrong)[:n_examples].tolist()
    count = int(counts[a, b])
    return Confusion(a, b, count, count / max(1, int(n_true[a])), int(counts[b, a]), expected, rows)
