"""Rembrandt (Algorithm 2): what the features can predict of the labels."""

from rembrandt.embeddings.problem import Problem, Solver
from rembrandt.embeddings.regression import Regression
from rembrandt.engines.protocol import Engine


def rembrandt(engine: Engine, features: Solver) -> Problem:
    """``YᵀΠ_X Y Q = YᵀX · argmin_Z ‖YQ − XZ‖² + λ‖Z‖²``."""
    return Problem(Regression(engine, features).there_and_back)
