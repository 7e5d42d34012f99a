"""Compressed sensing (Hsu et al., 2009): a random basis, blind to everything."""

from rembrandt.embeddings.problem import Problem


def cs() -> Problem:
    """No operator: the Gaussian start, made orthonormal, is the embedding."""
    return Problem(None)
