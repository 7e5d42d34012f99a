"""PCA of the features (Algorithm 1): independent of the labels."""

from rembrandt.engines.protocol import Engine
from rembrandt.parts.embedding.operators.problem import Problem


def pca(engine: Engine) -> Problem:
    """``XᵀX Q``, over the features."""
    return Problem(engine.gram, over="features")
