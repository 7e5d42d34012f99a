"""CCA: Rembrandt on whitened labels.

Whitening ``Y`` by ``B = YᵀY + ρI`` turns ``YᵀΠ_X Y`` into ``B^-½ YᵀΠ_X Y B^-½``. The root is never
formed: the same eigenvectors come from ``B⁻¹ YᵀΠ_X Y``, which is symmetric in the inner product of
``B``.
"""

from rembrandt.engines.protocol import Engine
from rembrandt.linalg.blocks import Block
from rembrandt.parts.embedding.operators.problem import Problem, Solver
from rembrandt.parts.embedding.operators.rembrandt import rembrandt


def cca(engine: Engine, features: Solver, labels: Solver, label_strength: float) -> Problem:
    """Return ``(YᵀY + ρI)⁻¹ YᵀΠ_X Y Q`` in the inner product of ``YᵀY + ρI``; ρ is
    ``label_strength``.
    """
    predicted = rembrandt(engine, features).operator
    assert predicted is not None

    def whitened(Q: Block) -> Block:
        return labels.solve(predicted(Q))

    def metric(Q: Block) -> Block:
        return engine.label_gram(Q) + label_strength * Q

    return Problem(whitened, metric=metric)
