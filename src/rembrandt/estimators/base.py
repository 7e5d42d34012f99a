"""What the two estimators share: validation of features, targets and weights."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rembrandt.data import Dataset
from rembrandt.data.examples import Examples
from rembrandt.data.labels import as_labels
from rembrandt.data.rows import Rows, as_rows, check_width, is_rows
from rembrandt.data.targets import Targets
from rembrandt.data.views import is_blocks
from rembrandt.errors import DataError
from rembrandt.features.text import is_text
from rembrandt.linalg.sparse import as_csr, is_sparse
from rembrandt.linalg.validation import MIN_VALUE, bounded_values, check_sparse, refusals
from rembrandt.scikit import (
    BaseEstimator,
    _check_feature_names,
    _check_sample_weight,
    validate_data,
)

# Weights below this share of the largest one count as zero: sums in double precision lose them.
MIN_RELATIVE_WEIGHT = 1e-15
# Types of features; others are converted to one of them.
FLOATS = [np.float32, np.float64]


class Estimator(BaseEstimator):
    """Validation that `LabelEmbedder` and `RembrandtClassifier` share."""

    def _fit_rows(self, X: Any) -> Rows:
        """Validate training features. Rows on disk were validated when they were stored."""
        if is_rows(X):
            check_width(X)
            self.n_features_in_ = X.shape[1]
            return X
        rows = as_rows(self._matrix(X, reset=True))
        check_width(rows)
        return rows

    def _matrix(self, X: Any, reset: bool = False) -> Any:
        """Validate features and return them as a CSR matrix or an array in memory."""
        if is_blocks(X):
            raise DataError(
                "X has several blocks of features, but the model was fitted to one matrix"
            )
        if is_text(X):
            raise DataError(
                f"X has texts, and {type(self).__name__} reads features; make them first, such as "
                "by TextFeatures().fit_transform(X)"
            )
        if is_rows(X):
            X = X[:]  # predictions are as large as the data anyway
        if is_sparse(X):
            check_sparse(X)
        _check_feature_names(self, X, reset=reset)
        with refusals():
            X = validate_data(self, X, reset=reset, accept_sparse="csr", dtype=FLOATS)
        bounded = bounded_values(X)
        if reset and bounded is not X and not _any_value(bounded):
            raise DataError(
                f"all values of X are smaller than {MIN_VALUE:.1g}, which counts as zero; multiply "
                "X by a constant"
            )
        if is_sparse(bounded):
            return as_csr(bounded)
        return bounded

    def _examples(self, X: Rows, targets: Targets, sample_weight: Any) -> Examples:
        """Check features, targets and weights against each other."""
        n = X.shape[0]
        if n != targets.Y.shape[0]:
            raise DataError(
                f"X has {n} rows and y has {targets.Y.shape[0]}; give one entry of y for each row"
            )
        weights = None
        if sample_weight is not None:
            weights = _checked_weights(sample_weight, n)
        if targets.Y.nnz == 0:
            raise DataError(
                "no example has a label, so there is nothing to learn; give labels for some rows"
            )
        if weights is not None and not (weights[np.diff(targets.Y.indptr) > 0] > 0).any():
            raise DataError(
                "no example with a label has a positive weight, so there is nothing to learn; "
                "give sample_weight above zero for some of them"
            )
        return Examples(X, as_csr(targets.Y), targets.classes, targets.multiclass, weights)


def _checked_weights(sample_weight: Any, n: int) -> NDArray[np.float64]:
    """Return one finite weight, not negative, for each of the ``n`` rows."""
    try:
        weights = _check_sample_weight(sample_weight, sparse.csr_array((n, 1)), dtype=np.float64)
    except (TypeError, ValueError) as error:  # scikit-learn's, which name what they found
        raise DataError(
            f"sample_weight cannot be read ({error}); give one finite number for each of the {n:,} "
            "rows"
        ) from error
    if (weights < 0).any():
        row = int(np.argmax(weights < 0))
        raise DataError(
            f"sample_weight is negative at row {row:,} ({weights[row]}); weights must not be "
            "negative"
        )
    weights = bounded_values(weights, "sample_weight")
    smallest = MIN_RELATIVE_WEIGHT * weights.max(initial=0.0)
    return np.where(weights < smallest, 0.0, weights)


def _any_value(X: Any) -> bool:
    """Return whether a value is not zero."""
    values = X.data if is_sparse(X) else X
    return bool(values.any())


def dataset_targets(data: Dataset) -> Targets:
    """Return the labels of a dataset as the target of a fit."""
    return Targets(data.Y, as_labels(data.label_ids), multiclass=data.task == "multiclass")
