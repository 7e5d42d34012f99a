"""Linear discriminant analysis in the embedding: the log-odds of labels in closed form.

Least squares on labels with few examples scores frequent labels first. Dividing by the size of a
class repairs that, and comes from the same sums as a ridge decoder: a quick judge of embeddings
that agrees with a logistic decoder.
"""

from array_api_compat import array_namespace

from rembrandt.engines.statistics import LABEL_BLOCK, RidgeStatistics
from rembrandt.linalg.blocks import Block, spans
from rembrandt.linalg.ridge import CholeskyRidge
from rembrandt.parts.embedding.decoders.decoder import Decoder, Link

# Score of a class without examples: below all others, and finite.
ABSENT_SCORE = -1e30
# Ridge relative to the covariance of all rows: the one within labels may be singular.
SMALLEST_SHRINKAGE = 1e-6
SMALLEST_STRENGTH = 1e-100


def fit_discriminant(
    statistics: RidgeStatistics, shrinkage: float = 0.1, multiclass: bool = True
) -> Decoder:
    """Return the log-odds of Gaussian labels with one covariance, shrunk towards a multiple of the
    identity.

    With one label a row it is the covariance within labels, otherwise that of all rows.
    """
    xp = array_namespace(statistics.gram)
    total = statistics.total
    cross = statistics.cross
    sizes = xp.astype(total * statistics.label_mean, xp.float64)
    present = sizes > 0
    sizes = xp.where(present, sizes, xp.ones_like(sizes))
    scatter = statistics.gram
    if multiclass:
        scatter = _within_labels(statistics, sizes)
    D = scatter.shape[0]
    trace = float(xp.linalg.trace(scatter))
    total_trace = float(xp.linalg.trace(statistics.gram))
    strength = shrinkage * trace / D
    strength = strength + SMALLEST_SHRINKAGE * total_trace / D
    factor = CholeskyRidge(scatter, max(strength, SMALLEST_STRENGTH))
    # Of the classes, from the mean of all rows.
    divisors = xp.astype(sizes, cross.dtype)
    class_means = (cross / divisors[:, None]).T
    weights = total * factor.solve(class_means)
    mean = xp.astype(statistics.mean, class_means.dtype)
    midpoints = class_means / 2 + mean[:, None]
    midpoint_scores = xp.sum(weights * midpoints, axis=0)
    bias = xp.log(sizes / total) - midpoint_scores
    bias = xp.where(present, bias, ABSENT_SCORE)
    bias = xp.astype(bias, weights.dtype)
    link: Link = "softmax" if multiclass else "sigmoid"
    return Decoder(weights, bias, link, statistics.fourier)


def _within_labels(statistics: RidgeStatistics, sizes: Block) -> Block:
    """Return the Gram matrix of rows around the mean of their label."""
    xp = array_namespace(statistics.gram)
    within = statistics.gram
    for labels in spans(len(sizes), LABEL_BLOCK):
        sums = xp.astype(statistics.cross[labels], xp.float64)
        means = sums / sizes[labels, None]
        within = within - sums.T @ means
    return within
