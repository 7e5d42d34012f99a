"""More examples and labels for a fitted classifier."""

import warnings
from collections.abc import Iterable
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from rembrandt.data import Dataset
from rembrandt.data.arrays import move_columns
from rembrandt.data.labels import LabelIndex, as_labels
from rembrandt.data.rows import Rows, as_rows
from rembrandt.data.targets import Targets, is_matrix, joined_labels, named_like, read_targets
from rembrandt.errors import DataError, RembrandtWarning
from rembrandt.estimators.named import NamedPrediction
from rembrandt.progress import Report, bars, silent
from rembrandt.scorers.protocol import Array
from rembrandt.updating import refit_due, update_model


class Updates(NamedPrediction):
    """Methods of `RembrandtClassifier` that add examples."""

    def update(
        self,
        X: Any,
        y: Any,
        history: tuple[Any, Any] | None = None,
        classes: Iterable[Any] | None = None,
        sample_weight: Any = None,
    ) -> Self:
        """Add examples to a fitted model, with labels that it knows and new ones.

        Centroids and a ridge decoder take more examples as they are; a decoder is exact where the
        model is growable. Trees need the old examples: with ``history`` the nodes that get new
        examples are fitted again, without it only the new labels are. ``settings_["updates"]`` says
        what was ``left``, and a warning when a refit is due.

        Parameters
        ----------
        X : array-like of str, or {array-like, sparse matrix} of shape (n_samples, n_features)
            Texts or features.
        y : array-like
            Labels, as for `fit`.
        history : tuple (X, y), default=None
            The examples that the model has learned from so far, without the new ones.
        classes : iterable of labels, default=None
            Names of the columns of a 0/1 matrix, or labels of later calls.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.

        Returns
        -------
        self : RembrandtClassifier
        """
        check_is_fitted(self, "model_")
        Y, names = joined_labels(y, classes, self.classes_)
        old = None
        if history is not None:
            truth = read_targets(history[1], self.classes_ if is_matrix(history[1]) else None)
            old = as_rows(self.rows(history[0])), truth.Y, truth.classes, None
        with bars(self.verbose > 0) as report:
            return self._update(as_rows(self.rows(X)), Y, names, sample_weight, report, old)

    def update_dataset(
        self, data: Dataset, report: Report = silent, history: Dataset | None = None
    ) -> Self:
        """Add the examples of a dataset, as `update` does.

        Parameters
        ----------
        data : Dataset
            Examples, as `rembrandt.read` returns them.
        report : callable, default=silent
            Receives the progress.
        history : Dataset, default=None
            The examples that the model has learned from so far, without the new ones.

        Returns
        -------
        self : RembrandtClassifier
        """
        check_is_fitted(self, "model_")
        used = np.flatnonzero(np.bincount(data.Y.indices, minlength=data.n_labels))
        given = [data.label_names[i] for i in used]
        Y, names = joined_labels(data.Y[:, used], named_like(given, self.classes_), self.classes_)
        old = None
        if history is not None:
            labels = as_labels(named_like(history.label_names, self.classes_))
            old = as_rows(self.dataset_rows(history, report)), history.Y, labels, history.weights
        self._update(as_rows(self.dataset_rows(data, report)), Y, names, data.weights, report, old)
        if not data.label_titles:
            return self
        known, described = self.label_names_, self.label_descriptions_
        own = {
            label: (known.get(label, ""), described.get(label, "")) for label in known | described
        }
        return self.name_labels({**own, **data.label_titles})

    def _update(
        self,
        X: Rows,
        Y: sparse.csr_array,
        names: Array,
        sample_weight: Any,
        report: Report,
        old: Any = None,
    ) -> Self:
        """Update the model; ``old`` are the rows, the labels, their names and the weights of
        earlier examples.
        """
        model = self.model_
        more = self._examples(X, Targets(Y, names, model.multiclass), sample_weight)
        if more.multiclass and np.diff(Y.indptr).max(initial=0) > 1:
            raise DataError(
                "an example has several labels, but the model was fitted to one label a row"
            )
        history = None
        if old is not None:
            rows, labels, classes, weights = old
            index = LabelIndex([*model.classes.tolist(), *names.tolist()])
            known = move_columns(labels, index.columns(classes.tolist()), Y.shape[1])
            history = self._examples(rows, Targets(known, names, model.multiclass), weights)
        self.model_ = update_model(model, more.X, more.Y, names, more.weights, report, history)
        if due := refit_due(self.model_):
            warnings.warn(due, RembrandtWarning, stacklevel=3)
        return self
