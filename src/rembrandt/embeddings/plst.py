"""PLST, the principal label space (Tai & Lin, 2012): independent of the features."""

from rembrandt.embeddings.problem import Problem
from rembrandt.engines.protocol import Engine


def plst(engine: Engine) -> Problem:
    """``YᵀY Q``."""
    return Problem(engine.label_gram)
