"""Least squares from the (mapped) projection to every label: one factor, however many labels."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve

from rembrandt.decoders.decoder import Decoder
from rembrandt.features.fourier import FourierMap
from rembrandt.linalg.blocks import spans
from rembrandt.linalg.sparse import scale_rows
from rembrandt.linalg.transposed import Transposed
from rembrandt.progress import Report, silent

ROWS = 8192  # examples mapped at a time
LABELS = 4096  # labels solved for at a time


class RidgeStatistics:
    """``ΦᵀΦ`` and ``ΦᵀY`` of centred features: all that ridge needs, at any strength.

    The Gram matrix is accumulated in float64: in float32 that of random features is not positive definite.
    """

    def __init__(
        self,
        H: NDArray[Any],
        Y: sparse.csr_array,
        fourier: FourierMap | None,
        weights: NDArray[Any] | None = None,
        report: Report = silent,
    ) -> None:
        self.fourier = fourier
        n, c = Y.shape
        D = H.shape[1] if fourier is None else fourier.size
        w = np.ones(n) if weights is None else np.asarray(weights, dtype=np.float64)
        self.total = float(w.sum())
        gram, cross, total = np.zeros((D, D)), np.zeros((c, D), dtype=H.dtype), np.zeros(D)
        for rows in spans(n, ROWS):
            report("ridge decoder", rows.start, n)
            Phi = H[rows] if fourier is None else fourier(H[rows])
            wide = Phi.astype(np.float64) * np.sqrt(w[rows])[:, None]
            gram += wide.T @ wide
            total += w[rows] @ Phi
            cross += Transposed.of(scale_rows(Y[rows], w[rows])) @ Phi
        report("ridge decoder", n, n)
        self.mean = total / self.total
        self.label_mean = np.asarray(Y.T @ w).ravel() / self.total
        # Centred on both sides: the intercept is free, and a constant direction cannot swamp the rest.
        self.gram = gram - self.total * np.outer(self.mean, self.mean)
        self.cross = cross
        self.cross -= (self.total * self.label_mean[:, None] * self.mean).astype(H.dtype)

    def solve(self, strength: float) -> Decoder:
        """The decoder at ``strength``, relative to the mean squared length of a mapped, centred example.

        In that unit a strength means the same however many random features stand for the kernel.
        """
        D, c = self.gram.shape[0], self.cross.shape[0]
        level = max(strength, 1e-10) * np.trace(self.gram) / self.total
        factor = cho_factor(self.gram + max(level, 1e-300) * np.eye(D), lower=True, check_finite=False)
        weights = np.empty((D, c), dtype=self.cross.dtype)
        for labels in spans(c, LABELS):
            weights[:, labels] = cho_solve(factor, self.cross[labels].T.astype(np.float64), check_finite=False)
        bias = (self.label_mean - self.mean @ weights).astype(weights.dtype)
        return Decoder(weights, bias, "identity", self.fourier)
