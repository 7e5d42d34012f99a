"""Least squares from the (mapped) projection to every label: one factor for all labels."""

from rembrandt.engines.statistics import RidgeStatistics
from rembrandt.parts.embedding.decoders.decoder import Decoder


def fit_ridge(statistics: RidgeStatistics, strength: float) -> Decoder:
    """Fit the decoder at ``strength``, relative to the mean squared length of a mapped, centred
    row.
    """
    weights, bias = statistics.solve(strength)
    return Decoder(weights, bias, "identity", statistics.fourier)
