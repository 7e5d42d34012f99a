"""Logistic regression over candidates: the labels of an example, and what other scorers propose for
it.

A logistic decoder over all labels costs examples × labels. Nearly all labels are easily told from
the true ones; those that another scorer ranks first are not. Here an example has its own labels as
positives and the other proposals as negatives, so that the cost is examples × candidates. The
scores tell candidates apart and say nothing about other labels.
"""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.decoders.decoder import Decoder
from rembrandt.linalg.blocks import as_numpy, spans
from rembrandt.progress import Report, silent

EPOCHS = 10
RATE = 1.0  # of the first step; it decreases linearly to zero
START, FIRST = -2.0, 0.1  # bias, and sum of squared slopes, that every label starts with
ROWS = 1 << 13  # projected at a time

Array = NDArray[Any]


def fit_candidates(
    H: Any,
    Y: sparse.csr_array,
    proposals: NDArray[np.int32],
    weights: Array | None = None,
    seed: int = 0,
    report: Report = silent,
) -> Decoder:
    """Fit independent logistic regressions by stochastic gradient steps, scaled for each label as
    AdaGrad does.

    Parameters
    ----------
    H : array-like of shape (n, k)
        Projected rows; rows of a store are computed when they are sliced.
    Y : csr_array of shape (n, c)
        Labels.
    proposals : ndarray of shape (n, m)
        Labels that other scorers propose for each row, -1 where there are fewer. True and repeated
        ones become -1.
    weights : ndarray of shape (n,), optional
        Weights of the rows.
    seed : int, default=0
        Seed of the order of the rows.
    report : callable, optional
        Receives the progress.

    Returns
    -------
    Decoder
    """
    n, k = H.shape
    c, rng = Y.shape[1], np.random.default_rng(seed)
    drop_known(proposals, Y.indptr, Y.indices)
    mean, deviation = _moments(H)
    scale = 1 / (np.sqrt(k) * deviation)  # rows of about unit length
    Q, bias = np.zeros((c, k), dtype=np.float32), np.full(c, START, dtype=np.float32)
    squares = np.full(c, FIRST, dtype=np.float32)
    importance = np.ones(n, dtype=np.float32) if weights is None else weights.astype(np.float32)
    for epoch in range(EPOCHS):
        report("decoder", epoch, EPOCHS)
        for part in spans(n, ROWS):
            rows = ((as_numpy(H[part]) - mean) * scale).astype(np.float32)
            order = rng.permutation(len(rows))
            rate = np.float32(RATE * (1 - (epoch + part.start / n) / EPOCHS))
            example = (
                proposals[part],
                Y.indptr[part.start : part.stop + 1],
                Y.indices,
                importance[part],
            )
            descend(rows, order, *example, rate, Q, bias, squares)
    report("decoder", EPOCHS, EPOCHS)
    Q *= scale.astype(np.float32)
    bias -= Q @ mean.astype(np.float32)
    return Decoder(np.ascontiguousarray(Q.T), bias, "sigmoid")


def _moments(H: Any) -> tuple[Array, Array]:
    """Mean and deviation of every column."""
    n, k = H.shape
    total, squares = np.zeros(k), np.zeros(k)
    for part in spans(n, ROWS):
        rows = as_numpy(H[part]).astype(np.float64)
        total += rows.sum(axis=0)
        squares += (rows**2).sum(axis=0)
    mean = total / n
    deviation = np.sqrt(np.maximum(squares / n - mean**2, 0))
    return mean, np.where(
        deviation > 1e-6 * np.abs(mean), deviation, np.inf
    )  # a constant column says nothing


@njit(nogil=True, cache=True)
def drop_known(proposals: Array, indptr: Array, indices: Array) -> None:
    """Replace proposals by -1 that are labels of their row, or occur before in it."""
    for row in range(len(proposals)):
        own = proposals[row]
        for j in range(len(own)):
            for t in range(indptr[row], indptr[row + 1]):
                if indices[t] == own[j]:
                    own[j] = -1
                    break
            for other in range(j):
                if own[j] >= 0 and own[other] == own[j]:
                    own[j] = -1


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"reassoc", "contract"})
def descend(
    H: Array, order: Array, negatives: Array, indptr: Array, indices: Array,
    importance: Array, rate: Any,
    Q: Array, bias: Array, squares: Array,
) -> None:  # fmt: skip
    """Take a step for every candidate of every row, in this order of the rows."""
    k = H.shape[1]
    for row in order:
        h, first, own = H[row], indptr[row], indptr[row + 1] - indptr[row]
        for j in range(own + negatives.shape[1]):
            label = np.int64(indices[first + j] if j < own else negatives[row, j - own])
            if label < 0:
                continue
            q, score = Q[label], bias[label]
            for f in range(k):
                score += q[f] * h[f]
            slope = importance[row] * (
                np.float32(1) / (np.float32(1) + np.exp(-score)) - np.float32(j < own)
            )
            squares[label] += slope * slope
            step = rate * slope / np.sqrt(squares[label])
            bias[label] -= step
            for f in range(k):
                q[f] -= step * h[f]
