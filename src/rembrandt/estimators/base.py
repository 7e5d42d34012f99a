"""What the two estimators share: validation of features, targets and weights."""

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _check_sample_weight, validate_data

from rembrandt.data import Dataset
from rembrandt.data.examples import Examples
from rembrandt.data.labels import as_labels
from rembrandt.data.rows import Rows, as_rows, is_rows
from rembrandt.data.targets import Targets
from rembrandt.errors import DataError
from rembrandt.features.joined import Joined, is_blocks
from rembrandt.linalg.sparse import as_csr, is_sparse


class Estimator(BaseEstimator):
    """Validation that `LabelEmbedder` and `RembrandtClassifier` share."""

    _joined: Joined | None = None  # how several blocks of features become one matrix

    def _fit_rows(self, X: Any) -> Rows:
        """Validate training features. Rows on disk were validated when they were stored."""
        if is_rows(X):
            self._joined = None
            self.n_features_in_ = X.shape[1]
            return X
        self._joined = Joined.of(X) if is_blocks(X) else None
        return as_rows(self._matrix(X, reset=True))

    def _matrix(self, X: Any, reset: bool = False) -> Any:
        """Validate features and return them as a CSR matrix or an array in memory."""
        if is_blocks(X):
            if self._joined is None:
                raise DataError(
                    "X has several blocks of features, but the model was fitted to one matrix"
                )
            X = self._joined(X)
        if is_rows(X):
            X = X[:]  # predictions are as large as the data anyway
        X = validate_data(self, X, reset=reset, accept_sparse="csr", dtype=[np.float32, np.float64])
        return as_csr(X) if is_sparse(X) else X

    def _examples(self, X: Rows, targets: Targets, sample_weight: Any) -> Examples:
        """Check features, targets and weights against each other."""
        n = X.shape[0]
        if n != targets.Y.shape[0]:
            raise DataError(
                f"X has {n} rows and y has {targets.Y.shape[0]}; give one entry of y for each row"
            )
        weights = None
        if sample_weight is not None:
            weights = _check_sample_weight(
                sample_weight, sparse.csr_array((n, 1)), dtype=np.float64
            )
            if (weights < 0).any():
                raise DataError("sample_weight has negative entries; weights must not be negative")
        if targets.Y.nnz == 0:
            raise DataError(
                "no example has a label, so there is nothing to learn; give labels for some rows"
            )
        return Examples(X, as_csr(targets.Y), targets.classes, targets.multiclass, weights)


def dataset_targets(data: Dataset) -> Targets:
    """Return the labels of a dataset as the target of a fit."""
    return Targets(data.Y, as_labels(data.label_names), multiclass=data.task == "multiclass")
