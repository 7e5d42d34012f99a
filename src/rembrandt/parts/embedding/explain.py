"""Scores of the embedding as exact sums over the features of a row.

With a linear decoder the score of the embedding is such a sum: feature f adds ``x_f W_f · q``. For
a kernel map ``[cos(hΩ + b), s·h]`` the gradient is averaged along the straight line from the empty
row ``h₀`` to ``h`` (integrated gradients), which has a closed form for cosines. With the phases ``p
= hΩ + b`` and ``p₀ = h₀Ω + b``,

    cos p − cos p₀ = (p − p₀) m,    m = −sin((p + p₀)/2) · sinc((p − p₀)/2),

and ``p − p₀`` is linear in the features. So with ``g = Ω (m ∘ q_cos) + s q_lin`` feature f adds
``x_f W_f · g``, with no remainder.
"""

import numpy as np
from scipy import sparse

from rembrandt.linalg import Array
from rembrandt.linalg.blocks import Block, as_numpy
from rembrandt.parts.contributions import Contributions, secant
from rembrandt.parts.embedding.decoders.decoder import LARGEST_LOGIT, Decoder
from rembrandt.parts.protocol import Labels

# Keeps the logarithm of a probability finite.
SMALLEST_PROBABILITY = 1e-300


def explain_decoder(
    decoder: Decoder,
    projection: Block,
    row: sparse.csr_array,
    labels: Labels,
) -> Contributions:
    """Return what each stored entry of ``row`` (1 × d) adds to the decoder's score ``φ(xW) Q + b``
    of ``labels``.
    """
    empty = _in_float64(projection[-1])
    directions_of_features = _in_float64(projection[row.indices])
    added = row.data[:, None] * directions_of_features
    change = added.sum(axis=0)
    scores_of_empty, directions = _directions(decoder, empty, change, labels)
    bias = as_numpy(decoder.bias[labels])
    return Contributions(scores_of_empty + bias, added @ directions)


def _in_float64(block: Block) -> Array:
    return as_numpy(block).astype(np.float64)


def _directions(
    decoder: Decoder,
    empty: Array,
    change: Array,
    labels: Labels,
) -> tuple[Array, Array]:
    """Return the scores of the empty row without the bias (m), and the directions along which rows
    add to them (k × m).

    ``empty`` and ``change`` are the empty row in the embedding and what the row adds to it.
    """
    Q = _in_float64(decoder.weights[:, labels])
    fourier = decoder.fourier
    if fourier is None:
        return empty @ Q, Q
    frequencies = as_numpy(fourier.frequencies)  # large, so they keep their precision
    offsets = as_numpy(fourier.offsets)
    single = frequencies.dtype
    n_cosines = len(offsets)
    q_cos = Q[:n_cosines]
    q_lin = fourier.linear * Q[n_cosines:]
    start = empty.astype(single) @ frequencies + offsets
    half = change.astype(single) @ frequencies / 2
    # The mean slope of the cosine from ``start`` to ``start + 2 half``.
    middle = start + half
    slopes = -np.sin(middle) * np.sinc(half / np.pi)
    sloping = slopes[:, None] * q_cos
    directions = frequencies @ sloping.astype(single) + q_lin
    scores = np.cos(start) @ q_cos + empty @ q_lin
    return scores, directions


def as_probability(logits: Contributions, full: Array, softmax: bool) -> Contributions:
    """Turn contributions to logits into contributions to the probabilities ``full``, by the slope
    from the empty row.

    Under a softmax, the change of the other labels' scores belongs to no single feature and is part
    of the base.
    """
    change = logits.values.sum(axis=0)
    if softmax:
        positive = np.maximum(full, SMALLEST_PROBABILITY)
        empty = np.exp(np.log(positive) - change)
        derivative = full
    else:
        clipped = np.clip(logits.base, -LARGEST_LOGIT, LARGEST_LOGIT)
        empty = 1 / (1 + np.exp(-clipped))
        derivative = full * (1 - full)
    slope = secant(empty, full, change, derivative)
    return Contributions(empty, logits.values * slope)
