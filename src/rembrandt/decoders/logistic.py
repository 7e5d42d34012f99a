"""Logistic decoding: softmax over classes, or one independent logistic regression per label.

The second-order scheme of Agarwal et al. (2014, Algorithm 1): the curvature of the loss is bounded
by a fixed matrix, which is factored once and preconditions every step. Here the preconditioner is
applied to the features (they are whitened), which leaves accelerated gradient steps on minibatches.
Rare labels have a flat loss, so the step of each label is scaled by its own curvature at the base
rates. The mean of an epoch's iterates is kept: the step can stay large, and the held-out loss is
smooth enough to stop by.
"""

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.data.splits import draw_rows
from rembrandt.decoders.decoder import Decoder
from rembrandt.engines.descent import Descent, LogisticProblem, LogisticSettings
from rembrandt.engines.place import CPU, Place
from rembrandt.engines.whitening import Whitening
from rembrandt.errors import RembrandtWarning, StorageError
from rembrandt.features.fourier import FourierMap
from rembrandt.linalg.blocks import Block
from rembrandt.progress import Report, silent
from rembrandt.storage.arrays import checked, positive
from rembrandt.storage.checkpoints import NO_CHECKPOINTS, Checkpoints

__all__ = ["LogisticSettings", "fit_logistic", "stopping_rows"]

EPOCHS = "epoch"  # stage name of the checkpoints
STOPPING, MOST_STOPPING = 0.05, 5000  # rows that stop a fit: a share, and at most as many


def fit_logistic(
    H: Block,
    Y: sparse.csr_array,
    settings: LogisticSettings,
    fourier: FourierMap | None = None,
    weights: NDArray[Any] | None = None,
    report: Report = silent,
    place: Place = CPU,
    checkpoints: Checkpoints = NO_CHECKPOINTS,
    stopping: NDArray[np.int64] | None = None,
) -> Decoder:
    """Fit on most rows, stop by the loss on the ``stopping`` rows, and return the best weights
    found.
    """
    n = Y.shape[0]
    w = np.ones(n) if weights is None else np.asarray(weights, dtype=np.float64)
    usable = usable_rows(Y, weights, settings.multiclass)
    held = (
        stopping_rows(Y, weights, settings.multiclass, settings.seed)
        if stopping is None
        else stopping
    )
    train = np.setdiff1d(usable, held, assume_unique=True)
    if len(held) == 0:
        held = train
    whitening = Whitening.of(place.statistics(H, None, fourier, w), settings.floor, H.dtype)
    rates = np.clip(np.asarray(Y.T @ w).ravel() / w.sum(), 0.5 / n, 1 - 0.5 / n)
    counted = w.copy()
    if not settings.multiclass and held is not train:
        # Stopping rows count alike: a few with hundreds of labels would end the fit before the
        # others are learned.
        counted[held] /= np.maximum(1, np.diff(Y.indptr)[held])
    descent = place.descent(LogisticProblem(whitening, H, Y, counted, rates, settings, len(train)))
    rng = np.random.default_rng(settings.seed)
    scale, since, done = 1.0, 0, 0  # the step is reduced when the loss increases
    kept = _last_epoch(checkpoints, descent)
    if kept is None:
        first_loss = best_loss = descent.loss(held)
        descent.keep()
    else:
        rng.bit_generator.state = kept["rng"]
        first_loss, best_loss = kept["first_loss"], kept["best_loss"]
        scale, since, done = kept["scale"], kept["since"], kept["done"]
    for epoch in range(done, settings.max_epochs):
        report("logistic decoder", epoch, settings.max_epochs)
        batches = len(train) // descent.batch
        order = rng.permutation(train)[: batches * descent.batch].reshape(batches, descent.batch)
        descent.epoch(
            np.sort(order, axis=1),
            [_kept(whitening.size, settings.dropout, rng) for _ in order],
            scale,
        )
        loss = descent.loss(held)
        since = 0 if loss < best_loss else since + 1
        if loss < best_loss:
            best_loss = loss
            descent.keep()
        elif not loss < first_loss:
            # Diverging: return to the best point with a much smaller step.
            descent.restart()
            scale /= 8
        else:
            scale /= 2
        if since >= settings.patience or scale < settings.smallest:
            break
        facts = {
            "done": epoch + 1,
            "first_loss": first_loss,
            "best_loss": best_loss,
            "scale": scale,
            "since": since,
            "rng": rng.bit_generator.state,
            "batch": descent.batch,
        }
        checkpoints.step(EPOCHS, epoch + 1, descent.state, facts)
    report("logistic decoder", settings.max_epochs, settings.max_epochs)
    found, bias = descent.result()
    return Decoder(found, bias, "softmax" if settings.multiclass else "sigmoid", fourier)


def usable_rows(
    Y: sparse.csr_array, weights: NDArray[Any] | None, multiclass: bool
) -> NDArray[np.int64]:
    """Return the rows that a fit uses: those with weight and, with softmax, with a class."""
    weighted = True if weights is None else np.asarray(weights) > 0
    return np.flatnonzero(
        weighted & (np.diff(Y.indptr) > 0 if multiclass else np.ones(Y.shape[0], dtype=bool))
    )


def stopping_rows(
    Y: sparse.csr_array, weights: NDArray[Any] | None, multiclass: bool, seed: int
) -> NDArray[np.int64]:
    """Draw the rows whose loss stops a fit. What precedes the decoder should not be fitted to them
    either.
    """
    usable = usable_rows(Y, weights, multiclass)
    return usable[draw_rows(len(usable), STOPPING, seed, most=MOST_STOPPING)[1]]


def _last_epoch(checkpoints: Checkpoints, descent: Descent) -> dict[str, Any] | None:
    """Restore ``descent`` from the last epoch kept, and return the rest of the fit's state."""
    kept = checkpoints.last(EPOCHS)
    if kept is None:
        return None
    arrays, facts = kept
    try:  # the file is not trusted
        np.random.default_rng().bit_generator.state = facts["rng"]
        for name in ("scale", "first_loss", "best_loss", "since", "done"):
            positive(facts[name], int if name in ("since", "done") else float, or_zero=True)
        batch = positive(facts["batch"], int)
    except (LookupError, TypeError, ValueError, OverflowError, StorageError) as error:
        raise StorageError(
            f"the checkpoint of the decoder cannot be used ({error}); delete it to start again"
        ) from error
    if batch != descent.batch:  # it depends on the free memory of a device
        warnings.warn(
            f"the checkpoint was made with {batch:,} examples a step, and there is memory for "
            f"{descent.batch:,} now: the logistic decoder starts again",
            RembrandtWarning,
            stacklevel=2,
        )
        return None
    descent.restore(
        {name: checked(name, arrays, own.shape) for name, own in descent.state().items()}
    )
    return facts


def _kept(size: int, dropout: float, rng: np.random.Generator) -> NDArray[np.int64] | None:
    """Draw the features of a batch; None for all.

    One draw serves the whole batch, so that dropped features are not computed.
    """
    if dropout == 0:
        return None
    return np.sort(rng.permutation(size)[: max(1, round((1 - dropout) * size))])
