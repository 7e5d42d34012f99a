"""From an engine to an embedding: choose the solver, search, project."""

import warnings
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

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
from rembrandt.parts.embedding.operators.cca import cca
from rembrandt.parts.embedding.operators.cs import cs
from rembrandt.parts.embedding.operators.pca import pca
from rembrandt.parts.embedding.operators.plst import plst
from rembrandt.parts.embedding.operators.problem import Problem, Solver
from rembrandt.parts.embedding.operators.rembrandt import rembrandt
from rembrandt.parts.embedding.rank import choose_rank, largest_rank
from rembrandt.parts.embedding.settings import METHODS, EmbeddingSettings
from rembrandt.progress import Report, silent

# Features and labels up to which products are faster on one thread.
SINGLE_THREAD_COLUMNS = 1024
# Strong directions of the Gram matrix that the preconditioner scales down: enough for text.
PRECONDITIONER_RANK = 64
# Columns beyond its rank that make the preconditioner's directions accurate.
PRECONDITIONER_OVERSAMPLES = 8
# Random sign vectors of Hutchinson's estimate of the degrees of freedom.
TRACE_PROBES = 10
# Columns up to which the leverage of every example is cheap: a product as large as the Gram matrix.
OWN_LEVERAGE = 2048
# Keeps the division by the weight of a label without examples finite.
SMALLEST_LABEL_WEIGHT = 1e-30

# What a ridge regression is for: the operator, the whitening of CCA, or the projection W.
Use = Literal["features", "labels", "projection"]


@dataclass(frozen=True)
class Embedding:
    """A label embedding, and the projection of features on it.

    ``V`` (c × k) has the singular values ``sigma``; ``W`` ((d+1) × k) projects the features.
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
        if self.label_scale is None:
            return self.V
        return self.label_scale[:, None] * self.V

    def unreached_means(self) -> Block | None:
        """Return ``ν − back Vᵀν``: the part of the subtracted label means that no projection brings
        back.
        """
        if self.means is None or self.back is None:
            return None
        means = self.means
        if self.label_scale is not None:
            means = means / self.label_scale
        return means - self.back @ (self.means @ self.V)

    def truncated(self, rank: int) -> "Embedding":
        """Return the embedding of a smaller rank: the columns are nested."""
        back = None
        if self.back is not None:
            back = self.back[:, :rank]
        return replace(
            self,
            V=self.V[:, :rank],
            sigma=self.sigma[:rank],
            W=self.W[:, :rank],
            back=back,
        )


def embed(
    engine: Engine,
    settings: EmbeddingSettings,
    seed: int,
    report: Report = silent,
) -> Embedding:
    """Embed the labels, and project the features on the embedding.

    Parameters
    ----------
    engine : Engine
        Products of the features and the labels.
    settings : EmbeddingSettings
        Method, rank, ridge and the settings of the eigensolver.
    seed : int
        Seed of the random start.
    report : callable, optional
        Receives the progress.

    Returns
    -------
    Embedding
        There may be fewer than ``n_components`` directions; see `warn_if_fewer`.
    """
    if settings.n_components == "auto":
        rank = largest_rank(engine.n, engine.d, engine.c)
    else:
        rank = settings.n_components
    threads: AbstractContextManager[Any] = nullcontext()
    if max(engine.d, engine.c) <= SINGLE_THREAD_COLUMNS:
        threads = own_threads()
    stage = f"embedding ({settings.method})"
    with threads:
        features = None
        if settings.method != "pca":
            features = ridge_solver(engine, settings, seed, report)
        problem = pose(engine, settings, seed, features, report)
        report(stage, 0, 2)
        vectors, sigma = _top_vectors(engine, settings, seed, problem, rank)
        report(stage, 1, 2)
        if features is None:
            embedding = _embed_at_examples(engine, vectors, sigma)
        else:
            embedding = _project(engine, settings, seed, problem, features, vectors, sigma, report)
        embedding = _with_constant_feature(engine, embedding)
        report(stage, 2, 2)
    if settings.n_components != "auto":
        return embedding
    rank, reason = choose_rank(as_numpy(embedding.sigma))
    return replace(embedding.truncated(rank), rank_reason=reason)


def _top_vectors(
    engine: Engine, settings: EmbeddingSettings, seed: int, problem: Problem, rank: int
) -> tuple[Block, Block]:
    """Return the top vectors of the eigenproblem, and their values."""
    size = engine.c if problem.over == "labels" else engine.d
    n_vectors = min(rank, size)
    if problem.operator is None:
        start = engine.gaussian(size, n_vectors, seed)
        xp = array_namespace(start)
        V, _ = xp.linalg.qr(start)
        sigma = column_dots(V, engine.label_gram(V))
        return V, sigma
    n_oversamples = settings.n_oversamples
    if max(engine.d, engine.c) <= engine.exact_columns:
        # With few features and labels extra columns are cheap, and improve the last values.
        n_oversamples = max(n_oversamples, rank)
    start = engine.gaussian(size, min(rank + n_oversamples, size), seed)
    V, sigma = randomized_eigh(problem.operator, start, n_vectors, settings.n_iter, problem.metric)
    if V.shape[1] == 0:
        raise DataError(
            f"method={settings.method!r} finds no direction: without their means the features, "
            "or the labels, are constant. Use center=False, or features that differ between "
            "examples."
        )
    return V, sigma


def _embed_at_examples(engine: Engine, W: Block, sigma: Block) -> Embedding:
    """Embed a label at the mean projection of its examples, where the vectors run over features."""
    weights = np.maximum(engine.column_sums("Y", squared=True), SMALLEST_LABEL_WEIGHT)
    V = engine.cross_t(W) / engine.asarray(weights[:, None])
    return Embedding(
        V,
        sigma,
        W,
        back=None,
        residual=0.0,
        leverage=0.0,
        iterations=1,
        label_scale=engine.label_scale,
    )


def _project(
    engine: Engine,
    settings: EmbeddingSettings,
    seed: int,
    problem: Problem,
    features: Solver,
    V: Block,
    sigma: Block,
    report: Report,
) -> Embedding:
    """Regress ``YV`` on the features, and record how well the regressions were solved."""
    projection = features
    if settings.projection_ridge is not None:
        projection = ridge_solver(engine, settings, seed, report, "projection")
    W = projection.solve(engine.cross(V))
    back = V
    if problem.metric is not None:
        back = problem.metric(V)
    if engine.label_scale is not None:
        back = back / engine.label_scale[:, None]
    leverage = _mean_leverage(engine, seed, projection)
    inverse_root = None
    if isinstance(projection, CholeskyRidge) and engine.d <= OWN_LEVERAGE:
        inverse_root = engine.asarray(projection.inverse_root)
    # The least accurate solver decides, relative to the residual that is poor for its kind.
    worst = max(features, projection, key=lambda solver: solver.residual / solver.poor)
    iterations = max(features.iterations, projection.iterations)
    if worst.residual > worst.poor:
        warnings.warn(
            f"the regression stopped at a relative residual of {worst.residual:.2g} after "
            f"{iterations} iterations. For a reliable embedding: {worst.remedy}.",
            RembrandtWarning,
            stacklevel=4,
        )
    return Embedding(
        V,
        sigma,
        W,
        back=back,
        residual=worst.residual,
        leverage=leverage,
        iterations=iterations,
        inverse_root=inverse_root,
        label_scale=engine.label_scale,
    )


def _mean_leverage(engine: Engine, seed: int, projection: Solver) -> float:
    """Return the degrees of freedom of a regression over the number of examples, at most one."""
    normal = engine.gaussian(engine.d, TRACE_PROBES, seed + 2)
    signs = array_namespace(normal).sign(normal)
    return min(1.0, projection.degrees_of_freedom(signs) / engine.n)


def _with_constant_feature(engine: Engine, embedding: Embedding) -> Embedding:
    """Append the row of the constant feature, which undoes the centring.

    With the means μ of the features and ν of the labels, ``(x − μ)W + νᵀV`` is ``xW + (νᵀV − μW)``.
    """
    if engine.means is None:
        return embedding
    feature_means, label_means = engine.means
    W = embedding.W
    xp = array_namespace(W)
    if embedding.back is None:
        constant = -(feature_means @ W)
    else:
        constant = label_means @ embedding.V - feature_means @ W
    W = xp.concat([W, constant[None]], axis=0)
    inverse_root = embedding.inverse_root
    if inverse_root is not None:
        constant = -(feature_means @ inverse_root)
        inverse_root = xp.concat([inverse_root, constant[None]], axis=0)
    return replace(embedding, W=W, means=label_means, inverse_root=inverse_root)


def certificate(
    engine: Engine,
    settings: EmbeddingSettings,
    seed: int,
    vectors: Any,
    sigma: Any,
    n_probes: int = 10,
) -> Certificate:
    """Measure how exact an embedding is for the problem it was fitted to; costs a few more passes
    over the data.
    """
    features = None
    if settings.method in ("rembrandt", "cca"):
        features = ridge_solver(engine, settings, seed)
    problem = pose(engine, settings, seed, features, silent)
    if problem.operator is None or problem.metric is not None:
        raise SettingsError(
            f"method={settings.method!r} has no certificate: it solves no symmetric eigenproblem"
        )
    probes = engine.gaussian(vectors.shape[0], n_probes, seed + 1)
    return certify(problem.operator, engine.asarray(vectors), engine.asarray(sigma), probes)


def pose(
    engine: Engine,
    settings: EmbeddingSettings,
    seed: int,
    features: Solver | None,
    report: Report,
) -> Problem:
    """Return the eigenproblem of a method; methods that predict labels need the regression on the
    features.
    """
    match settings.method:
        case "rembrandt" if features is not None:
            return rembrandt(engine, features)
        case "pca":
            return pca(engine)
        case "plst":
            return plst(engine)
        case "cs":
            return cs()
        case "cca" if features is not None:
            labels = ridge_solver(engine, settings, seed, report, "labels")
            norms = engine.column_sums("Y", squared=True)
            strength = relative(ridge_of(settings, "labels"), norms)
            return cca(engine, features, labels, strength)
    raise SettingsError(f"method={settings.method!r} is none of {', '.join(METHODS)}")


def ridge_of(settings: EmbeddingSettings, use: Use) -> float:
    """Return the ridge for one use: ``settings.ridge`` unless the use has its own setting."""
    ridge = None
    if use == "labels":
        ridge = settings.label_ridge
    elif use == "projection":
        ridge = settings.projection_ridge
    if ridge is None:
        ridge = settings.ridge
    return float(ridge)


def relative(ridge: float, norms: NDArray[Any]) -> float:
    """Return ``λ · trace(XᵀX)/d``, the paper's parametrisation, with d the number of columns that
    are not empty.
    """
    n_used = max(1, int(np.count_nonzero(norms)))
    return ridge * float(norms.sum()) / n_used


def ridge_solver(
    engine: Engine,
    settings: EmbeddingSettings,
    seed: int,
    report: Report = silent,
    use: Use = "features",
) -> Solver:
    """Return an exact solver for few columns, conjugate gradients for many."""
    norms = engine.column_sums("Y" if use == "labels" else "X", squared=True)
    size = len(norms)
    strength = relative(ridge_of(settings, use), norms)
    solver = settings.solver
    if solver == "cholesky" or (solver == "auto" and size <= engine.exact_columns):
        if use == "labels":
            matrix = engine.label_gram(engine.asarray(np.eye(size)))
        else:
            matrix = engine.gram_matrix()
        return CholeskyRidge(matrix, strength)
    return _conjugate_gradients(engine, settings, seed, report, use, norms, strength)


def _conjugate_gradients(
    engine: Engine,
    settings: EmbeddingSettings,
    seed: int,
    report: Report,
    use: Use,
    norms: NDArray[Any],
    strength: float,
) -> ConjugateGradientRidge:
    """Return a solver by conjugate gradients, on scaled columns where their lengths differ much."""
    size = len(norms)
    gram: Operator = engine.label_gram if use == "labels" else engine.gram
    width = min(size, PRECONDITIONER_RANK + PRECONDITIONER_OVERSAMPLES)
    start = engine.gaussian(size, width, seed)
    # Rounding may leave the centred norm of a constant column below zero.
    diagonal = np.maximum(norms, 0) + strength
    # Columns without entries.
    diagonal[diagonal <= 0] = 1.0
    scale = None
    ridge = None
    if diagonal.max() > UNEQUAL * diagonal.min():
        # The ridge moves into the scaled operator, so the solver adds none.
        scale = engine.asarray(diagonal[:, None] ** -0.5)
        ridge = strength
        gram = scaled(gram, ridge, scale)
        strength = 0.0
    preconditioner = SpectralPreconditioner.of(gram, strength, start)
    return ConjugateGradientRidge(
        gram,
        strength,
        preconditioner,
        tol=settings.tol,
        max_iter=settings.max_iter,
        report=report,
        scale=scale,
        ridge=ridge,
    )
