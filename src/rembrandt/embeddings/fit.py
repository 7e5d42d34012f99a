"""From an engine to an embedding: choose the solver, search, project."""

import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from rembrandt.embeddings.cca import cca
from rembrandt.embeddings.cs import cs
from rembrandt.embeddings.pca import pca
from rembrandt.embeddings.plst import plst
from rembrandt.embeddings.problem import Problem, Solver
from rembrandt.embeddings.rank import choose_rank, largest_rank
from rembrandt.embeddings.rembrandt import rembrandt
from rembrandt.engines.protocol import Engine
from rembrandt.errors import DataError, RembrandtWarning, SettingsError
from rembrandt.linalg.blocks import Block, as_numpy, column_dots
from rembrandt.linalg.eigen import Certificate, Operator, certify, randomized_eigh
from rembrandt.linalg.ridge import (
    UNEQUAL,
    CholeskyRidge,
    ConjugateGradientRidge,
    SpectralPreconditioner,
    scaled,
)
from rembrandt.linalg.threads import own_threads
from rembrandt.progress import Report, silent
from rembrandt.recipe import METHODS, Recipe

SMALL = 1024  # features and labels up to which products are faster on one thread
PRECONDITIONER_RANK = 64
TRACE_PROBES = 10
# Columns up to which each example's own leverage is cheap: a product as large as the Gram matrix
OWN_LEVERAGE = 2048
Use = Literal[
    "features", "labels", "projection"
]  # of a ridge regression: in the operator, in CCA, and for W
Regression = Callable[[Engine, Recipe, Report], Solver]


@dataclass(frozen=True)
class Embedding:
    """``V`` (c × k), its singular values, the projection ``W`` ((d+1) × k) of features, and the way
    back.

    ``[x, 1] W`` predicts ``yV``; the last row of ``W`` belongs to the constant feature. ``back`` (c
    × k) decodes by the transpose, ``Ŷ = X W backᵀ``: ``V`` itself when it is orthonormal; ``None``
    when the vectors run over features. ``leverage`` is the mean weight of an example in its own
    prediction ``XW``. Where it is cheap, ``inverse_root`` ((d+1) × d) gives the weight of each,
    ``‖[x, 1] T‖²`` times the weight of the example.

    Where labels were scaled, V and σ are those of the scaled labels ``Ỹ``: ``[x, 1] W`` predicts
    ``ỹV``, and ``back`` undoes the scaling of the columns. That of the rows needs the labels of a
    row, and the order of scores does not.
    """

    V: Block
    sigma: Block
    W: Block
    back: Block | None
    residual: float
    leverage: float
    iterations: int
    means: Block | None = None  # of the labels, when they were subtracted
    rank_reason: str = ""  # why an automatic choice took this rank
    inverse_root: Block | None = None
    label_scale: Block | None = None  # factors of the labels' columns, when they were scaled

    @property
    def targets(self) -> Block:
        """``D_c^-β V``: given labels times this are what ``[x, 1] W`` predicts, but for the scaling
        of the rows.
        """
        return self.V if self.label_scale is None else self.label_scale[:, None] * self.V

    def unreached_means(self) -> Block | None:
        """Return ``ν − back Vᵀν``: the part of the subtracted label means that no projection brings
        back.
        """
        if self.means is None or self.back is None:
            return None
        means = self.means if self.label_scale is None else self.means / self.label_scale
        return means - self.back @ (self.means @ self.V)

    def truncated(self, rank: int) -> "Embedding":
        """Return the embedding of a smaller rank: the columns are nested."""
        back = None if self.back is None else self.back[:, :rank]
        return replace(
            self, V=self.V[:, :rank], sigma=self.sigma[:rank], W=self.W[:, :rank], back=back
        )


def embed(
    engine: Engine, recipe: Recipe, report: Report = silent, regression: Regression | None = None
) -> Embedding:
    """Embed the labels, and project the features on the embedding.

    There may be fewer than ``n_components`` directions; see `warn_if_fewer`. ``regression`` returns
    the solver of the regression on the features; it is `ridge_solver` unless embeddings for the
    same features share one.
    """
    k = (
        largest_rank(engine.n, engine.d, engine.c)
        if recipe.n_components == "auto"
        else recipe.n_components
    )
    with own_threads() if max(engine.d, engine.c) <= SMALL else nullcontext():
        found = _embed(engine, recipe, k, report, regression or ridge_solver)
    if recipe.n_components != "auto":
        return found
    rank, reason = choose_rank(as_numpy(found.sigma))
    return replace(found.truncated(rank), rank_reason=reason)


def _embed(
    engine: Engine, recipe: Recipe, k: int, report: Report, regression: Regression
) -> Embedding:
    stage, settings = f"embedding ({recipe.method})", recipe.embedding
    features = None if recipe.method == "pca" else regression(engine, recipe, report)
    problem = pose(engine, recipe, features, report)
    size = engine.c if problem.over == "labels" else engine.d
    # With few features and labels extra columns are cheap, and improve the last values.
    cheap = max(engine.d, engine.c) <= engine.exact_columns
    width = k + (max(settings.n_oversamples, k) if cheap else settings.n_oversamples)
    report(stage, 0, 2)
    if problem.operator is None:
        start = engine.gaussian(size, min(k, size), recipe.seed)
        V = array_namespace(start).linalg.qr(start)[0]
        sigma = column_dots(V, engine.label_gram(V))
    else:
        start = engine.gaussian(size, min(width, size), recipe.seed)
        V, sigma = randomized_eigh(
            problem.operator, start, min(k, size), settings.n_iter, problem.metric
        )
        if V.shape[1] == 0:
            raise DataError(
                f"method={recipe.method!r} finds no direction: without their means the features, "
                "or the labels, are "
                "constant. Use center=False, or features that differ between examples."
            )
    report(stage, 1, 2)
    back: Block | None
    root: Block | None = None
    if features is None:
        # A label is embedded at the mean projection of its examples.
        W, back, leverage, residual, iterations = V, None, 0.0, 0.0, 1
        V = engine.cross_t(W) / engine.asarray(
            np.maximum(engine.column_sums("Y", squared=True), 1e-30)[:, None]
        )
    else:
        project = (
            features
            if settings.projection_ridge is None
            else ridge_solver(engine, recipe, report, "projection")
        )
        W = project.solve(engine.cross(V))
        back = V if problem.metric is None else problem.metric(V)
        back = back if engine.label_scale is None else back / engine.label_scale[:, None]
        drawn = engine.gaussian(engine.d, TRACE_PROBES, recipe.seed + 2)
        leverage = min(
            1.0, project.degrees_of_freedom(array_namespace(drawn).sign(drawn)) / engine.n
        )
        if isinstance(project, CholeskyRidge) and engine.d <= OWN_LEVERAGE:
            root = engine.asarray(project.inverse_root)
        worst = max(features, project, key=lambda solver: solver.residual / solver.poor)
        residual, iterations = worst.residual, max(features.iterations, project.iterations)
        if residual > worst.poor:
            why = (
                f"the regression stopped at a relative residual of {residual:.2g} after "
                f"{iterations} iterations"
            )
            warnings.warn(
                f"{why}. For a reliable embedding: {worst.remedy}.", RembrandtWarning, stacklevel=4
            )
    means = None
    if engine.means is not None:
        # (x − μ)W + νᵀV as one more row: x W + (νᵀV − μW).
        mu, means = engine.means
        constant = -(mu @ W) if back is None else means @ V - mu @ W
        W = array_namespace(W).concat([W, constant[None]], axis=0)
        root = (
            None
            if root is None
            else array_namespace(root).concat([root, -(mu @ root)[None]], axis=0)
        )
    report(stage, 2, 2)
    found = Embedding(V, sigma, W, back, residual, leverage, iterations, means)
    return replace(found, label_scale=engine.label_scale, inverse_root=root)


def certificate(
    engine: Engine, recipe: Recipe, vectors: Any, sigma: Any, n_probes: int = 10
) -> Certificate:
    """Measure how exact an embedding is for the problem it was fitted to; costs a few more passes
    over the data.
    """
    features = ridge_solver(engine, recipe) if recipe.method in ("rembrandt", "cca") else None
    problem = pose(engine, recipe, features, silent)
    if problem.operator is None or problem.metric is not None:
        raise SettingsError(
            f"method={recipe.method!r} has no certificate: it solves no symmetric eigenproblem"
        )
    probes = engine.gaussian(vectors.shape[0], n_probes, recipe.seed + 1)
    return certify(problem.operator, engine.asarray(vectors), engine.asarray(sigma), probes)


def pose(engine: Engine, recipe: Recipe, features: Solver | None, report: Report) -> Problem:
    """Return the eigenproblem of a method; methods that predict labels need the regression on the
    features.
    """
    match recipe.method:
        case "rembrandt" if features is not None:
            return rembrandt(engine, features)
        case "pca":
            return pca(engine)
        case "plst":
            return plst(engine)
        case "cs":
            return cs()
        case "cca" if features is not None:
            labels = ridge_solver(engine, recipe, report, "labels")
            strength = relative(ridge_of(recipe, "labels"), engine.column_sums("Y", squared=True))
            return cca(engine, features, labels, strength)
    raise SettingsError(f"method={recipe.method!r} is none of {', '.join(METHODS)}")


def ridge_of(recipe: Recipe, use: Use) -> float:
    """Return the ridge for one use: its own where it has one."""
    s = recipe.embedding
    own = {"labels": s.label_ridge, "projection": s.projection_ridge}.get(use)
    return float(recipe.ridge if own is None else own)


def relative(ridge: float, norms: NDArray[Any]) -> float:
    """The paper's parametrisation, ``λ · trace(XᵀX)/d``, with d the number of columns that are not
    empty.
    """
    return ridge * float(norms.sum()) / max(1, int(np.count_nonzero(norms)))


def ridge_solver(
    engine: Engine, recipe: Recipe, report: Report = silent, use: Use = "features"
) -> Solver:
    """Return an exact solver for few columns, conjugate gradients for many."""
    gram: Operator = engine.label_gram if use == "labels" else engine.gram
    name = "Y" if use == "labels" else "X"
    norms = engine.column_sums(name, squared=True)
    size, settings = len(norms), recipe.embedding
    strength = relative(ridge_of(recipe, use), norms)
    if settings.solver == "cholesky" or (
        settings.solver == "auto" and size <= engine.exact_columns
    ):
        matrix = (
            engine.label_gram(engine.asarray(np.eye(size)))
            if use == "labels"
            else engine.gram_matrix()
        )
        return CholeskyRidge(matrix, strength)
    start = engine.gaussian(size, min(size, PRECONDITIONER_RANK + 8), recipe.seed)
    diagonal = (
        np.maximum(norms, 0) + strength
    )  # rounding may leave the centred norm of a constant column below zero
    diagonal[diagonal <= 0] = 1.0  # columns without entries
    scale, ridge = None, None
    if diagonal.max() > UNEQUAL * diagonal.min():
        scale, ridge = engine.asarray(diagonal[:, None] ** -0.5), strength
        gram, strength = scaled(gram, ridge, scale), 0.0
    preconditioner = SpectralPreconditioner.of(gram, strength, start)
    return ConjugateGradientRidge(
        gram, strength, preconditioner, settings.tol, settings.max_iter, report, scale, ridge
    )
