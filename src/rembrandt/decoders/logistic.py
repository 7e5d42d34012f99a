"""Logistic decoding: softmax over classes, or one independent logistic regression per label.

The second-order scheme of Agarwal et al. (2014, Algorithm 1): the curvature of the loss is bounded by a fixed matrix,
so it is factored once and every step is preconditioned by it. Here the preconditioner is applied to the features
(they are whitened), which leaves plain accelerated gradient steps on minibatches. Rare labels have a flat loss, so the
step of each label is scaled by its own curvature at the base rates. What is kept is the mean of an epoch's iterates:
the step can stay large, and the held-out loss is smooth enough to stop by.
"""

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.data.splits import draw_rows
from rembrandt.decoders.decoder import Decoder
from rembrandt.decoders.descent import Descent, LogisticSettings, NumpyDescent
from rembrandt.decoders.shared_logistic import SharedDescent, features_of
from rembrandt.decoders.whitening import Whitening
from rembrandt.engines.place import CPU, CpuPlace, Place
from rembrandt.engines.projected import ProjectedRows, label_blocks
from rembrandt.engines.shards import LocalExecutor
from rembrandt.errors import RembrandtWarning
from rembrandt.features.fourier import FourierMap
from rembrandt.linalg.blocks import Block
from rembrandt.progress import Report, silent
from rembrandt.storage.checkpoints import NO_CHECKPOINTS, Checkpoints

__all__ = ["LogisticSettings", "fit_logistic"]

EPOCHS = "epoch"  # what checkpoints call them


def fit_logistic(
    H: Block,
    Y: sparse.csr_array,
    settings: LogisticSettings,
    fourier: FourierMap | None = None,
    weights: NDArray[Any] | None = None,
    report: Report = silent,
    place: Place = CPU,
    checkpoints: Checkpoints = NO_CHECKPOINTS,
) -> Decoder:
    """Fit on most rows, stop by the loss on the rest, and keep the best weights seen."""
    n = Y.shape[0]
    w = np.ones(n) if weights is None else np.asarray(weights, dtype=np.float64)
    # A row that counts for nothing decides nothing, and one without a class says nothing about which it is.
    usable = np.flatnonzero((w > 0) & (np.diff(Y.indptr) > 0 if settings.multiclass else True))
    train, held = (usable[part] for part in draw_rows(len(usable), settings.held_out, settings.seed, most=5000))
    if len(held) == 0:
        held = train
    whitening = _whitening(H, fourier, settings.floor, w, place)
    rates = np.clip(np.asarray(Y.T @ w).ravel() / w.sum(), 0.5 / n, 1 - 0.5 / n)
    descent = _descent(place, whitening, H, Y, w, rates, settings, len(train))
    rng = np.random.default_rng(settings.seed)
    scale, since, done = 1.0, 0, 0  # the step is backed off when one makes the loss worse
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
        descent.epoch(np.sort(order, axis=1), [_kept(whitening.size, settings.dropout, rng) for _ in order], scale)
        loss = descent.loss(held)
        since = 0 if loss < best_loss else since + 1
        if loss < best_loss:
            best_loss = loss
            descent.keep()
        elif not loss < first_loss:
            # Diverging: back to the best point, at rest, with a much smaller step.
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


def _whitening(H: Block, fourier: FourierMap | None, floor: float, w: NDArray[Any], place: Place) -> Whitening:
    if not isinstance(H, ProjectedRows):
        return Whitening.of(H, fourier, floor, w, place)
    with H.executor.tally.one_pass():
        found = H.moments(fourier)
    mean = found / found[-1, -1]
    return Whitening.of_moments(mean[-1, :-1], mean[:-1, :-1], fourier, floor, H.dtype)


def _last_epoch(checkpoints: Checkpoints, descent: Descent) -> dict[str, Any] | None:
    """Put ``descent`` where the last epoch that was kept left it, and say the rest of where the fit was then."""
    kept = checkpoints.last(EPOCHS)
    if kept is None:
        return None
    arrays, facts = kept
    if facts["batch"] != descent.batch:  # it depends on what a device has free
        warnings.warn(
            f"the epochs that were kept took {facts['batch']:,} examples a step, and there is memory for "
            f"{descent.batch:,} now: the logistic decoder begins anew",
            RembrandtWarning,
            stacklevel=2,
        )
        return None
    descent.restore(arrays)
    return facts


def _descent(
    place: Place,
    whitening: Whitening,
    H: Block,
    Y: sparse.csr_array,
    w: NDArray[Any],
    rates: NDArray[Any],
    settings: LogisticSettings,
    n_train: int,
) -> Descent:
    shared = isinstance(H, ProjectedRows) and not settings.multiclass
    if shared and not isinstance(H.executor, LocalExecutor):
        return SharedDescent(H, whitening, w, rates, settings, n_train)
    if isinstance(place, CpuPlace):
        batch = settings.batch_of(n_train, Y.shape[1])
        # In the blocks that workers would have, so that here and there are the same.
        parts = label_blocks(Y.shape[1]) if shared else (slice(None),)
        return NumpyDescent(whitening, features_of(whitening, H), Y, w, rates, settings, batch, parts)
    from rembrandt.decoders.torch_descent import TorchDescent
    from rembrandt.engines.torch_place import TorchPlace

    assert isinstance(place, TorchPlace)
    return TorchDescent(place, whitening, H, Y, w, rates, settings, n_train)


def _kept(size: int, dropout: float, rng: np.random.Generator) -> NDArray[np.int64] | None:
    """The features of a batch, in order: a random part of them, or None for all.

    One draw serves the whole batch, so what is dropped is not computed at all.
    """
    if dropout == 0:
        return None
    return np.sort(rng.permutation(size)[: max(1, round((1 - dropout) * size))])
