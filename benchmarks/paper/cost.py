"""The cost of one pass over generated data, against the number of examples, labels per example,
columns and labels.

A pass is one application of Rembrandt's operator with a few conjugate gradient steps. It works on
the non-zeros of X and Y, so its cost does not depend on the number of labels. Orthogonalizing the
block does, and is timed separately.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from benchmarks.generated import sparse_problem
from benchmarks.paper.experiment import Row, Step
from benchmarks.paper.fits import best_time
from rembrandt.engines.cpu import CpuEngine
from rembrandt.linalg.blocks import orthonormalize
from rembrandt.linalg.eigen import gaussian
from rembrandt.linalg.ridge import ConjugateGradientRidge, SpectralPreconditioner
from rembrandt.parts.embedding.operators.rembrandt import rembrandt
from rembrandt.parts.embedding.solve import relative
from rembrandt.progress import Report

FEATURES = 40_000  # so many that XᵀY is not stored as a dense matrix: every pass reads the data
RANK = 20  # of the generated problem
ITERATIONS = 3
PASS, ORTHOGONAL = "one pass", "orthogonalisation"


@dataclass(frozen=True)
class Shape:
    """The shape of a generated problem, and the number of columns of the block."""

    n: int
    labels_each: int
    k: int
    c: int


@dataclass(frozen=True)
class Sweep:
    """Several values of one field, with the other fields at ``base``."""

    base: Shape
    field: str
    values: tuple[int, ...]

    @property
    def metric(self) -> str:
        return f"cost against {self.field}"


def sweeps(quick: bool) -> list[Sweep]:
    base = (
        Shape(n=4000, labels_each=3, k=20, c=5000)
        if quick
        else Shape(n=50_000, labels_each=3, k=50, c=10_000)
    )
    factors = (1, 2) if quick else (1, 2, 4, 8)
    return [
        Sweep(base, "n", tuple(base.n // 4 * f for f in factors)),
        Sweep(base, "labels_each", tuple(2 * f for f in factors)),
        Sweep(base, "k", tuple(base.k // 4 * f for f in factors)),
        Sweep(base, "c", tuple(base.c // 5 * f for f in ((1, 10) if quick else (1, 3, 10, 30)))),
    ]


def steps(experiment: str, quick: bool) -> list[Step]:
    """Return a step for each sweep."""
    return [Step(sweep.metric, partial(_run, experiment, sweep)) for sweep in sweeps(quick)]


def _run(experiment: str, sweep: Sweep, report: Report) -> list[Row]:
    rows = []
    for done, value in enumerate(sweep.values):
        report(sweep.metric, done, len(sweep.values))
        changed: dict[str, Any] = {sweep.field: value}
        for system, seconds in measure(replace(sweep.base, **changed)).items():
            rows.append(Row(experiment, system, sweep.metric, seconds, at=value))
    report(sweep.metric, len(sweep.values), len(sweep.values))
    return rows


def measure(shape: Shape) -> dict[str, float]:
    """Return the seconds of one pass and of one orthogonalization."""
    X, Y = sparse_problem(shape.n, FEATURES, shape.c, RANK, labels_each=shape.labels_each)
    engine = CpuEngine(X, Y)
    strength = relative(1.0, engine.column_sums("X", squared=True))
    # A fixed number of iterations without a preconditioner: products with the data and a few
    # vectors.
    identity = SpectralPreconditioner(
        np.zeros((engine.d, 0), np.float32), np.zeros((0, 1), np.float32)
    )
    solver = ConjugateGradientRidge(engine.gram, strength, identity, tol=0.0, max_iter=ITERATIONS)
    operator = rembrandt(engine, solver).operator
    if operator is None:
        raise ValueError("this embedding has no operator to time")
    Q = orthonormalize(engine.asarray(gaussian(shape.c, shape.k, seed=0)))
    image = operator(Q)  # the first call compiles code and builds transposed matrices
    return {
        PASS: best_time(lambda: operator(Q)),
        ORTHOGONAL: best_time(lambda: orthonormalize(image)),
    }
