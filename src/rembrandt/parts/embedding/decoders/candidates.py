"""Logistic regression over candidates: the labels of an example, and what other scorers propose for
it.

A logistic decoder over all labels costs examples × labels. Nearly all labels are easily told from
the true ones; those that another scorer ranks first are not. Here an example has its own labels as
positives and the other proposals as negatives, so that the cost is examples × candidates. The
scores tell candidates apart and say nothing about other labels.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.kernels import kernel
from rembrandt.linalg.blocks import as_numpy, for_each_span, spans
from rembrandt.linalg.sparse import short_indices
from rembrandt.linalg.threads import for_each, n_threads
from rembrandt.parts.embedding.decoders.decoder import Decoder
from rembrandt.progress import Report, silent

# Passes over the rows.
EPOCHS = 10
# Learning rate of the first step; it decreases linearly to zero.
FIRST_RATE = 1.0
# Bias that every label starts with: most candidates are wrong.
FIRST_BIAS = -2.0
# Sum of squared slopes that every label starts with: bounds its first step.
FIRST_SQUARES = 0.1
# Rows projected at a time; rows are shuffled within such a block.
BLOCK_ROWS = 1 << 13
# Rows that a thread scales at a time.
SCALED_ROWS = 1 << 10
# Labels next to each other that belong to one thread: others would write the same cache lines.
NEIGHBOURS = 64
# Deviation of a column, relative to its mean, up to which it counts as constant.
CONSTANT_DEVIATION = 1e-6

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
    c = Y.shape[1]
    rng = np.random.default_rng(seed)
    indptr = Y.indptr.astype(np.int64, copy=False)
    indices = short_indices(Y)
    drop_known(proposals, indptr, indices)
    mean, deviation = _moments(H)
    # Rows of about unit length.
    scale = 1 / (np.sqrt(k) * deviation)
    Q = np.zeros((c, k), dtype=np.float32)
    bias = np.full(c, FIRST_BIAS, dtype=np.float32)
    squares = np.full(c, FIRST_SQUARES, dtype=np.float32)
    importance = np.ones(n, dtype=np.float32)
    if weights is not None:
        importance = weights.astype(np.float32)
    for epoch in range(EPOCHS):
        report("decoder", epoch, EPOCHS)
        for rows in spans(n, BLOCK_ROWS):
            block = _scaled(as_numpy(H[rows]), mean, scale)
            order = rng.permutation(len(block))
            progress = (epoch + rows.start / n) / EPOCHS
            rate = np.float32(FIRST_RATE * (1 - progress))
            examples = (
                block,
                order,
                proposals[rows],
                indptr[rows.start : rows.stop + 1],
                indices,
                importance[rows],
                rate,
            )
            decoder = (Q, bias, squares)
            # Labels are independent, so the steps do not depend on the number of threads.
            n_shares = n_threads()
            for_each(descend, [(*examples, *decoder, i, n_shares) for i in range(n_shares)])
    report("decoder", EPOCHS, EPOCHS)
    # From scaled to projected rows.
    Q *= scale.astype(np.float32)
    bias -= Q @ mean.astype(np.float32)
    return Decoder(np.ascontiguousarray(Q.T), bias, "sigmoid")


def _scaled(H: Array, mean: Array, scale: Array) -> Array:
    """Return ``(H - mean) scale`` in single precision."""
    scaled = np.empty(H.shape, dtype=np.float32)

    def scale_rows(rows: slice) -> None:
        scaled[rows] = (H[rows] - mean) * scale

    for_each_span(scale_rows, len(H), SCALED_ROWS)
    return scaled


def _moments(H: Any) -> tuple[Array, Array]:
    """Return the mean and the deviation of every column; that of a constant column is infinite, so
    that it gets no weight.
    """
    n, k = H.shape
    sums = np.zeros(k)
    squares = np.zeros(k)
    for rows in spans(n, BLOCK_ROWS):
        block = as_numpy(H[rows]).astype(np.float64)
        sums += block.sum(axis=0)
        squares += (block**2).sum(axis=0)
    mean = sums / n
    deviation = np.sqrt(np.maximum(squares / n - mean**2, 0))
    varies = deviation > CONSTANT_DEVIATION * np.abs(mean)
    return mean, np.where(varies, deviation, np.inf)


@kernel("void(int32[:,::1], int64[::1], int32[::1])")
def drop_known(proposals: Array, indptr: Array, indices: Array) -> None:
    """Replace proposals by -1 that are labels of their row, or occur before in it."""
    for row in range(len(proposals)):
        labels = proposals[row]
        for j in range(len(labels)):
            for t in range(indptr[row], indptr[row + 1]):
                if indices[t] == labels[j]:
                    labels[j] = -1
                    break
            for other in range(j):
                if labels[j] >= 0 and labels[other] == labels[j]:
                    labels[j] = -1


@kernel(
    "void(float32[:,::1], int64[::1], int32[:,::1], int64[::1], int32[::1], float32[::1], float32, "
    "float32[:,::1], float32[::1], float32[::1], int64, int64)",
    error_model="numpy",
    fastmath={"reassoc", "contract"},
)
def descend(
    H: Array, order: Array, negatives: Array, indptr: Array, indices: Array,
    importance: Array, rate: Any,
    Q: Array, bias: Array, squares: Array,
    share: int, n_shares: int,
) -> None:  # fmt: skip
    """Take a step for every candidate of every row, in this order of the rows, for one share of the
    labels.
    """
    k = H.shape[1]
    for row in order:
        h = H[row]
        first = indptr[row]
        n_positives = indptr[row + 1] - indptr[row]
        for j in range(n_positives + negatives.shape[1]):
            # The labels of the row come first.
            label = np.int64(
                indices[first + j] if j < n_positives else negatives[row, j - n_positives]
            )
            if label < 0 or (label // NEIGHBOURS) % n_shares != share:
                continue
            q = Q[label]
            score = bias[label]
            for f in range(k):
                score += q[f] * h[f]
            slope = importance[row] * (
                np.float32(1) / (np.float32(1) + np.exp(-score)) - np.float32(j < n_positives)
            )
            squares[label] += slope * slope
            step = rate * slope / np.sqrt(squares[label])
            bias[label] -= step
            for f in range(k):
                q[f] -= step * h[f]
