"""The embedding by itself, as a scikit-learn transformer."""

from dataclasses import fields
from typing import Any, Literal, Self

import numpy as np

from rembrandt.checks import seed_of
from rembrandt.data.examples import Examples
from rembrandt.data.rows import as_rows
from rembrandt.data.targets import read_targets
from rembrandt.declarations import ModelSettings, PartSpec, check_values
from rembrandt.engines.backend import backend_for
from rembrandt.errors import SettingsError
from rembrandt.estimators.base import Estimator
from rembrandt.fitting import check_memory
from rembrandt.linalg import Array
from rembrandt.linalg.blocks import as_numpy
from rembrandt.linalg.eigen import Certificate
from rembrandt.parts.embedding.fit import embed_labels, label_scaling
from rembrandt.parts.embedding.rank import warn_if_fewer
from rembrandt.parts.embedding.settings import (
    EmbeddingSettings,
    Method,
    SolverName,
    check_together,
    with_powers,
)
from rembrandt.parts.embedding.solve import certificate
from rembrandt.progress import bars
from rembrandt.scikit import ClassNamePrefixFeaturesOutMixin, TransformerMixin, check_is_fitted


class LabelEmbedder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Estimator):
    """Embed labels by what the features can predict of them.

    Parameters
    ----------
    n_components : int or "auto", default=50
        Rank of the embedding. "auto" keeps the directions that hold 99.5 % of the spectrum.
    method : {"rembrandt", "pca", "plst", "cs", "cca"}, default="rembrandt"
        What is embedded: predictable labels, features, labels alone, nothing (random vectors), or
        whitened predictable labels.
    ridge : float, default=1.0
        Strength of the regression of labels on features, relative to the mean squared length of a
        feature.
    n_oversamples : int, default=20
        Additional columns of the randomized eigensolver.
    n_iter : int, default=1
        Power iterations of the randomized eigensolver.
    solver : {"auto", "cholesky", "pcg"}, default="auto"
        Exact for few features, conjugate gradients for many; "auto" decides by their number.
    tol : float, default=1e-4
        Relative residual at which conjugate gradients stop.
    max_iter : int, default=30
        Maximum number of conjugate gradient iterations.
    center : bool, default=False
        Subtract the means of features and labels instead of appending a constant feature. Sparse
        data stays sparse. For features with a large mean, and for principal label spaces as Tai &
        Lin define them.
    label_power : float or "auto", default=0.0
        Power β, from 0 to 1, of a label's number of examples by which its column of Y is divided
        before the labels are embedded. 0 is the paper's algorithm; ¼, which is "auto", or ½ hold
        rare labels better.
    row_power : float or "auto", default=0.0
        The same for an example's number of labels: ½ keeps examples with many labels from
        dominating the embedding; "auto" is ½.
    label_ridge : float, default=None
        Ridge of the whitening of the labels in ``method="cca"``, relative to the mean squared
        length of a label; None is ``ridge``. Near 0 rare labels count as much as frequent ones.
    projection_ridge : float, default=None
        Ridge of the projection of the features on the finished embedding; None is ``ridge``.
    random_state : int, RandomState instance or None, default=None
        Seed of the random start.
    verbose : int, default=0
        Show progress when positive.
    device : str, default="cpu"
        "cpu"; a GPU through torch, "cuda" or "cuda:1"; several, "cuda:0,cuda:1"; or "auto", a GPU
        where there is one.

    Attributes
    ----------
    classes_ : ndarray of shape (n_labels,)
        Names of the labels.
    embedding_ : ndarray of shape (n_labels, n_components)
        A vector for each label; of scaled labels where ``label_power`` or ``row_power`` is
        positive.
    singular_values_ : ndarray of shape (n_components,)
        Strength of each direction: for "rembrandt" the top eigenvalues of ``YᵀΠY``, with Π the
        projection on the features.
    projection_ : ndarray of shape (n_features + 1, n_components)
        Projection of the features; the last row belongs to the constant feature.
    rank_reason_ : str
        Why "auto" chose this rank; empty where it was given.
    label_power_, row_power_ : float
        The powers that were used.
    residual_ : float
        Largest relative residual of the regressions; 0 when they are exact.
    n_iter_ : int
        Largest number of conjugate gradient iterations; 1 when the solver is exact.
    n_features_in_ : int
        Number of features seen during fit.
    tallies_ : dict
        Passes over a store and bytes moved; empty for rows in memory.

    References
    ----------
    P. Mineiro and N. Karampatziakis, Fast Label Embeddings via Randomized Linear
    Algebra, ECML 2015.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.eye(6)
    >>> y = ["a", "a", "b", "b", "c", "c"]
    >>> embedder = LabelEmbedder(n_components=2, random_state=0).fit(X, y)
    >>> embedder.embedding_.shape
    (3, 2)
    """

    def __init__(
        self,
        n_components: int | Literal["auto"] = 50,
        method: Method = "rembrandt",
        ridge: float = 1.0,
        n_oversamples: int = 20,
        n_iter: int = 1,
        solver: SolverName = "auto",
        tol: float = 1e-4,
        max_iter: int = 30,
        center: bool = False,
        label_power: float | Literal["auto"] = 0.0,
        row_power: float | Literal["auto"] = 0.0,
        label_ridge: float | None = None,
        projection_ridge: float | None = None,
        random_state: Any = None,
        verbose: int = 0,
        device: str = "cpu",
    ) -> None:
        self.n_components = n_components
        self.method = method
        self.ridge = ridge
        self.n_oversamples = n_oversamples
        self.n_iter = n_iter
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.center = center
        self.label_power = label_power
        self.row_power = row_power
        self.label_ridge = label_ridge
        self.projection_ridge = projection_ridge
        self.random_state = random_state
        self.verbose = verbose
        self.device = device

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Embed the labels of ``y``.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features.
        y : array-like
            One class per row, a 0/1 matrix, or a list of labels for each row.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.

        Returns
        -------
        self : LabelEmbedder
        """
        rows = self._fit_rows(X)
        data = self._examples(rows, read_targets(y), sample_weight)
        settings = self._settings()
        seed = seed_of(self.random_state)
        backend = backend_for(self.device, rows)
        check_memory(data, ModelSettings({"embedding": PartSpec("embedding", settings)}), backend)
        with bars(self.verbose > 0) as report, backend.session():
            embedded = embed_labels(data, settings, seed, backend, report)
        embedding = embedded.embedding
        warn_if_fewer(int(embedding.sigma.shape[0]), self.n_components)
        self.tallies_ = backend.tallies
        self.classes_ = data.classes
        self.embedding_ = as_numpy(embedding.V)
        self.singular_values_ = as_numpy(embedding.sigma)
        self.projection_ = as_numpy(embedded.projection)
        self.rank_reason_ = embedding.rank_reason
        self.label_power_ = settings.label_power
        self.row_power_ = settings.row_power
        self.residual_ = embedding.residual
        self.n_iter_ = embedding.iterations
        self._n_features_out = self.projection_.shape[1]
        return self

    def transform(self, X: Any) -> Array:
        """Project rows on the embedding: their predicted ``YV``, of scaled labels where they were
        scaled.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
        """
        check_is_fitted(self)
        rows = self._matrix(X)
        backend = backend_for(self.device)
        return as_numpy(backend.project(as_rows(rows), backend.asarray(self.projection_)))

    def truncate(self, n_components: int) -> Self:
        """Return this embedding at a smaller rank; its columns are nested, so nothing is fitted
        again.

        Parameters
        ----------
        n_components : int
            The rank, at most that of the fit.

        Returns
        -------
        LabelEmbedder
        """
        check_is_fitted(self)
        rank = self.embedding_.shape[1]
        if not 1 <= n_components <= rank:
            message = f"n_components={n_components} must be from 1 to {rank}, the rank of the fit"
            raise SettingsError(message, "n_components")
        smaller = type(self)(**self.get_params(deep=False) | {"n_components": n_components})
        for name, value in vars(self).items():
            if name not in vars(smaller):
                setattr(smaller, name, value)
        smaller.embedding_ = self.embedding_[:, :n_components]
        smaller.singular_values_ = self.singular_values_[:n_components]
        smaller.projection_ = self.projection_[:, :n_components]
        smaller._n_features_out = n_components
        return smaller

    def certify(self, X: Any, y: Any, sample_weight: Any = None, n_probes: int = 10) -> Certificate:
        """Measure how exact the embedding is for the data it was fitted on; costs about one pass
        over it.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features of the fit.
        y : array-like
            Labels of the fit.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the fit.
        n_probes : int, default=10
            Number of random probes.

        Returns
        -------
        Certificate
            Residual of each direction, and a bound on what was missed.
        """
        check_is_fitted(self)
        data: Examples = self._examples(as_rows(self._matrix(X)), read_targets(y), sample_weight)
        backend = backend_for(self.device, data.X)
        used = data.X.used_columns()
        rows = data.X if len(used) == data.X.shape[1] else data.X.select(used)
        vectors = self.embedding_
        if self.method == "pca":
            vectors = self.projection_[used if self.center else np.append(used, data.X.shape[1])]
        settings = self._settings()
        with backend.session():
            engine = backend.engine(rows, data.Y, data.weights, label_scaling(settings))
            return certificate(
                engine,
                settings,
                seed_of(self.random_state),
                vectors,
                self.singular_values_,
                n_probes,
            )

    def _settings(self) -> EmbeddingSettings:
        """Check the parameters and return them as complete settings of an embedding."""
        params = self.get_params(deep=False)
        check_values(params)
        fields_here = [f.name for f in fields(EmbeddingSettings) if f.name in params]
        settings = EmbeddingSettings(
            decoder="transpose",
            decoder_ridge=0.0,
            kernel=None,
            normalize=False,
            leave_out=0.0,
            retrieves_labels=True,
            **{name: params[name] for name in fields_here},
        )
        check_together(settings)
        return with_powers(settings.with_defaults())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags
