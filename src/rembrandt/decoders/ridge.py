"""Least squares from the (mapped) projection to every label: one factor, however many labels."""

from copy import copy
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.decoders.decoder import Decoder
from rembrandt.engines.place import CPU, Place
from rembrandt.features.fourier import FourierMap
from rembrandt.linalg.blocks import Block, spans
from rembrandt.linalg.ridge import CholeskyRidge
from rembrandt.linalg.sparse import scale_rows
from rembrandt.progress import Report, silent

LABELS = 4096  # labels solved for at a time


class RidgeStatistics:
    """``ΦᵀΦ`` and ``ΦᵀY`` of centred features: all that ridge needs, at any strength.

    The Gram matrix is accumulated in float64: in float32 that of random features is not positive definite.
    """

    def __init__(
        self,
        H: Block,
        Y: sparse.csr_array,
        fourier: FourierMap | None,
        weights: NDArray[Any] | None = None,
        report: Report = silent,
        place: Place = CPU,
    ) -> None:
        self.fourier = fourier
        xp = array_namespace(H)
        n, c = Y.shape
        D = H.shape[1] if fourier is None else fourier.size
        on_host = np.ones(n) if weights is None else np.asarray(weights, dtype=np.float64)
        w = place.asarray(on_host)
        self.total = float(on_host.sum())
        self.gram = xp.zeros((D, D), dtype=xp.float64, device=H.device)
        self.cross = xp.zeros((c, D), dtype=H.dtype, device=H.device)
        self.mean = xp.zeros((D,), dtype=xp.float64, device=H.device)
        for rows in place.row_spans(n, D):
            report("ridge decoder", rows.start, n)
            Phi = H[rows] if fourier is None else fourier(H[rows])
            wide = xp.astype(Phi, xp.float64)
            self.mean += w[rows] @ wide
            wide = wide * xp.sqrt(w[rows])[:, None]
            self.gram += wide.T @ wide
            self.cross += place.times_t(scale_rows(Y[rows], on_host[rows]), Phi)
        report("ridge decoder", n, n)
        self.mean /= self.total
        self.label_mean = place.asarray(np.asarray(Y.T @ on_host).ravel() / self.total)
        # Centred on both sides: the intercept is free, and a constant direction cannot swamp the rest.
        self.gram -= self.total * self.mean[:, None] * self.mean
        for labels in spans(c, LABELS):
            shift = self.total * self.label_mean[labels, None] * self.mean
            self.cross[labels] -= xp.astype(shift, H.dtype)

    def add_rows_without_labels(self, total: float, mean: Block, gram: Block) -> None:
        """Take in rows that have none of these labels, by their number, their mean and their centred Gram matrix."""
        both = self.total + total
        apart = mean - self.mean
        centre = self.mean + (total / both) * apart
        self.gram += gram + (self.total * total / both) * apart[:, None] * apart
        # The labels' rows are now this far from the mean, on top of what they were.
        shift = self.total * self.label_mean[:, None] * (self.mean - centre)
        self.cross += array_namespace(self.cross).astype(shift, self.cross.dtype)
        self.label_mean = self.label_mean * (self.total / both)
        self.mean, self.total = centre, both

    def of_projection(self, k: int) -> "RidgeStatistics":
        """The same of the projected examples themselves, which are the last ``k`` features of a map, scaled."""
        if self.fourier is None or self.fourier.linear == 0:
            return self
        own = copy(self)
        scale = 1 / self.fourier.linear
        own.fourier = None
        own.gram = scale**2 * self.gram[-k:, -k:]
        own.cross, own.mean = scale * self.cross[:, -k:], scale * self.mean[-k:]
        return own

    def of_labels(self, labels: Block) -> "RidgeStatistics":
        """The same for some of the labels, by a mask."""
        own = copy(self)
        own.cross, own.label_mean = self.cross[labels], self.label_mean[labels]
        return own

    def level(self, strength: float) -> float:
        """The penalty λ that ``strength`` comes to."""
        return level(strength, float(array_namespace(self.gram).linalg.trace(self.gram)), self.total)

    def factor(self, strength: float) -> CholeskyRidge:
        """That of ``ΦᵀΦ + λI``."""
        return CholeskyRidge(self.gram, self.level(strength))

    def solve(self, strength: float, factor: CholeskyRidge | None = None) -> Decoder:
        """The decoder at ``strength``; by its factor, where that is there already."""
        xp = array_namespace(self.gram)
        D, c = self.gram.shape[0], self.cross.shape[0]
        factor = self.factor(strength) if factor is None else factor
        weights = xp.empty((D, c), dtype=self.cross.dtype, device=self.cross.device)
        bias = xp.empty((c,), dtype=self.cross.dtype, device=self.cross.device)
        for labels in spans(c, LABELS):
            weights[:, labels] = xp.astype(factor.solve(xp.astype(self.cross[labels].T, xp.float64)), weights.dtype)
            at_mean = self.mean @ xp.astype(weights[:, labels], xp.float64)
            bias[labels] = xp.astype(self.label_mean[labels] - at_mean, weights.dtype)
        return Decoder(weights, bias, "identity", self.fourier)


def level(strength: float, trace: float, total: float) -> float:
    """A penalty of ``strength`` relative to the mean squared length of a mapped, centred example.

    In that unit a strength means the same however many random features stand for the kernel.
    """
    return max(max(strength, 1e-10) * trace / total, 1e-300)
