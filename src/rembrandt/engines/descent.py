"""The steps of the logistic fit: what a backend must offer, and how this process computes them.

An epoch takes one accelerated gradient step for each batch of rows; the mean of its iterates is
evaluated and kept.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from rembrandt.engines.whitening import Whitening
from rembrandt.linalg import Array, Indices
from rembrandt.linalg.blocks import Block, cache_rows, spans
from rembrandt.linalg.threads import for_each, own_threads

# Pieces of a batch, one for each thread: a constant, so that the bits do not depend on the number
# of threads; more would make the products small.
GRADIENT_PIECES = 4
# Entries of the largest block of logits, rows × labels.
LOGITS = 1 << 26
# Fewest rows of a step, and fewest steps of an epoch, where there are enough rows.
MIN_BATCH_ROWS = 32
MIN_EPOCH_STEPS = 20
# Negative logits are clipped here, so that their exponential is finite in float32.
LARGEST_EXPONENT = 60


@dataclass(frozen=True)
class LogisticSettings:
    """Settings of the fit; the defaults suit fifty to some thousands of features."""

    multiclass: bool
    max_epochs: int = 40
    batch: int = 1000
    step: float = 0.1  # fraction of the step to the minimum of a label's quadratic model
    reach: float = 10.0  # bound on how far one example moves its own logit
    momentum: float = 0.9
    dropout: float = 0.0  # fraction of the features, drawn for each batch
    l2: float = 0.0  # penalty on the weights of whitened features, in units of a label's curvature
    floor: float = 1e-4  # fraction of the mean eigenvalue that is added to the covariance
    # Epochs without a lower held-out loss, each at half the step, before stopping.
    patience: int = 4
    smallest: float = 1 / 64  # fraction of the first step at which to stop
    seed: int = 0

    def batch_of(self, n_train: int, c: int) -> int:
        """Return the rows of a step: at least twenty steps an epoch, so that its mean is one of
        many iterates.
        """
        max_rows = max(MIN_BATCH_ROWS, n_train // MIN_EPOCH_STEPS)
        rows = min(self.batch, LOGITS // c, max_rows, n_train)
        return max(1, rows)

    def prior(self, rates: Array) -> Array:
        """Return the logits of the base rates."""
        if self.multiclass:
            return np.log(rates)
        return np.log(rates) - np.log1p(-rates)

    def longest(self, rates: Array, batch: int, size: int) -> Array:
        """Return the step of each label: by its curvature, within the reach of one example."""
        curvature = rates * (1 - rates)
        by_curvature = self.step / curvature
        by_reach = self.reach * batch / (size + 1)
        return np.minimum(by_curvature, by_reach)


@dataclass(frozen=True)
class Examples:
    """Whitened features of rows, their labels and their weights."""

    F: Any
    Y: sparse.csr_array
    weights: Array

    def rows(self, rows: Any) -> "Examples":
        """Return some of the rows."""
        return Examples(self.F[rows], self.Y[rows], self.weights[rows])


@dataclass(frozen=True)
class LogisticProblem:
    """What a logistic fit starts from."""

    whitening: Whitening
    H: Block  # projected rows
    Y: sparse.csr_array
    weights: Array  # of the rows
    rates: Array  # of the labels, within (0, 1)
    settings: LogisticSettings
    n_train: int  # rows that are not held out


class Descent(Protocol):
    """The weights of all labels during a logistic fit."""

    batch: int  # rows of a step

    def epoch(self, order: Indices, kept: list[Indices | None], scale: float) -> None:
        """Take a step for each row of ``order`` (the rows of a batch), on the features ``kept`` for
        it.
        """

    def loss(self, rows: Indices) -> float:
        """Return the weighted mean loss of the last epoch's mean; before the first epoch, of the
        base rates.
        """

    def keep(self) -> None:
        """Mark the mean of the last epoch as the best so far."""

    def restart(self) -> None:
        """Return to the best so far, with zero velocity."""

    def state(self) -> dict[str, Array]:
        """Return the arrays that later epochs depend on."""

    def restore(self, state: dict[str, Array]) -> None:
        """Continue from ``state``."""

    def result(self) -> tuple[Block, Block]:
        """Return the best weights and biases, for features that are not whitened."""


class NumpyDescent:
    """In this process: the pieces of a batch run on its threads.

    Parameters
    ----------
    problem : LogisticProblem
        What the fit starts from.
    F : array-like
        Whitened features of all rows.
    label_blocks : sequence of slice, optional
        Labels multiplied at a time; all unless given.
    """

    def __init__(
        self,
        problem: LogisticProblem,
        F: Any,
        label_blocks: Sequence[slice] = (slice(None),),
    ) -> None:
        rates = problem.rates
        n_labels = len(rates)
        size = problem.whitening.size
        dtype = problem.whitening.T.dtype
        self.whitening = problem.whitening
        self.examples = Examples(F, problem.Y, problem.weights)
        self.settings = problem.settings
        self.label_blocks = label_blocks
        self.batch = self.settings.batch_of(problem.n_train, n_labels)
        longest = self.settings.longest(rates, self.batch, size)
        self.longest = longest.astype(dtype)
        curvature = rates * (1 - rates)
        self.curvature = curvature.astype(dtype)
        # The last row holds the biases.
        self.Q = np.zeros((size + 1, n_labels), dtype=dtype)
        self.Q[-1] = self.settings.prior(rates)
        self.velocity = np.zeros_like(self.Q)
        self.mean = self.Q.copy()
        self.best = self.mean

    def epoch(self, order: Indices, kept: list[Indices | None], scale: float) -> None:
        step = scale * (1 - self.settings.momentum) * self.longest
        self.mean = np.zeros_like(self.Q)
        with own_threads():
            for rows, kept_features in zip(order, kept, strict=True):
                self._step(rows, kept_features, step)
                self.mean += self.Q
        self.mean /= len(order)

    def _step(self, rows: Indices, kept: Indices | None, step: Array) -> None:
        """Take an accelerated step on a batch of rows, with the features ``kept`` and the bias."""
        settings = self.settings
        features: Any = slice(None)
        if kept is not None:
            features = np.append(kept, self.whitening.size)
        batch = self.examples.rows(rows)
        F = batch.F[:, features]
        # Keeps the expected length of a row.
        F[:, :-1] /= 1 - settings.dropout
        for labels in self.label_blocks:
            Q = self.Q[:, labels]
            velocity = self.velocity[:, labels]
            ahead = Q[features] + settings.momentum * velocity[features]
            truth = _columns(batch.Y, labels)
            slope = gradient(F, truth, ahead, batch.weights, settings.multiclass)
            if settings.l2:
                slope += settings.l2 * self.curvature[labels] * ahead
            velocity *= settings.momentum
            velocity[features] -= step[labels] * slope
            Q += velocity

    def loss(self, rows: Indices) -> float:
        total_weight = float(self.examples.weights[rows].sum())
        total_loss = sum(self.losses(rows))
        return total_loss / max(1e-300, total_weight)

    def losses(self, rows: Indices) -> list[float]:
        """Return the weighted total loss on ``rows`` for each block of labels."""
        return total_losses(
            self.examples,
            rows,
            self.mean,
            self.settings.multiclass,
            self.label_blocks,
        )

    def keep(self) -> None:
        self.best = self.mean

    def restart(self) -> None:
        self.Q = self.best.copy()
        self.velocity = np.zeros_like(self.Q)

    def state(self) -> dict[str, Array]:
        return {
            "Q": self.Q,
            "velocity": self.velocity,
            "best": self.best,
        }

    def restore(self, state: dict[str, Array]) -> None:
        self.Q = state["Q"]
        self.velocity = state["velocity"]
        self.best = state["best"]

    def result(self) -> tuple[Block, Block]:
        return self.whitening.undo(self.best)


def _columns(Y: sparse.csr_array, labels: slice) -> sparse.csr_array:
    """Select labels; all of them without a copy."""
    if labels == slice(None):
        return Y
    return Y[:, labels]


def _row_of_entries(Y: sparse.csr_array) -> Indices:
    """Return the row of each entry."""
    rows = np.arange(Y.shape[0])
    counts = np.diff(Y.indptr)
    return np.repeat(rows, counts)


def residual(P: Array, Y: sparse.csr_array, multiclass: bool) -> Array:
    """Replace the logits ``P`` by ``probabilities − Y``, a few rows at a time so that they stay in
    the cache.
    """
    for rows in spans(len(P), cache_rows(P)):
        block = P[rows]
        if multiclass:
            block -= block.max(axis=1, keepdims=True)
            np.exp(block, out=block)
            block *= 1 / block.sum(axis=1, keepdims=True)
        else:
            np.negative(block, out=block)
            np.minimum(block, LARGEST_EXPONENT, out=block)
            np.exp(block, out=block)
            block += 1
            np.reciprocal(block, out=block)
    rows_of_labels = _row_of_entries(Y)
    P[rows_of_labels, Y.indices] -= 1
    return P


def gradient(F: Array, Y: sparse.csr_array, Q: Array, w: Array, multiclass: bool) -> Array:
    """Return the gradient of the weighted mean loss; the pieces of the rows do not depend on the
    number of threads.
    """
    shares = w / w.sum()
    shares = shares[:, None].astype(F.dtype)
    gradients: dict[int, Array] = {}

    def add(rows: slice) -> None:
        R = residual(F[rows] @ Q, Y[rows], multiclass)
        weighted = F[rows] * shares[rows]
        gradients[rows.start] = weighted.T @ R

    piece_rows = -(-len(F) // GRADIENT_PIECES)
    pieces = spans(len(F), piece_rows)
    for_each(add, ((rows,) for rows in pieces))
    in_order = [gradients[start] for start in sorted(gradients)]
    return reduce(np.add, in_order)


def total_losses(
    examples: Examples,
    rows: Array,
    Q: Array,
    multiclass: bool,
    label_blocks: Sequence[slice],
) -> list[float]:
    """Return the weighted total loss on ``rows`` for each block of labels."""
    totals = [0.0] * len(label_blocks)
    width = Q[:, label_blocks[0]].shape[1]
    block_rows = max(1, LOGITS // width)
    for span in spans(len(rows), block_rows):
        block = examples.rows(rows[span])
        for number, labels in enumerate(label_blocks):
            P = block.F @ Q[:, labels]
            truth = _columns(block.Y, labels)
            losses = _row_losses(P, truth, multiclass)
            totals[number] += float(block.weights @ losses)
    return totals


def _row_losses(P: Array, Y: sparse.csr_array, multiclass: bool) -> Array:
    """Return the loss of each row of logits: its normalizer minus the logits of its labels."""
    rows_of_labels = _row_of_entries(Y)
    logits_of_labels = P[rows_of_labels, Y.indices]
    true_logits = np.bincount(rows_of_labels, logits_of_labels, minlength=len(P))
    if multiclass:
        top = P.max(axis=1)
        odds = np.exp(P - top[:, None])
        normalizers = top + np.log(odds.sum(axis=1))
    else:
        softplus = np.logaddexp(0, P)
        normalizers = softplus.sum(axis=1, dtype=np.float64)
    return normalizers - true_logits
