"""What the two estimators share: how X, y and weights are checked, and how an embedding is described."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _check_sample_weight, validate_data

from rembrandt.checks import check_among, check_number, check_whole, seed_of
from rembrandt.data.rows import as_rows
from rembrandt.data.stored import StoredRows
from rembrandt.embeddings import METHODS
from rembrandt.embeddings.regressor import check_regressor
from rembrandt.engines.place import place_for
from rembrandt.errors import DataError
from rembrandt.features.joined import Joined, is_blocks
from rembrandt.fitting import (
    Labelled,
    Recipe,
    Settings,
    rank_limit,
)
from rembrandt.linalg.sparse import as_csr, is_sparse
from rembrandt.targets import Targets


class Estimator(BaseEstimator):
    """What the two estimators share: how X, y and weights are checked, and how an embedding is described."""

    joined_: Joined | None = None  # how blocks of features become one matrix, where there are several

    def _features(self, X: Any, reset: bool) -> Any:
        if reset:
            self.joined_ = Joined.of(X) if is_blocks(X) else None
        if is_blocks(X):
            if self.joined_ is None:
                raise DataError("X is several blocks, and the fit was to one matrix; give features as then")
            X = self.joined_(X)
        if isinstance(X, StoredRows) and reset:  # checked when its shards are opened
            self.n_features_in_ = X.shape[1]
            return X
        X = (
            X[:] if isinstance(X, StoredRows) else X
        )  # answers are as long as the data; blocks of it are asked for as such
        X = validate_data(self, X, reset=reset, accept_sparse="csr", dtype=[np.float32, np.float64])
        return as_csr(X) if is_sparse(X) else X

    def _labelled(self, X: Any, targets: Targets, sample_weight: Any) -> Labelled:
        if X.shape[0] != targets.Y.shape[0]:
            raise DataError(
                f"X has {X.shape[0]} rows and y has {targets.Y.shape[0]}: give one label entry for each row"
            )
        weights = None if sample_weight is None else _check_sample_weight(sample_weight, X, dtype=np.float64)
        if weights is not None and (weights < 0).any():
            raise DataError("sample_weight has negative entries; weights say how often an example counts")
        if targets.Y.nnz == 0:
            raise DataError("no example has a label: there is nothing to learn. Give labels for at least some rows.")
        place = place_for(self.device, as_rows(X))
        return Labelled(X, as_csr(targets.Y), targets.classes, targets.multiclass, weights, place)

    def _recipe(self, data: Labelled, **more: Any) -> Recipe:
        check_among("method", self.method, METHODS)
        check_among("solver", self.solver, ("auto", "cholesky", "pcg"))
        auto = isinstance(self.n_components, str) and self.n_components == "auto"
        if not auto:
            check_whole("n_components", self.n_components, 1)
        check_whole("n_oversamples", self.n_oversamples, 0)
        check_whole("n_iter", self.n_iter, 0)
        check_whole("max_iter", self.max_iter, 1)
        check_number("ridge", self.ridge, 0.0)
        check_number("tol", self.tol, 0.0)
        settings = Settings(
            method=self.method,
            n_components=rank_limit(data, self.regressor) if auto else int(self.n_components),
            at_most=auto,
            ridge=float(self.ridge),
            n_oversamples=int(self.n_oversamples),
            n_iter=int(self.n_iter),
            solver=self.solver,
            tol=float(self.tol),
            max_iter=int(self.max_iter),
            seed=seed_of(self.random_state),
        )
        check_regressor(self.regressor)
        return Recipe(settings, auto_rank=auto, center=bool(self.center), regressor=self.regressor, **more)
