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

from rembrandt.engines.backend import CPU
from rembrandt.engines.statistics import LABEL_BLOCK, RidgeStatistics, penalty
from rembrandt.linalg.blocks import as_numpy, spans
from rembrandt.linalg.ridge import CholeskyRidge
from rembrandt.parts.embedding.decoders.decoder import Decoder
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
        """Keep what an update needs of ``statistics``."""
        gram = as_numpy(statistics.gram)
        scatter = gram[np.triu_indices(len(gram))]
        return cls(statistics.total, as_numpy(statistics.mean), scatter)

    def gram(self) -> Array:
        """Return the centred Gram matrix, D × D."""
        D = len(self.mean)
        upper = np.zeros((D, D))
        upper[np.triu_indices(D)] = self.scatter
        return upper + np.triu(upper, 1).T


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
    """Return the decoder that ridge fits to the old rows and the projected rows ``H``.

    Parameters
    ----------
    decoder : Decoder
        Ridge decoder of the old rows.
    H : array-like of shape (n, k)
        Projected new rows.
    Y : csr_array of shape (n, c)
        Labels of the new rows: the decoder's, and then new ones, which no old row has.
    seen : Moments
        Moments of the old rows.
    strength : float
        Relative strength of the ridge; see `penalty`.
    weights : ndarray of shape (n,), optional
        Weights of the new rows.
    report : callable, optional
        Receives the progress.

    Returns
    -------
    Update
    """
    n_old = decoder.bias.shape[0]
    c = Y.shape[1]
    k = H.shape[1]
    old_gram = seen.gram()
    D = len(old_gram)
    # Labels without a new row have nothing to add.
    present = np.unique(Y.indices)
    statistics = CPU.statistics(H, Y[:, present], decoder.fourier, weights, report)
    statistics = statistics.with_unlabelled_rows(seen.total, seen.mean, old_gram)
    factor = statistics.factor(strength)
    added, added_bias = statistics.solve(strength, factor)
    Q = np.zeros((D, c), dtype=added.dtype)
    bias = np.zeros(c, dtype=Q.dtype)
    change = statistics.gram - old_gram
    change += (factor.strength - penalty(strength, old_gram, seen.total)) * np.eye(D)
    _carry_over(decoder, seen, statistics, change, factor, Q[:, :n_old], bias[:n_old], report)
    Q[:, present] += added
    bias[present] += added_bias
    # The embedding of a new label is its ridge decoder on the projection itself.
    embedding = np.zeros((c - n_old, k), dtype=Q.dtype)
    is_new = present >= n_old
    projection_weights, _ = statistics.of_labels(is_new).of_projection(k).solve(strength)
    embedding[present[is_new] - n_old] = projection_weights.T
    updated = Decoder(Q, bias, "identity", decoder.fourier)
    return Update(updated, embedding, Moments.of(statistics))


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
    correction = None
    if c > D:
        # With more labels than features, A′⁻¹ (A′ − A) is the smaller block to solve for.
        correction = factor.solve(change).astype(Q.dtype)
    drift = factor.solve(seen.total * (now.mean - seen.mean)[:, None])
    for labels in spans(c, LABEL_BLOCK):
        report("updating the decoder", labels.start, c)
        old = decoder.weights[:, labels]
        old64 = old.astype(np.float64)
        label_mean = decoder.bias[labels] + seen.mean @ old64
        difference = factor.solve(change @ old64) if correction is None else correction @ old
        Q[:, labels] = old - difference - drift * label_mean
        at_mean = now.mean @ Q[:, labels].astype(np.float64)
        bias[labels] = label_mean * (seen.total / now.total) - at_mean
    report("updating the decoder", c, c)
