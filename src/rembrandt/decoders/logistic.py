"""Logistic decoding: softmax over classes, or one independent logistic regression per label.

The second-order scheme of Agarwal et al. (2014, Algorithm 1): the curvature of the loss is bounded by a fixed matrix,
so it is factored once and every step is preconditioned by it. Here the preconditioner is applied to the features
(they are whitened), which leaves plain accelerated gradient steps on minibatches. Rare labels have a flat loss, so the
step of each label is scaled by its own curvature at the base rates. What is kept is the mean of an epoch's iterates:
the step can stay large, and the held-out loss is smooth enough to stop by.
"""

from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import solve_triangular

from rembrandt.data.splits import draw_rows
from rembrandt.decoders.decoder import Decoder
from rembrandt.features.fourier import FourierMap
from rembrandt.linalg.blocks import Block, cache_rows, spans
from rembrandt.linalg.threads import for_each, own_threads
from rembrandt.progress import Report, silent

PARTS = 4  # of a batch, for as many threads; more would make the products small
LOGITS = 1 << 26  # entries of the largest block of logits: rows × labels


@dataclass(frozen=True)
class LogisticSettings:
    """How to fit; the defaults serve from fifty to some thousands of features."""

    multiclass: bool
    max_epochs: int = 40
    batch: int = 1000
    step: float = 0.1  # of the whole way to the minimum of a label's quadratic model
    reach: float = 10.0  # how far one example may move its own logit: whitened rows are as long as they have features
    momentum: float = 0.9
    dropout: float = 0.0  # of the features, drawn anew for each batch
    l2: float = 0.0
    floor: float = 1e-4  # of the mean eigenvalue, added to the covariance before it is inverted
    patience: int = 4  # epochs without a better held-out loss, each at half the step, before stopping
    smallest: float = 1 / 64  # of the first step: what is left to gain is noise
    held_out: float = 0.05
    seed: int = 0


@dataclass(frozen=True)
class Whitening:
    """``h ↦ [(φ(h) − μ) T, 1]`` with unit covariance; the 1 carries the bias and is already white."""

    mean: Block
    T: Block
    fourier: FourierMap | None

    @classmethod
    def of(cls, H: NDArray[Any], fourier: FourierMap | None, floor: float, weights: NDArray[Any]) -> "Whitening":
        D = H.shape[1] if fourier is None else fourier.size
        covariance, mean, total = np.zeros((D, D)), np.zeros(D), float(weights.sum())
        for rows in spans(len(H), 8192):
            Phi = (H[rows] if fourier is None else fourier(H[rows])).astype(np.float64)
            scaled = Phi * np.sqrt(weights[rows])[:, None]
            covariance += scaled.T @ scaled
            mean += weights[rows] @ Phi
        mean /= total
        covariance = covariance / total - np.outer(mean, mean)
        level = floor * np.trace(covariance) / D
        factor = np.linalg.cholesky(covariance + max(level, 1e-12) * np.eye(D))
        T = solve_triangular(factor, np.eye(D), lower=True, check_finite=False).T
        return cls(mean.astype(H.dtype), np.ascontiguousarray(T, dtype=H.dtype), fourier)

    def __call__(self, H: Block) -> Block:
        xp = array_namespace(H)
        Phi = H if self.fourier is None else self.fourier(H)
        ones = xp.ones((H.shape[0], 1), dtype=self.T.dtype, device=self.T.device)
        return xp.concat([(Phi - self.mean) @ self.T, ones], axis=1)

    def undo(self, Q: Block) -> tuple[Block, Block]:
        """Weights and bias for ``φ(h)`` from those for the whitened features."""
        weights = self.T @ Q[:-1]
        return weights, Q[-1] - self.mean @ weights


def fit_logistic(
    H: NDArray[Any],
    Y: sparse.csr_array,
    settings: LogisticSettings,
    fourier: FourierMap | None = None,
    weights: NDArray[Any] | None = None,
    report: Report = silent,
) -> Decoder:
    """Fit on most rows, stop by the loss on the rest, and keep the best weights seen."""
    n, c = Y.shape
    w = np.ones(n) if weights is None else np.asarray(weights, dtype=np.float64)
    # A row that counts for nothing decides nothing, and one without a class says nothing about which it is.
    usable = np.flatnonzero((w > 0) & (np.diff(Y.indptr) > 0 if settings.multiclass else True))
    train, held = (usable[part] for part in draw_rows(len(usable), settings.held_out, settings.seed, most=5000))
    if len(held) == 0:
        held = train
    whitening = Whitening.of(H, fourier, settings.floor, w)
    F = _all_features(whitening, H)
    rates = np.clip(np.asarray(Y.T @ w).ravel() / w.sum(), 0.5 / n, 1 - 0.5 / n)
    prior = np.log(rates) if settings.multiclass else np.log(rates) - np.log1p(-rates)
    Q = np.zeros((F.shape[1], c), dtype=F.dtype)
    Q[-1] = prior
    curvature = (rates * (1 - rates)).astype(F.dtype)
    # At least twenty steps an epoch, so that the mean of an epoch is one of many iterates.
    batch = max(1, min(settings.batch, LOGITS // c, max(32, len(train) // 20), len(train)))
    longest = np.minimum(settings.step / curvature, settings.reach * batch / F.shape[1])
    rng = np.random.default_rng(settings.seed)
    scale = 1.0  # backed off when a step makes the loss worse
    velocity = np.zeros_like(Q)
    best, best_loss, since = Q.copy(), _mean_loss(F, Y, held, Q, settings.multiclass, w), 0
    first_loss = best_loss
    for epoch in range(settings.max_epochs):
        report("logistic decoder", epoch, settings.max_epochs)
        step = scale * (1 - settings.momentum) * longest
        order, mean = rng.permutation(train), np.zeros_like(Q)
        batches = len(order) // batch
        with own_threads():
            for i in range(batches):
                rows = np.sort(order[i * batch : (i + 1) * batch])
                kept = _kept(F.shape[1], settings.dropout, rng)
                ahead = Q[kept] + settings.momentum * velocity[kept]
                seen = F[rows][:, kept]
                seen[:, :-1] /= 1 - settings.dropout  # as large, on average, as all features together
                gradient = _gradient(seen, Y[rows], ahead, w[rows], settings.multiclass)
                if settings.l2:
                    gradient += settings.l2 * curvature * ahead
                velocity *= settings.momentum
                velocity[kept] -= step * gradient
                Q += velocity
                mean += Q
        mean /= batches
        loss = _mean_loss(F, Y, held, mean, settings.multiclass, w)
        since = 0 if loss < best_loss else since + 1
        if loss < best_loss:
            best, best_loss = mean, loss
        elif not loss < first_loss:
            # Diverging: back to the best point, at rest, with a much smaller step.
            Q, velocity, scale = best.copy(), np.zeros_like(Q), scale / 8
        else:
            scale /= 2
        if since >= settings.patience or scale < settings.smallest:
            break
    report("logistic decoder", settings.max_epochs, settings.max_epochs)
    found, bias = whitening.undo(best)
    return Decoder(found, bias, "softmax" if settings.multiclass else "sigmoid", fourier)


def _kept(size: int, dropout: float, rng: np.random.Generator) -> Any:
    """The features of a batch: a random part of them, always with the last, the constant.

    One draw serves the whole batch, so what is dropped is not computed at all.
    """
    if dropout == 0:
        return slice(None)
    chosen = rng.permutation(size - 1)[: max(1, round((1 - dropout) * (size - 1)))]
    return np.append(np.sort(chosen), size - 1)


def _all_features(whitening: Whitening, H: NDArray[Any]) -> NDArray[Any]:
    first = whitening(H[:1])
    F = np.empty((len(H), first.shape[1]), dtype=first.dtype)
    for rows in spans(len(H), 8192):
        F[rows] = whitening(H[rows])
    return F


def _residual(P: NDArray[Any], Y: sparse.csr_array, multiclass: bool) -> NDArray[Any]:
    """``probabilities − Y`` in the place of the logits ``P``, without a dense Y, a few rows in the cache at a time."""
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


def _gradient(F: NDArray[Any], Y: sparse.csr_array, Q: NDArray[Any], w: NDArray[Any], multiclass: bool) -> NDArray[Any]:
    """The gradient of the weighted mean loss; parts of the rows side by side, always the same parts."""
    share = (w / w.sum())[:, None].astype(F.dtype)
    found: dict[int, NDArray[Any]] = {}

    def add(rows: slice) -> None:
        R = _residual(F[rows] @ Q, Y[rows], multiclass)
        found[rows.start] = (F[rows] * share[rows]).T @ R

    for_each(add, ((rows,) for rows in spans(len(F), -(-len(F) // PARTS))))
    return reduce(np.add, (found[start] for start in sorted(found)))


def _mean_loss(
    F: NDArray[Any], Y: sparse.csr_array, rows: NDArray[Any], Q: NDArray[Any], multiclass: bool, w: NDArray[Any]
) -> float:
    """The weighted mean loss per example on ``rows``."""
    total = 0.0
    for part in spans(len(rows), max(1, LOGITS // Q.shape[1])):
        chosen = rows[part]
        P, truth = F[chosen] @ Q, Y[chosen]
        at = np.repeat(np.arange(len(chosen)), np.diff(truth.indptr))
        hits = np.bincount(at, weights=P[at, truth.indices], minlength=len(chosen))
        if multiclass:
            top = P.max(axis=1)
            normalizers = top + np.log(np.exp(P - top[:, None]).sum(axis=1))
        else:
            normalizers = np.logaddexp(0, P).sum(axis=1, dtype=np.float64)
        total += float(w[chosen] @ (normalizers - hits))
    return total / max(1e-300, float(w[rows].sum()))
