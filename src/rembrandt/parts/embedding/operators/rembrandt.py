"""Rembrandt (Algorithm 2): the part of the labels that the features predict."""

from rembrandt.engines.protocol import Engine
from rembrandt.linalg.blocks import Block
from rembrandt.parts.embedding.operators.problem import Problem, Solver


def rembrandt(engine: Engine, features: Solver) -> Problem:
    """``YᵀΠ_X Y Q = YᵀX · argmin_Z ‖YQ − XZ‖² + λ‖Z‖²``."""

    def operator(Q: Block) -> Block:
        Z = features.solve(engine.cross(Q))
        return engine.cross_t(Z)

    return Problem(operator)
