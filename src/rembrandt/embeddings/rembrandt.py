"""Rembrandt (Algorithm 2): the part of the labels that the features predict."""

from rembrandt.embeddings.problem import Problem, Solver
from rembrandt.engines.protocol import Engine


def rembrandt(engine: Engine, features: Solver) -> Problem:
    """``YᵀΠ_X Y Q = YᵀX · argmin_Z ‖YQ − XZ‖² + λ‖Z‖²``."""
    return Problem(lambda Q: engine.cross_t(features.solve(engine.cross(Q))))
