"""What each feature of a row adds to a score through the embedding, exactly.

For a linear decoder feature f adds ``x̂_f W_f · q``. For a kernel map ``[cos(hΩ + b), s·h]`` the gradient is averaged along
the straight line from the empty row ``h₀`` to ``h`` (integrated gradients), which has a closed form for cosines. With the
phases ``p = hΩ + b`` and ``p₀ = h₀Ω + b``,

    cos p − cos p₀ = (p − p₀) m,    m = −sin((p + p₀)/2) · sinc((p − p₀)/2),

and ``p − p₀`` is linear in the features. So with ``g = Ω (m ∘ q_cos) + s q_lin`` feature f adds ``x̂_f W_f · g``, and the
contributions add up to the score.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.decoders.decoder import Decoder
from rembrandt.linalg.blocks import Block, as_numpy, spans
from rembrandt.scorers.protocol import Labels

Array = NDArray[Any]
ENTRIES = 1 << 23  # of the largest block of pairs × random features: 64 MB


class Contributions(NamedTuple):
    """A score as a sum: what an empty row has, and what each stored entry of a row adds."""

    base: Array  # n × m
    entries: Array  # nnz × m, in the order of the entries of the rows


def explain_decoder(
    decoder: Decoder, projection: Block, rows: sparse.csr_array, H: Array, labels: Labels
) -> Contributions:
    """Return the contributions to the scores of ``labels`` (n × m) for CSR rows with projections ``H``."""
    empty = as_numpy(projection[-1]).astype(np.float64)
    base, directions = _directions(decoder, H - empty, empty, labels)
    used, indices = np.unique(rows.indices, return_inverse=True)
    return Contributions(base, _products(rows.indptr, indices, rows.data, as_numpy(projection[used]), directions))


def _directions(decoder: Decoder, moved: Array, empty: Array, labels: Labels) -> tuple[Array, Array]:
    """Return the scores of the empty row (n × m) and the directions that entries add along (n × m × k)."""
    n, m = labels.shape
    row, label = np.repeat(np.arange(n), m), labels.ravel()
    bias = as_numpy(decoder.bias[label])
    if decoder.fourier is None:
        directions = as_numpy(decoder.weights[:, label]).T.astype(np.float64)
        return (directions @ empty + bias).reshape(n, m), directions.reshape(n, m, -1)
    frequencies = as_numpy(decoder.fourier.frequencies).astype(np.float64)
    start = empty @ frequencies + as_numpy(decoder.fourier.offsets)
    half = (moved @ frequencies) / 2
    slopes = -np.sin(start + half) * np.sinc(half / np.pi)
    size = frequencies.shape[1]
    base, directions = np.empty(n * m), np.empty((n * m, len(empty)))
    for pairs in spans(n * m, max(1, ENTRIES // max(1, size))):
        q = as_numpy(decoder.weights[:, label[pairs]]).T.astype(np.float64)
        waves, lines = q[:, :size], decoder.fourier.linear * q[:, size:]
        directions[pairs] = (slopes[row[pairs]] * waves) @ frequencies.T + lines
        base[pairs] = waves @ np.cos(start) + lines @ empty
    return (base + bias).reshape(n, m), directions.reshape(n, m, -1)


@njit(nogil=True, cache=True, fastmath={"contract", "reassoc"})
def _products(indptr: Any, indices: Any, data: Any, W: Any, directions: Any) -> Any:
    """``x̂_f W_f · g`` for every entry of a row and each of the row's directions g."""
    m, k = directions.shape[1:]
    out = np.empty((len(data), m))
    for row in range(len(indptr) - 1):
        for at in range(indptr[row], indptr[row + 1]):
            feature = W[indices[at]]
            for j in range(m):
                direction = directions[row, j]
                total = 0.0
                for i in range(k):
                    total += feature[i] * direction[i]
                out[at, j] = data[at] * total
    return out


def as_probability(part: Contributions, rows: sparse.csr_array, likely: Array) -> Contributions:
    """Contributions to a probability from those to its logit, by the slope between the empty row and the row.

    Of a softmax the normalizer is part of the base: it does not belong to a single feature.
    """
    owner = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    gain = np.zeros(part.base.shape)
    np.add.at(gain, owner, part.entries)
    likely = likely.astype(np.float64)
    first = likely * np.exp(-gain) / (1 - likely + likely * np.exp(-gain))
    flat = np.abs(gain) < 1e-6
    slope = np.where(flat, 0.0, (likely - first) / np.where(flat, 1.0, gain))
    return Contributions(np.where(flat, likely, first), slope[owner] * part.entries)
