"""What rows and labels that come later need of the rows seen before: number, mean and scatter of the mapped features.

Ridge is linear in the labels. With the old rows over the new ones, the labels are those of the old rows over zeros plus
zeros over those of the new. The second part is learnt from the new rows and the moments of the old. The first is in the
decoder already: the equations that it solves say what the labels of the old rows were.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.decoders.decoder import Decoder
from rembrandt.decoders.ridge import LABELS, RidgeStatistics, level
from rembrandt.engines.place import CPU, Place
from rembrandt.linalg.blocks import Block, as_numpy, spans
from rembrandt.linalg.ridge import CholeskyRidge
from rembrandt.progress import Report, silent

Array = NDArray[Any]


@dataclass(frozen=True)
class Moments:
    """Of mapped features over all rows that a decoder has learnt from; 4 D² bytes for D features."""

    total: float  # rows, or their weight
    mean: Array  # D
    scatter: Array  # the upper triangle of the centred Gram matrix, row by row, in float64

    @classmethod
    def of(cls, H: Block, decoder: Decoder, weights: Array | None = None, place: Place = CPU) -> "Moments":
        """Those of projected rows, as ``decoder`` maps them."""
        none = sparse.csr_array((H.shape[0], 0), dtype=np.float32)
        return cls.seen_by(RidgeStatistics(H, none, decoder.fourier, weights, place=place))

    @classmethod
    def seen_by(cls, statistics: RidgeStatistics) -> "Moments":
        gram = as_numpy(statistics.gram)
        return cls(statistics.total, as_numpy(statistics.mean), gram[np.triu_indices(len(gram))])

    def gram(self) -> Array:
        """The centred Gram matrix, D × D."""
        D = len(self.mean)
        gram = np.zeros((D, D))
        gram[np.triu_indices(D)] = self.scatter
        return gram + np.triu(gram, 1).T


@dataclass(frozen=True)
class Columns:
    """Labels learnt after the fit."""

    weights: Array  # D × m
    bias: Array  # m
    embedding: Array  # m × k
    moments: Moments  # of the rows before and these


def learn_rows(
    decoder: Decoder,
    H: Array,
    Y: sparse.csr_array,
    seen: Moments,
    strength: float,
    weights: Array | None = None,
    report: Report = silent,
) -> Columns:
    """Columns for all labels from all rows: those that ridge of this ``strength`` finds on the rows seen and ``H``.

    ``decoder`` is what it found on the rows seen. The labels of ``Y`` are the decoder's and then new ones, which no row
    seen has; ``embedding`` is of the new ones alone.
    """
    known, c = decoder.bias.shape[0], Y.shape[1]
    present = np.unique(Y.indices)
    statistics = RidgeStatistics(H, Y[:, present], decoder.fourier, weights, report)
    gram = seen.gram()
    statistics.add_rows_without_labels(seen.total, seen.mean, gram)
    factor = statistics.factor(strength)
    found = statistics.solve(strength, factor)
    D = len(gram)
    Q = np.zeros((D, c), dtype=found.weights.dtype)
    bias = np.zeros(c, dtype=Q.dtype)
    change = statistics.gram - gram + (factor.strength - level(strength, float(np.trace(gram)), seen.total)) * np.eye(D)
    _carry(decoder, seen, statistics, change, factor, Q[:, :known], bias[:known], report)
    Q[:, present] += found.weights
    bias[present] += found.bias
    embedding = np.zeros((c - known, H.shape[1]), dtype=Q.dtype)
    new = present >= known
    of_new = statistics.of_labels(new).of_projection(H.shape[1])
    embedding[present[new] - known] = of_new.solve(strength).weights.T
    return Columns(Q, bias, embedding, Moments.seen_by(statistics))


def _carry(
    decoder: Decoder,
    seen: Moments,
    now: RidgeStatistics,
    change: Array,
    factor: CholeskyRidge,
    Q: Array,
    bias: Array,
    report: Report,
) -> None:
    """Write to ``Q`` and ``bias`` what the labels of the rows seen come to when rows without labels join them.

    Before, ``A Q = C`` with ``A = G + λI`` and the centred products ``C`` of features and labels. Now the mean of the
    features is another, and ``A′ Q′ = C − n (μ′ − μ) νᵀ`` with the labels' means ν. So
    ``Q′ = Q − A′⁻¹ ((A′ − A) Q + n (μ′ − μ) νᵀ)``, which needs no ``C`` and rounds no more than ``Q`` itself was.
    ``change`` is ``A′ − A`` and ``factor`` that of ``A′``.
    """
    D, c = Q.shape
    step = factor.solve(change).astype(Q.dtype) if c > D else None  # what is smaller is solved for
    drift = factor.solve(seen.total * (now.mean - seen.mean)[:, None])
    for labels in spans(c, LABELS):
        report("updating the decoder", labels.start, c)
        old = decoder.weights[:, labels]
        wide = old.astype(np.float64)
        label_mean = decoder.bias[labels] + seen.mean @ wide
        off = factor.solve(change @ wide) if step is None else step @ old
        Q[:, labels] = old - off - drift * label_mean
        bias[labels] = label_mean * (seen.total / now.total) - now.mean @ Q[:, labels].astype(np.float64)
    report("updating the decoder", c, c)
