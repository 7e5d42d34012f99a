"""What one pass over the data costs, on generated data: against the examples, labels an example, rank and labels.

A pass is one application of Rembrandt's operator, a few steps of conjugate gradients included. It works through the
non-zeros of X and Y, so the number of labels alone does not count; orthogonalising the block it makes does depend on
that number, and is timed apart.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from rembrandt.data.generated import sparse_problem
from rembrandt.embeddings.fit import relative
from rembrandt.embeddings.rembrandt import rembrandt
from rembrandt.engines.cpu import CpuEngine
from rembrandt.linalg.blocks import orthonormalize
from rembrandt.linalg.eigen import gaussian
from rembrandt.linalg.ridge import ConjugateGradientRidge, SpectralPreconditioner
from rembrandt.progress import Report
from rembrandt.reproduce.experiment import Row, Step

FEATURES = 40_000  # so many that XᵀY is not kept as a dense matrix: every pass goes through the data
RANK = 20  # of the generated problem
ITERATIONS = 3
REPEATS = 3
PASS, ORTHOGONAL = "one pass", "orthogonalisation"


@dataclass(frozen=True)
class Shape:
    """One generated problem and the width of the block applied to it."""

    n: int
    labels_each: int
    k: int
    c: int


@dataclass(frozen=True)
class Sweep:
    """One setting varied, the others at ``base``."""

    base: Shape
    field: str
    values: tuple[int, ...]

    @property
    def metric(self) -> str:
        return f"cost against {self.field}"


def sweeps(quick: bool) -> list[Sweep]:
    base = Shape(n=4000, labels_each=3, k=20, c=5000) if quick else Shape(n=50_000, labels_each=3, k=50, c=10_000)
    factors = (1, 2) if quick else (1, 2, 4, 8)
    return [
        Sweep(base, "n", tuple(base.n // 4 * f for f in factors)),
        Sweep(base, "labels_each", tuple(2 * f for f in factors)),
        Sweep(base, "k", tuple(base.k // 4 * f for f in factors)),
        Sweep(base, "c", tuple(base.c // 5 * f for f in ((1, 10) if quick else (1, 3, 10, 30)))),
    ]


def steps(experiment: str, quick: bool) -> list[Step]:
    return [Step(sweep.metric, _Timing(experiment, sweep)) for sweep in sweeps(quick)]


@dataclass(frozen=True)
class _Timing:
    experiment: str
    sweep: Sweep

    def __call__(self, report: Report) -> list[Row]:
        rows = []
        for done, value in enumerate(self.sweep.values):
            report(self.sweep.metric, done, len(self.sweep.values))
            changed: dict[str, Any] = {self.sweep.field: value}
            for system, seconds in measure(replace(self.sweep.base, **changed)).items():
                rows.append(Row(self.experiment, system, self.sweep.metric, seconds, at=value))
        report(self.sweep.metric, len(self.sweep.values), len(self.sweep.values))
        return rows


def measure(shape: Shape) -> dict[str, float]:
    """Seconds of one pass and of one orthogonalisation."""
    X, Y = sparse_problem(shape.n, FEATURES, shape.c, RANK, labels_each=shape.labels_each)
    engine = CpuEngine(X, Y)
    strength = relative(1.0, engine.feature_norms())
    # A fixed number of iterations; nothing but products with the data and a few vectors.
    plain = SpectralPreconditioner.nothing(engine.d)
    solver = ConjugateGradientRidge(engine.gram, strength, plain, tol=0.0, max_iter=ITERATIONS)
    operator = rembrandt(engine, solver).operator
    if operator is None:
        raise ValueError("this embedding has no operator to time")
    Q = orthonormalize(engine.asarray(gaussian(shape.c, shape.k, seed=0)))
    image = operator(Q)  # once untimed: transposes are laid out, code is compiled
    return {PASS: best_time(lambda: operator(Q)), ORTHOGONAL: best_time(lambda: orthonormalize(image))}


def best_time(work: Callable[[], object], repeats: int = REPEATS) -> float:
    """The shortest of a few runs: what else the machine does only adds to a time."""
    times = []
    for _ in range(repeats):
        begun = time.perf_counter()
        work()
        times.append(time.perf_counter() - begun)
    return min(times)
