"""The steps of the logistic fit: what a place must offer, and how this process computes them.

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

PARTS = 4  # of a batch, one for each thread; more would make the products small
LOGITS = 1 << 26  # entries of the largest block of logits, rows × labels


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
    patience: int = (
        4  # epochs without a lower held-out loss, each at half the step, before stopping
    )
    smallest: float = 1 / 64  # fraction of the first step at which to stop
    seed: int = 0

    def batch_of(self, n_train: int, c: int) -> int:
        """Rows of a step: at least twenty steps an epoch, so that its mean is one of many
        iterates.
        """
        return max(1, min(self.batch, LOGITS // c, max(32, n_train // 20), n_train))

    def prior(self, rates: Array) -> Array:
        """Logits of the base rates."""
        return np.log(rates) if self.multiclass else np.log(rates) - np.log1p(-rates)

    def longest(self, rates: Array, batch: int, size: int) -> Array:
        """Step of each label: by its curvature, within the reach of one example."""
        return np.minimum(self.step / (rates * (1 - rates)), self.reach * batch / (size + 1))


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
    """In this process: the parts of a batch run on its threads."""

    def __init__(
        self, problem: LogisticProblem, F: Any, parts: Sequence[slice] = (slice(None),)
    ) -> None:
        """``F`` are the whitened features of all rows; ``parts`` are the labels multiplied at a
        time.
        """
        whitening, rates, settings = problem.whitening, problem.rates, problem.settings
        self.whitening, self.F, self.Y, self.w, self.settings = (
            whitening,
            F,
            problem.Y,
            problem.weights,
            settings,
        )
        self.batch, self.parts = settings.batch_of(problem.n_train, len(rates)), parts
        dtype = whitening.T.dtype
        self.longest = settings.longest(rates, self.batch, whitening.size).astype(dtype)
        self.curvature = (rates * (1 - rates)).astype(dtype)
        self.Q = np.zeros((whitening.size + 1, len(rates)), dtype=dtype)
        self.Q[-1] = settings.prior(rates)
        self.velocity, self.mean = np.zeros_like(self.Q), self.Q.copy()
        self.best = self.mean

    def epoch(self, order: Indices, kept: list[Indices | None], scale: float) -> None:
        s = self.settings
        step = scale * (1 - s.momentum) * self.longest
        self.mean = np.zeros_like(self.Q)
        with own_threads():
            for rows, chosen in zip(order, kept, strict=True):
                some: Any = (
                    slice(None) if chosen is None else np.append(chosen, self.whitening.size)
                )
                seen = self.F[rows][:, some]
                seen[:, :-1] /= 1 - s.dropout  # keeps the expected length of a row
                truth = self.Y[rows]
                for part in self.parts:
                    Q, velocity = self.Q[:, part], self.velocity[:, part]
                    ahead = Q[some] + s.momentum * velocity[some]
                    own = truth if part == slice(None) else truth[:, part]
                    slope = gradient(seen, own, ahead, self.w[rows], s.multiclass)
                    if s.l2:
                        slope += s.l2 * self.curvature[part] * ahead
                    velocity *= s.momentum
                    velocity[some] -= step[part] * slope
                    Q += velocity
                self.mean += self.Q
        self.mean /= len(order)

    def loss(self, rows: Indices) -> float:
        return sum(self.losses(rows)) / max(1e-300, float(self.w[rows].sum()))

    def losses(self, rows: Indices) -> list[float]:
        """Return the weighted total loss on ``rows`` for each part of the labels."""
        return total_losses(
            self.F, self.Y, rows, self.mean, self.settings.multiclass, self.w, self.parts
        )

    def keep(self) -> None:
        self.best = self.mean

    def restart(self) -> None:
        self.Q, self.velocity = self.best.copy(), np.zeros_like(self.Q)

    def state(self) -> dict[str, Array]:
        return {"Q": self.Q, "velocity": self.velocity, "best": self.best}

    def restore(self, state: dict[str, Array]) -> None:
        self.Q, self.velocity, self.best = state["Q"], state["velocity"], state["best"]

    def result(self) -> tuple[Block, Block]:
        return self.whitening.undo(self.best)


def residual(P: Array, Y: sparse.csr_array, multiclass: bool) -> Array:
    """Replace the logits ``P`` by ``probabilities − Y``, a few rows at a time so that they stay in
    the cache.
    """
    for rows in spans(len(P), cache_rows(P)):
        part = P[rows]
        if multiclass:
            part -= part.max(axis=1, keepdims=True)
            np.exp(part, out=part)
            part *= 1 / part.sum(axis=1, keepdims=True)
        else:
            np.negative(part, out=part)
            np.exp(np.minimum(part, 60, out=part), out=part)
            part += 1
            np.reciprocal(part, out=part)
    P[np.repeat(np.arange(Y.shape[0]), np.diff(Y.indptr)), Y.indices] -= 1
    return P


def gradient(F: Array, Y: sparse.csr_array, Q: Array, w: Array, multiclass: bool) -> Array:
    """Gradient of the weighted mean loss; the parts of the rows do not depend on the number of
    threads.
    """
    share = (w / w.sum())[:, None].astype(F.dtype)
    found: dict[int, Array] = {}

    def add(rows: slice) -> None:
        R = residual(F[rows] @ Q, Y[rows], multiclass)
        found[rows.start] = (F[rows] * share[rows]).T @ R

    for_each(add, ((rows,) for rows in spans(len(F), -(-len(F) // PARTS))))
    return reduce(np.add, (found[start] for start in sorted(found)))


def total_losses(
    F: Any,
    Y: sparse.csr_array,
    rows: Array,
    Q: Array,
    multiclass: bool,
    w: Array,
    parts: Sequence[slice],
) -> list[float]:
    """Return the weighted total loss on ``rows`` for each part of the labels."""
    totals = [0.0] * len(parts)
    for span in spans(len(rows), max(1, LOGITS // Q[:, parts[0]].shape[1])):
        chosen = rows[span]
        seen, truth = F[chosen], Y[chosen]
        for number, part in enumerate(parts):
            P, own = seen @ Q[:, part], truth if part == slice(None) else truth[:, part]
            at = np.repeat(np.arange(len(chosen)), np.diff(own.indptr))
            hits = np.bincount(at, weights=P[at, own.indices], minlength=len(chosen))
            if multiclass:
                top = P.max(axis=1)
                normalizers = top + np.log(np.exp(P - top[:, None]).sum(axis=1))
            else:
                normalizers = np.logaddexp(0, P).sum(axis=1, dtype=np.float64)
            totals[number] += float(w[chosen] @ (normalizers - hits))
    return totals
