"""The best labels of projected rows, over all labels in blocks: by score, or by what a label is worth."""

from typing import Any

import numpy as np
from array_api_compat import array_namespace
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


def most_worth(
    decoder: Decoder, H: Block, k: int, worth: Array, allowed: Array | None = None
) -> tuple[NDArray[np.int64], Array]:
    """The ``k`` labels of each row with the largest probability × ``worth`` (c,), and that product, as `best_labels`.

    A label's probability is its own, by the decoder's link; a greedy decoder's is that of its match with the whole row.
    """
    xp = array_namespace(H)
    Phi = decoder.features(H)
    worth = xp.asarray(worth, dtype=Phi.dtype, device=Phi.device)
    level = _log_total(decoder, Phi) if decoder.link == "softmax" else None
    wanted = np.arange(decoder.bias.shape[0]) if allowed is None else allowed
    best, values = np.empty((len(H), 0), dtype=np.int64), np.empty((len(H), 0), dtype=as_numpy(Phi[:0]).dtype)
    for span in spans(len(wanted), LABELS):
        labels: Any = span if allowed is None else xp.asarray(wanted[span], device=Phi.device)
        scores = Phi @ decoder.weights[:, labels] + decoder.bias[labels]
        likely = decoder.probabilities(scores) if level is None else xp.exp(scores - level)
        found, products = _top_k(likely * worth[labels], min(k, scores.shape[1]))
        found = np.where(found < 0, -1, wanted[span][found])
        best, values = rank(np.hstack([best, found]), np.hstack([values, products]))
        best, values = best[:, :k], values[:, :k]
    return _padded(best, values, k)


def _log_total(decoder: Decoder, Phi: Block) -> Block:
    """The logarithm of what softmax divides by, over all labels in blocks."""
    xp = array_namespace(Phi)
    total = None
    for labels in spans(decoder.bias.shape[0], LABELS):
        scores = Phi @ decoder.weights[:, labels] + decoder.bias[labels]
        most = xp.max(scores, axis=1, keepdims=True)
        part = most + xp.log(xp.sum(xp.exp(scores - most), axis=1, keepdims=True))
        total = part if total is None else xp.logaddexp(total, part)
    return total


def _top_k(block: Block, k: int) -> tuple[NDArray[np.int64], Array]:
    if isinstance(block, np.ndarray):
        return top_k(block, k)
    from rembrandt.model import torch_ranking

    found, values = torch_ranking.top_k(block, k)
    return as_numpy(found), as_numpy(values)


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
