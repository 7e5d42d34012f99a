"""Logistic decoding: softmax over classes, or one independent logistic regression per label.

The second-order scheme of Agarwal et al. (2014, Algorithm 1): the curvature of the loss is bounded
by a fixed matrix, which is factored once and preconditions every step. Here the preconditioner is
applied to the features (they are whitened), which leaves accelerated gradient steps on minibatches.
Rare labels have a flat loss, so the step of each label is scaled by its own curvature at the base
rates. The mean of an epoch's iterates is kept: the step can stay large, and the held-out loss is
smooth enough to stop by.
"""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.data.splits import draw_rows
from rembrandt.engines.backend import CPU, Backend
from rembrandt.engines.descent import Descent, LogisticProblem, LogisticSettings
from rembrandt.engines.whitening import Whitening
from rembrandt.errors import RembrandtWarning, StorageError
from rembrandt.features.fourier import FourierMap
from rembrandt.linalg.blocks import Block
from rembrandt.parts.embedding.decoders.decoder import Decoder, Link
from rembrandt.progress import Report, silent
from rembrandt.storage.arrays import checked, positive
from rembrandt.storage.checkpoints import NO_CHECKPOINTS, Checkpoints

__all__ = ["LogisticSettings", "fit_logistic", "stopping_rows"]

# Name of the stage in checkpoints.
EPOCH_STAGE = "epoch"
# Share of the rows that stop a fit.
STOPPING_SHARE = 0.05
# Rows that stop a fit, at most: more would not make the loss more certain.
MAX_STOPPING_ROWS = 5000
# The step is divided by this after an epoch with a higher loss than the best,
STEP_REDUCTION = 2
# and by this after one with a higher loss than the base rates have.
DIVERGED_STEP_REDUCTION = 8


@dataclass
class _Progress:
    """Where the epochs of a fit are; what a checkpoint holds beside the weights."""

    first_loss: float  # of the base rates
    best_loss: float
    scale: float = 1.0  # of the step, which is reduced when the loss increases
    since: int = 0  # epochs since the best one
    done: int = 0  # epochs

    def facts(self, rng: np.random.Generator, batch: int) -> dict[str, Any]:
        """Return the progress as JSON."""
        return {
            "done": self.done,
            "first_loss": self.first_loss,
            "best_loss": self.best_loss,
            "scale": self.scale,
            "since": self.since,
            "rng": rng.bit_generator.state,
            "batch": batch,
        }


def fit_logistic(
    H: Block,
    Y: sparse.csr_array,
    settings: LogisticSettings,
    fourier: FourierMap | None = None,
    weights: NDArray[Any] | None = None,
    report: Report = silent,
    backend: Backend = CPU,
    checkpoints: Checkpoints = NO_CHECKPOINTS,
    stopping: NDArray[np.int64] | None = None,
) -> Decoder:
    """Fit on most rows, stop by the loss on the others, and return the weights with the lowest.

    Parameters
    ----------
    H : array-like of shape (n, k)
        Projected rows, an array of ``backend``.
    Y : csr_array of shape (n, c)
        Labels.
    settings : LogisticSettings
        Softmax or independent labels, and the settings of the descent.
    fourier : FourierMap, optional
        Map of the projected rows to random features.
    weights : ndarray of shape (n,), optional
        Weights of the rows.
    report : callable, optional
        Receives the progress.
    backend : Backend, optional
        Where the fit runs.
    checkpoints : Checkpoints, optional
        Where epochs are kept, so that a fit can be resumed.
    stopping : ndarray of int, optional
        Rows whose loss stops the fit; drawn by `stopping_rows` unless given.

    Returns
    -------
    Decoder
    """
    row_weights = np.ones(Y.shape[0])
    if weights is not None:
        row_weights = np.asarray(weights, dtype=np.float64)
    if stopping is None:
        stopping = stopping_rows(Y, weights, settings.multiclass, settings.seed)
    usable = usable_rows(Y, weights, settings.multiclass)
    train = np.setdiff1d(usable, stopping, assume_unique=True)
    if len(stopping) == 0:
        stopping = train
    # The moments are not kept: they take as much memory as the whitening itself.
    whitening = Whitening.of(
        backend.statistics(H, None, fourier, row_weights), settings.floor, H.dtype
    )
    counted = row_weights.copy()
    if not settings.multiclass and stopping is not train:
        # Stopping rows count alike: a few with hundreds of labels would end the fit before the
        # others are learned.
        counted[stopping] /= np.maximum(1, np.diff(Y.indptr)[stopping])
    rates = _base_rates(Y, row_weights)
    problem = LogisticProblem(whitening, H, Y, counted, rates, settings, len(train))
    descent = backend.descent(problem)
    _descend(descent, settings, train, stopping, whitening.size, report, checkpoints)
    decoder_weights, bias = descent.result()
    link: Link = "softmax" if settings.multiclass else "sigmoid"
    return Decoder(decoder_weights, bias, link, fourier)


def _base_rates(Y: sparse.csr_array, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the weighted frequency of each label, at least half an example from zero and one."""
    margin = 0.5 / Y.shape[0]
    counts = np.asarray(Y.T @ weights).ravel()
    rates: NDArray[np.float64] = np.clip(counts / weights.sum(), margin, 1 - margin)
    return rates


def _descend(
    descent: Descent,
    settings: LogisticSettings,
    train: NDArray[np.int64],
    stopping: NDArray[np.int64],
    n_features: int,
    report: Report,
    checkpoints: Checkpoints,
) -> None:
    """Take epochs until the loss on the stopping rows decreases no more."""
    rng = np.random.default_rng(settings.seed)
    kept = _last_epoch(checkpoints, descent)
    if kept is None:
        loss = descent.loss(stopping)
        progress = _Progress(first_loss=loss, best_loss=loss)
        descent.keep()
    else:
        rng.bit_generator.state = kept["rng"]
        progress = _Progress(
            kept["first_loss"], kept["best_loss"], kept["scale"], kept["since"], kept["done"]
        )
    for epoch in range(progress.done, settings.max_epochs):
        report("logistic decoder", epoch, settings.max_epochs)
        n_batches = len(train) // descent.batch
        shuffled = rng.permutation(train)[: n_batches * descent.batch]
        batches = np.sort(shuffled.reshape(n_batches, descent.batch), axis=1)
        features = [_kept_features(n_features, settings.dropout, rng) for _ in batches]
        descent.epoch(batches, features, progress.scale)
        _judge_epoch(descent, descent.loss(stopping), progress)
        if progress.since >= settings.patience or progress.scale < settings.smallest:
            break
        facts = progress.facts(rng, descent.batch)
        checkpoints.step(EPOCH_STAGE, progress.done, descent.state, facts)
    report("logistic decoder", settings.max_epochs, settings.max_epochs)


def _judge_epoch(descent: Descent, loss: float, progress: _Progress) -> None:
    """Keep the epoch if its loss is the lowest so far; reduce the step otherwise."""
    progress.done += 1
    if loss < progress.best_loss:
        progress.best_loss = loss
        progress.since = 0
        descent.keep()
        return
    progress.since += 1
    if loss < progress.first_loss:
        progress.scale /= STEP_REDUCTION
    else:
        # Diverging, or not a number: return to the best point with a much smaller step.
        descent.restart()
        progress.scale /= DIVERGED_STEP_REDUCTION


def usable_rows(
    Y: sparse.csr_array, weights: NDArray[Any] | None, multiclass: bool
) -> NDArray[np.int64]:
    """Return the rows that a fit uses: those with weight and, with softmax, with a class."""
    usable = np.ones(Y.shape[0], dtype=bool)
    if multiclass:
        usable = np.diff(Y.indptr) > 0
    if weights is not None:
        usable = usable & (np.asarray(weights) > 0)
    return np.flatnonzero(usable)


def stopping_rows(
    Y: sparse.csr_array, weights: NDArray[Any] | None, multiclass: bool, seed: int
) -> NDArray[np.int64]:
    """Draw the rows whose loss stops a fit. What precedes the decoder should not be fitted to them
    either.
    """
    usable = usable_rows(Y, weights, multiclass)
    _, drawn = draw_rows(len(usable), STOPPING_SHARE, seed, max_held=MAX_STOPPING_ROWS)
    return usable[drawn]


def _last_epoch(checkpoints: Checkpoints, descent: Descent) -> dict[str, Any] | None:
    """Restore ``descent`` from the last epoch kept, and return the rest of the fit's state."""
    kept = checkpoints.last(EPOCH_STAGE)
    if kept is None:
        return None
    arrays, facts = kept
    # The file is not trusted.
    try:
        np.random.default_rng().bit_generator.state = facts["rng"]
        for name in ("scale", "first_loss", "best_loss"):
            positive(facts[name], float, or_zero=True)
        for name in ("since", "done"):
            positive(facts[name], int, or_zero=True)
        batch = positive(facts["batch"], int)
    except (LookupError, TypeError, ValueError, OverflowError, StorageError) as error:
        raise StorageError(
            f"the checkpoint of the decoder cannot be used ({error}); delete it to start again"
        ) from error
    if batch != descent.batch:
        # The number of rows of a step depends on the free memory of a device.
        warnings.warn(
            f"the checkpoint was made with {batch:,} examples a step, and there is memory for "
            f"{descent.batch:,} now: the logistic decoder starts again",
            RembrandtWarning,
            stacklevel=3,
        )
        return None
    state = {}
    for name, array in descent.state().items():
        state[name] = checked(name, arrays, array.shape)
    descent.restore(state)
    return facts


def _kept_features(size: int, dropout: float, rng: np.random.Generator) -> NDArray[np.int64] | None:
    """Draw the features of a batch; None for all.

    One draw serves the whole batch, so that dropped features are not computed.
    """
    if dropout == 0:
        return None
    n_kept = max(1, round((1 - dropout) * size))
    return np.sort(rng.permutation(size)[:n_kept])
