"""The best labels of projected rows, over all labels in blocks: by score, or by what a label is worth."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from rembrandt.decoders.decoder import Decoder
from rembrandt.decoders.monotone import MonotoneMap
from rembrandt.linalg.blocks import Block, as_numpy, spans
from rembrandt.metrics import rank, top_k

Array = NDArray[Any]

LABELS = 1 << 16  # labels scored at a time


def best_labels(decoder: Decoder, H: Block, k: int, allowed: Array | None = None) -> tuple[NDArray[np.int64], Array]:
    """The ``k`` best labels of each row and their scores, best first; equal scores by label index.

    ``allowed`` limits the answer to these label indices. Where fewer than ``k`` labels exist the rest is -1.
    """
    if isinstance(H, np.ndarray):
        blocks = (
            (labels, *top_k(scores, min(k, scores.shape[1])))
            for labels, scores in _blocks(decoder, decoder.features(H), allowed)
        )
        return _joined(blocks, H, k)
    from rembrandt.model.torch_ranking import best_of_blocks

    return _padded(*best_of_blocks(decoder, H, k, allowed), k)


def _blocks(decoder: Decoder, Phi: Block, allowed: Array | None = None) -> Iterator[tuple[Array, Block]]:
    """The labels and their scores for rows of mapped features, some labels at a time."""
    xp = array_namespace(Phi)
    for span in spans(decoder.bias.shape[0] if allowed is None else len(allowed), LABELS):
        labels = np.arange(span.start, span.stop) if allowed is None else allowed[span]
        at: Any = span if allowed is None else xp.asarray(labels, device=Phi.device)
        yield labels, Phi @ decoder.weights[:, at] + decoder.bias[at]


def _joined(blocks: Iterable[tuple[Array, Array, Array]], H: Block, k: int) -> tuple[NDArray[np.int64], Array]:
    """The best of all blocks out of the best of each: its labels, and places among them with their scores."""
    best, scores = np.empty((len(H), 0), dtype=np.int64), as_numpy(H[:, :0])
    for labels, found, values in blocks:
        found = np.where(found < 0, -1, labels[found])
        best, scores = rank(np.hstack([best, found]), np.hstack([scores, values]))
        best, scores = best[:, :k], scores[:, :k]
    return _padded(best, scores, k)


def most_worth(
    decoder: Decoder,
    H: Block,
    k: int,
    worth: Array,
    allowed: Array | None = None,
    calibration: MonotoneMap | None = None,
) -> tuple[NDArray[np.int64], Array]:
    """The ``k`` labels of each row with the largest probability × ``worth`` (c,), and that product, as `best_labels`.

    A label's probability is its own, by the decoder's link.
    """
    xp = array_namespace(H)
    Phi = decoder.features(H)
    level = _log_total(decoder, Phi) if decoder.link == "softmax" else None

    def best() -> Iterator[tuple[Array, Array, Array]]:
        for labels, scores in _blocks(decoder, Phi, allowed):
            likely = scores if level is None else xp.exp(scores - level)
            if level is None and (decoder.link != "identity" or calibration is None):
                likely = decoder.probabilities(scores)
            likely = likely if calibration is None else calibration(likely)
            product = likely * xp.asarray(worth[labels], dtype=Phi.dtype, device=Phi.device)
            yield labels, *_top_k(product, min(k, len(labels)))

    return _joined(best(), H, k)


def joined_candidates(found: Array, scores: Array, more: Array, more_scores: Array) -> tuple[Array, Array]:
    """The labels of every row from two searches, the first one's before the second's; none twice, -1 instead."""
    known = (more[:, :, None] == found[:, None, :]).any(axis=2)
    return np.hstack([found, np.where(known, -1, more)]), np.hstack([scores, more_scores])


def _log_total(decoder: Decoder, Phi: Block) -> Block:
    """The logarithm of what softmax divides by, over all labels in blocks."""
    xp = array_namespace(Phi)
    total = None
    for _, scores in _blocks(decoder, Phi):
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


def _padded(labels: Array, scores: Array, k: int) -> tuple[Array, Array]:
    short = k - labels.shape[1]
    if short <= 0:
        return labels, scores
    return np.pad(labels, ((0, 0), (0, short)), constant_values=-1), np.pad(
        scores, ((0, 0), (0, short)), constant_values=-np.inf
    )
