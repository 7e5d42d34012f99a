"""Scores as exact sums over the features of a row.

With a linear decoder the score of the embedding is such a sum: feature f adds ``x_f W_f · q``. For
a kernel map ``[cos(hΩ + b), s·h]`` the gradient is averaged along the straight line from the empty
row ``h₀`` to ``h`` (integrated gradients), which has a closed form for cosines. With the phases ``p
= hΩ + b`` and ``p₀ = h₀Ω + b``,

    cos p − cos p₀ = (p − p₀) m,    m = −sin((p + p₀)/2) · sinc((p − p₀)/2),

and ``p − p₀`` is linear in the features. So with ``g = Ω (m ∘ q_cos) + s q_lin`` feature f adds
``x_f W_f · g``, with no remainder.
"""

from typing import NamedTuple

import numpy as np
from scipy import sparse

from rembrandt.decoders.decoder import Decoder
from rembrandt.linalg.blocks import Block, as_numpy
from rembrandt.scorers.protocol import Array, Labels

NEAR = 1e-6  # below this change of the argument, a slope is the derivative


class Contributions(NamedTuple):
    """Scores of some labels of one row as sums over its features: ``base + values.sum(axis=0)``."""

    base: Array  # m: the scores of an empty row
    values: Array  # stored entries of the row × m


def secant(first: Array, second: Array, change: Array, derivative: Array) -> Array:
    """Return the slope between two values whose arguments differ by ``change``; the derivative
    where that is zero.
    """
    near = np.abs(change) < NEAR
    return np.where(near, derivative, (second - first) / np.where(near, 1.0, change))


def explain_decoder(
    decoder: Decoder, projection: Block, row: sparse.csr_array, labels: Labels
) -> Contributions:
    """Return what each stored entry of ``row`` (1 × d) adds to the decoder's score ``φ(xW) Q + b``
    of ``labels``.
    """
    empty = as_numpy(projection[-1]).astype(np.float64)
    added = row.data[:, None] * as_numpy(projection[row.indices]).astype(np.float64)
    base, directions = _directions(decoder, empty, added.sum(axis=0), labels)
    return Contributions(base + as_numpy(decoder.bias[labels]), added @ directions)


def _directions(
    decoder: Decoder, empty: Array, change: Array, labels: Labels
) -> tuple[Array, Array]:
    """Return the scores of the empty row without the bias (m), and the directions along which rows
    add to them (k × m).

    ``empty`` and ``change`` are the empty row in the embedding and what the row adds to it.
    """
    Q = as_numpy(decoder.weights[:, labels]).astype(np.float64)
    if decoder.fourier is None:
        return empty @ Q, Q
    frequencies = as_numpy(decoder.fourier.frequencies)  # large, so they keep their precision
    single = frequencies.dtype
    start = empty.astype(single) @ frequencies + as_numpy(decoder.fourier.offsets)
    half = change.astype(single) @ frequencies / 2
    slopes = -np.sin(start + half) * np.sinc(half / np.pi)
    cosines, linear = Q[: len(start)], decoder.fourier.linear * Q[len(start) :]
    directions = frequencies @ (slopes[:, None] * cosines).astype(single) + linear
    return np.cos(start) @ cosines + empty @ linear, directions


def as_probability(part: Contributions, full: Array, softmax: bool) -> Contributions:
    """Turn contributions to logits into contributions to the probabilities ``full``, by the slope
    from the empty row.

    Under a softmax, the change of the other labels' scores belongs to no single feature and is part
    of the base.
    """
    change = part.values.sum(axis=0)
    if softmax:
        empty, derivative = np.exp(np.log(np.maximum(full, 1e-300)) - change), full
    else:
        empty, derivative = 1 / (1 + np.exp(-np.clip(part.base, -60, 60))), full * (1 - full)
    return Contributions(empty, part.values * secant(empty, full, change, derivative))
