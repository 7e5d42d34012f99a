"""Linear discriminant analysis in the embedding: the log-odds of labels in closed form.

Least squares on labels with few examples scores frequent labels first. Dividing by the size of a
class repairs that, and comes from the same sums as a ridge decoder: a quick judge of embeddings
that agrees with a logistic decoder.
"""

from array_api_compat import array_namespace

from rembrandt.decoders.decoder import Decoder
from rembrandt.engines.statistics import LABEL_BLOCK, RidgeStatistics
from rembrandt.linalg.blocks import spans
from rembrandt.linalg.ridge import CholeskyRidge

ABSENT = -1e30  # score of a class without examples


def fit_discriminant(
    statistics: RidgeStatistics, shrinkage: float = 0.1, multiclass: bool = True
) -> Decoder:
    """Return the log-odds of Gaussian labels with one covariance, shrunk towards a multiple of the
    identity.

    With one label a row it is the covariance within labels, otherwise that of all rows.
    """
    s, xp = statistics, array_namespace(statistics.gram)
    sizes = xp.astype(s.total * s.label_mean, xp.float64)
    present = sizes > 0
    sizes = xp.where(present, sizes, xp.ones_like(sizes))
    within = s.gram
    for labels in spans(len(sizes), LABEL_BLOCK) if multiclass else ():
        between = xp.astype(s.cross[labels], xp.float64)
        within = within - between.T @ (between / sizes[labels, None])
    D = within.shape[0]
    strength = (
        shrinkage * float(xp.linalg.trace(within)) / D + 1e-6 * float(xp.linalg.trace(s.gram)) / D
    )
    factor = CholeskyRidge(within, max(strength, 1e-100))
    means = (
        s.cross / xp.astype(sizes, s.cross.dtype)[:, None]
    )  # of the classes, from the mean of all rows
    weights = s.total * factor.solve(means.T)
    bias = xp.log(sizes / s.total) - xp.sum(
        weights * (means.T / 2 + xp.astype(s.mean, means.dtype)[:, None]), axis=0
    )
    bias = xp.astype(xp.where(present, bias, ABSENT), weights.dtype)
    return Decoder(weights, bias, "softmax" if multiclass else "sigmoid", s.fourier)
