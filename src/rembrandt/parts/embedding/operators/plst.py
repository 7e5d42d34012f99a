"""PLST, the principal label space (Tai & Lin, 2012): independent of the features."""

from rembrandt.engines.protocol import Engine
from rembrandt.parts.embedding.operators.problem import Problem


def plst(engine: Engine) -> Problem:
    """``YᵀY Q``."""
    return Problem(engine.label_gram)
