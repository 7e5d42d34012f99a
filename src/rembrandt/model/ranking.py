"""The best labels of projected rows, over all labels in blocks."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rembrandt.decoders.decoder import Decoder
from rembrandt.decoders.greedy import pursue
from rembrandt.linalg.blocks import Block, as_numpy, spans
from rembrandt.metrics import rank, top_k

Array = NDArray[Any]

LABELS = 1 << 16  # labels scored at a time


def best_labels(decoder: Decoder, H: Block, k: int, allowed: Array | None = None) -> tuple[NDArray[np.int64], Array]:
    """The ``k`` best labels of each row and their scores, best first; equal scores by label index.

    ``allowed`` limits the answer to these label indices. Where fewer than ``k`` labels exist the rest is -1.
    """
    if decoder.greedy:
        return _pursued(decoder, H, k, allowed)
    if isinstance(H, np.ndarray):
        return _padded(*_by_blocks(decoder, H, k, allowed), k)
    from rembrandt.model.torch_ranking import best_of_blocks

    return _padded(*best_of_blocks(decoder, H, k, allowed), k)


def _by_blocks(decoder: Decoder, H: Array, k: int, allowed: Array | None) -> tuple[Array, Array]:
    Phi = decoder.features(H)
    wanted = decoder.bias.shape[0] if allowed is None else len(allowed)
    best, scores = np.empty((len(H), 0), dtype=np.int64), np.empty((len(H), 0), dtype=H.dtype)
    for span in spans(wanted, LABELS):
        labels: Any = span if allowed is None else allowed[span]
        block = Phi @ decoder.weights[:, labels] + decoder.bias[labels]
        found, values = top_k(block, min(k, block.shape[1]))
        found = np.where(found < 0, -1, found + span.start if allowed is None else labels[found])
        best, scores = rank(np.hstack([best, found]), np.hstack([scores, values]))
        best, scores = best[:, :k], scores[:, :k]
    return best, scores


def _pursued(decoder: Decoder, H: Block, k: int, allowed: Array | None) -> tuple[Array, Array]:
    candidates = np.arange(decoder.bias.shape[0]) if allowed is None else allowed
    found, scores = pursue(H, decoder.weights.T[candidates], k)
    return _padded(candidates[as_numpy(found)], as_numpy(scores), k)


def _padded(labels: Array, scores: Array, k: int) -> tuple[Array, Array]:
    short = k - labels.shape[1]
    if short <= 0:
        return labels, scores
    return np.pad(labels, ((0, 0), (0, short)), constant_values=-1), np.pad(
        scores, ((0, 0), (0, short)), constant_values=-np.inf
    )
