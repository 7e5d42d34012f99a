"""PCA of the features (Algorithm 1): independent of the labels."""

from rembrandt.embeddings.problem import Problem
from rembrandt.engines.protocol import Engine


def pca(engine: Engine) -> Problem:
    """``XᵀX Q``, over the features."""
    return Problem(engine.gram, over="features")
