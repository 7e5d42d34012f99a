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
    cosines = Q[: len(start)]
    linear = decoder.fourier.linear * Q[len(start) :]
    directions = frequencies @ (slopes[:, None] * cosines).astype(single) + linear
    return np.cos(start) @ cosines + empty @ linear, directions


def as_probability(logits: Contributions, full: Array, softmax: bool) -> Contributions:
    """Turn contributions to logits into contributions to the probabilities ``full``, by the slope
    from the empty row.

    Under a softmax, the change of the other labels' scores belongs to no single feature and is part
    of the base.
    """
    change = logits.values.sum(axis=0)
    if softmax:
        empty = np.exp(np.log(np.maximum(full, SMALLEST_PROBABILITY)) - change)
        derivative = full
    else:
        empty = 1 / (1 + np.exp(-np.clip(logits.base, -LARGEST_LOGIT, LARGEST_LOGIT)))
        derivative = full * (1 - full)
    return Contributions(empty, logits.values * secant(empty, full, change, derivative))
