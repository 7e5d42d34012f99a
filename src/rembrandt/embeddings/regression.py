"""Labels through the regression on the features, wherever their columns are."""

from dataclasses import dataclass
from typing import Any

from array_api_compat import array_namespace

from rembrandt.embeddings.problem import Solver
from rembrandt.engines.protocol import Engine
from rembrandt.linalg.blocks import Block
from rembrandt.linalg.ridge import ConjugateGradientRidge, SpectralPreconditioner


class Regression:
    """``Z = argmin ‖YQ − XZ‖² + λ‖Z‖²`` for every column of ``Q``, and ``YᵀXZ``.

    Columns are independent. On an engine that shares them out among machines a whole solve is done where they are:
    ``Q`` goes there and the result comes back, instead of a block at every iteration.
    """

    def __init__(self, engine: Engine, features: Solver) -> None:
        self.engine, self.features = engine, features
        self.travelling: _Travelling | None = None
        if getattr(engine, "spreads", False) and isinstance(features, ConjugateGradientRidge):
            precondition: Any = features.precondition
            self.travelling = _Travelling(features.strength, precondition, features.tol, features.max_iter)

    def solve(self, Q: Block) -> Block:
        """``Z``."""
        if self.travelling is None:
            return self.features.solve(self.engine.cross(Q))
        return self._elsewhere(Q, False)

    def there_and_back(self, Q: Block) -> Block:
        """``YᵀXZ``."""
        if self.travelling is None:
            return self.engine.cross_t(self.solve(Q))
        return self._elsewhere(Q, True)

    def _elsewhere(self, Q: Block, back: bool) -> Block:
        engine: Any = self.engine
        parts = engine.spread(self.travelling, Q, back)
        self.features.residual = max(self.features.residual, *(residual for _, residual, _ in parts))
        self.features.iterations = max(self.features.iterations, *(iterations for _, _, iterations in parts))
        return array_namespace(Q).concat([block for block, _, _ in parts], axis=1)


@dataclass(frozen=True)
class _Travelling:
    """A regression without its data, to be sent to where that is."""

    strength: float
    precondition: SpectralPreconditioner
    tol: float
    max_iter: int

    @property
    def nbytes(self) -> int:
        return int(self.precondition.U.nbytes)

    def __call__(self, engine: Engine, Q: Block, back: bool) -> tuple[Block, float, int]:
        solver = ConjugateGradientRidge(engine.gram, self.strength, self.precondition, self.tol, self.max_iter)
        Z = solver.solve(engine.cross(Q))
        return engine.cross_t(Z) if back else Z, solver.residual, solver.iterations
