"""The embedding alone, as a scikit-learn transformer."""

from typing import Any, Self

from numpy.typing import NDArray
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from rembrandt.data.rows import as_rows
from rembrandt.embeddings import Method, SolverName, certificate
from rembrandt.engines.place import place_for
from rembrandt.errors import SettingsError
from rembrandt.estimators.base import Estimator
from rembrandt.fitting import (
    check_memory,
    fit_embedding,
    make_engine,
)
from rembrandt.linalg.blocks import as_numpy
from rembrandt.linalg.eigen import Certificate
from rembrandt.progress import bars
from rembrandt.selection import Auto
from rembrandt.targets import read_targets

Array = NDArray[Any]


class LabelEmbedder(TransformerMixin, Estimator):
    """Embed labels by what the features can predict of them.

    Parameters
    ----------
    n_components : int or "auto"
        Rank of the embedding; "auto" keeps the directions that hold nearly all of the spectrum.
    method : "rembrandt", "pca", "plst", "cs" or "cca"
        What is embedded: predictable labels, features, labels alone, nothing (random), or whitened predictable labels.
    ridge : float
        Strength of the regression of labels on features, relative to the mean squared length of a feature.
    n_oversamples, n_iter : int
        Columns to spare and power iterations of the randomized eigensolver.
    solver : "auto", "cholesky" or "pcg"
        Exact for few features, conjugate gradients for many; "auto" decides by their number.
    tol, max_iter : float, int
        Where conjugate gradients stop: the relative residual of a column, and the number of iterations.
    center : bool
        Subtract the means of features and labels instead of appending a constant feature; sparse data stays sparse.
        For features with a large mean, and for principal label spaces as Tai & Lin define them.
    regressor : None or a regressor
        What predicts embedded labels from features: ridge regression (None), or any object with ``fit`` and
        ``predict`` that supports several outputs; it is fitted ``n_iter + 2`` times.
    random_state : int, RandomState or None
    verbose : int
        Show progress when positive.
    device : str
        Where to work: "cpu"; a GPU through torch, "cuda" or "cuda:1"; several, "cuda:0,cuda:1"; or "auto", a GPU where
        there is one.

    Attributes
    ----------
    embedding_ : array (c, k)
        A vector for each label.
    singular_values_ : array (k,)
        Their strengths: for "rembrandt" the top eigenvalues of ``YᵀΠY``, with Π the projection on the features.
    projection_ : array (d + 1, k)
        Where features go; the last row belongs to the constant feature.
    lift_ : object or None
        What rows go through before the projection; None where that is linear.
    rank_reason_ : str
        Why "auto" chose this rank; empty where it was given.
    residual_, n_iter_ : float, int
        Worst relative residual of the regressions behind it and most iterations that one took; 0 and 1 when exact.

    References
    ----------
    P. Mineiro and N. Karampatziakis, Fast Label Embeddings via Randomized Linear Algebra, ECML 2015.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.eye(6)
    >>> embedder = LabelEmbedder(n_components=2, random_state=0).fit(X, ["a", "a", "b", "b", "c", "c"])
    >>> embedder.embedding_.shape
    (3, 2)
    """

    def __init__(
        self,
        n_components: int | Auto = 50,
        method: Method = "rembrandt",
        ridge: float = 1.0,
        n_oversamples: int = 20,
        n_iter: int = 1,
        solver: SolverName = "auto",
        tol: float = 1e-4,
        max_iter: int = 30,
        center: bool = False,
        regressor: Any = None,
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
        self.regressor = regressor
        self.random_state = random_state
        self.verbose = verbose
        self.device = device

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Embed the labels of ``y``: classes (1-D), a 0/1 matrix, or a list of labels for each example."""
        X = self._features(X, reset=True)
        targets = read_targets(y)
        data = self._labelled(X, targets, sample_weight)
        recipe = self._recipe(data, decoder="transpose")
        check_memory(data, recipe)
        with bars(self.verbose > 0) as report:
            embedded = fit_embedding(data, recipe, report)
        self.tally_ = data.place.tallies.get("embedding")
        self.classes_ = targets.classes
        self.embedding_ = as_numpy(embedded.embedding.V)
        self.singular_values_ = as_numpy(embedded.embedding.sigma)
        self.projection_ = as_numpy(embedded.projection)
        self.lift_ = embedded.lift
        self.rank_reason_ = embedded.reason
        self.residual_ = embedded.embedding.residual
        self.n_iter_ = embedded.embedding.iterations
        self._n_features_out = self.projection_.shape[1]
        return self

    def transform(self, X: Any) -> Array:
        """The rows of ``X`` in the embedding: their predicted ``YV``, n × k."""
        check_is_fitted(self)
        X = self._features(X, reset=False)
        place = place_for(self.device)
        rows = X if self.lift_ is None else self.lift_(X)
        return as_numpy(place.project(as_rows(rows), place.asarray(self.projection_)))

    def truncate(self, n_components: int) -> Self:
        """This embedding at a smaller rank: the columns are nested, so nothing is fitted again."""
        check_is_fitted(self)
        if not 1 <= n_components <= self.embedding_.shape[1]:
            raise SettingsError(
                f"n_components={n_components} must be from 1 to {self.embedding_.shape[1]}, the rank fitted"
            )
        smaller = type(self)(**self.get_params(deep=False) | {"n_components": n_components})
        smaller.__dict__ |= {name: value for name, value in vars(self).items() if name not in smaller.__dict__}
        smaller.embedding_ = self.embedding_[:, :n_components]
        smaller.singular_values_ = self.singular_values_[:n_components]
        smaller.projection_ = self.projection_[:, :n_components]
        smaller._n_features_out = n_components
        return smaller

    def certify(self, X: Any, y: Any, sample_weight: Any = None, n_probes: int = 10) -> Certificate:
        """How exact the embedding is for the data it was fitted on; costs about one more pass over it."""
        check_is_fitted(self)
        data = self._labelled(self._features(X, reset=False), read_targets(y), sample_weight)
        recipe = self._recipe(data)
        if self.lift_ is not None:
            raise SettingsError("there is no certificate with a regressor that is not linear: it has no operator")
        vectors = self.embedding_
        if self.method == "pca":
            vectors = self.projection_[:-1] if self.center else self.projection_
        with data.place.session():
            engine = make_engine(data, self.center)
            return certificate(engine, recipe.embedding.recipe(), vectors, self.singular_values_, n_probes)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags
