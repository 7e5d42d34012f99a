"""More rows and labels for a ridge decoder, in closed form.

Ridge is linear in the labels. With the old rows over the new ones, the labels are those of the old
rows over zeros plus zeros over those of the new rows. The second part is fitted to the new rows
with the moments of the old. The first part follows from the decoder: the equations that it solves
determine the labels of the old rows.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.decoders.decoder import Decoder
from rembrandt.engines.place import CPU
from rembrandt.engines.statistics import LABEL_BLOCK, RidgeStatistics, penalty
from rembrandt.linalg.blocks import as_numpy, spans
from rembrandt.linalg.ridge import CholeskyRidge
from rembrandt.progress import Report, silent

Array = NDArray[Any]


@dataclass(frozen=True)
class Moments:
    """Moments of the mapped features over all rows that a decoder was fitted to; 4 D² bytes for D
    features.
    """

    total: float  # number of rows, or their weight
    mean: Array  # D
    scatter: Array  # upper triangle of the centred Gram matrix, by rows, in float64

    @classmethod
    def of(cls, statistics: RidgeStatistics) -> "Moments":
        gram = as_numpy(statistics.gram)
        return cls(statistics.total, as_numpy(statistics.mean), gram[np.triu_indices(len(gram))])

    def gram(self) -> Array:
        """The centred Gram matrix, D × D."""
        D = len(self.mean)
        gram = np.zeros((D, D))
        gram[np.triu_indices(D)] = self.scatter
        return gram + np.triu(gram, 1).T


@dataclass(frozen=True)
class Update:
    """A decoder after more rows."""

    decoder: Decoder
    embedding: Array  # of the new labels, m × k
    moments: Moments  # of the old and the new rows


def learn_rows(
    decoder: Decoder,
    H: Any,
    Y: sparse.csr_array,
    seen: Moments,
    strength: float,
    weights: Array | None = None,
    report: Report = silent,
) -> Update:
    """Return the decoder that ridge of this ``strength`` fits to the old rows and the projected
    rows ``H``.

    ``decoder`` and ``seen`` are those of the old rows. The columns of ``Y`` are the decoder's
    labels and then new ones, which no old row has.
    """
    known, c = decoder.bias.shape[0], Y.shape[1]
    present = np.unique(Y.indices)
    gram = seen.gram()
    statistics = CPU.statistics(H, Y[:, present], decoder.fourier, weights, report)
    statistics = statistics.with_unlabelled_rows(seen.total, seen.mean, gram)
    factor = statistics.factor(strength)
    added, added_bias = statistics.solve(strength, factor)
    Q = np.zeros((len(gram), c), dtype=added.dtype)
    bias = np.zeros(c, dtype=Q.dtype)
    change = statistics.gram - gram
    change += (factor.strength - penalty(strength, gram, seen.total)) * np.eye(len(gram))
    _carry_over(decoder, seen, statistics, change, factor, Q[:, :known], bias[:known], report)
    Q[:, present] += added
    bias[present] += added_bias
    embedding = np.zeros((c - known, H.shape[1]), dtype=Q.dtype)
    new = present >= known
    of_new = statistics.of_labels(new).of_projection(H.shape[1])
    embedding[present[new] - known] = of_new.solve(strength)[0].T
    return Update(Decoder(Q, bias, "identity", decoder.fourier), embedding, Moments.of(statistics))


def _carry_over(
    decoder: Decoder,
    seen: Moments,
    now: RidgeStatistics,
    change: Array,
    factor: CholeskyRidge,
    Q: Array,
    bias: Array,
    report: Report,
) -> None:
    """Write the columns of the old rows' labels, after rows without labels have joined, to ``Q``
    and ``bias``.

    Before, ``A Q = C`` with ``A = G + λI`` and the centred products ``C`` of features and labels.
    Now the features have another mean, and ``A′ Q′ = C − n (μ′ − μ) νᵀ`` with the label means ν. So
    ``Q′ = Q − A′⁻¹ ((A′ − A) Q + n (μ′ − μ) νᵀ)``, which needs no ``C`` and has the rounding errors
    of ``Q``. ``change`` is ``A′ − A`` and ``factor`` that of ``A′``.
    """
    D, c = Q.shape
    step = factor.solve(change).astype(Q.dtype) if c > D else None  # solve for the smaller block
    drift = factor.solve(seen.total * (now.mean - seen.mean)[:, None])
    for labels in spans(c, LABEL_BLOCK):
        report("updating the decoder", labels.start, c)
        old = decoder.weights[:, labels]
        wide = old.astype(np.float64)
        label_mean = decoder.bias[labels] + seen.mean @ wide
        off = factor.solve(change @ wide) if step is None else step @ old
        Q[:, labels] = old - off - drift * label_mean
        bias[labels] = label_mean * (seen.total / now.total) - now.mean @ Q[:, labels].astype(
            np.float64
        )
    report("updating the decoder", c, c)
