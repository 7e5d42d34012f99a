"""Predictions of a fitted classifier, by the names of the labels."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from rembrandt.checks import check_number, check_whole
from rembrandt.data import Dataset
from rembrandt.data.targets import read_targets
from rembrandt.engines.place import CPU, is_dask, place_for
from rembrandt.errors import DataError, SettingsError
from rembrandt.estimators.base import Estimator
from rembrandt.features.joined import Joined, is_blocks
from rembrandt.features.text import TextFeatures, is_text
from rembrandt.metrics import precision_at_k
from rembrandt.model.model import Model
from rembrandt.progress import Report, bars, silent

Array = NDArray[Any]
Tail = bool | tuple[float, float]


class Prediction(ClassifierMixin, Estimator):
    """Prediction methods of `RembrandtClassifier`."""

    model_: Model
    device: str
    verbose: int
    _dense_target: Any
    _on_device: Any

    def predict(self, X: Any) -> Any:
        """Predict the class of each row or, with several labels a row, those whose probability reaches the threshold.

        Parameters
        ----------
        X : array-like of str, or {array-like, sparse matrix} of shape (n_samples, n_features)
            Texts or features, as given to `fit`.

        Returns
        -------
        ndarray of shape (n_samples,) or sparse array of shape (n_samples, n_labels)
            Classes; or a 0/1 matrix, dense where `fit` was given a dense one.
        """
        X = self.rows(X)
        if self.model_.multiclass:
            return self.classes_[self.device_model().top_k(X, 1)[0][:, 0]]
        labels = self.device_model().label_sets(X)
        return labels if self._dense_target is None else labels.toarray().astype(self._dense_target)

    def predict_topk(
        self,
        X: Any,
        k: int = 5,
        include: Iterable[Any] | None = None,
        exclude: Iterable[Any] | None = None,
        tail: Tail = False,
        shortlist: int | bool = False,
    ) -> tuple[Array, Array]:
        """Predict the ``k`` best labels of each row.

        Parameters
        ----------
        X : array-like of str, or {array-like, sparse matrix} of shape (n_samples, n_features)
            Texts or features, as given to `fit`.
        k : int, default=5
            Number of labels.
        include : iterable of labels, default=None
            Predict only these labels.
        exclude : iterable of labels, default=None
            Never predict these labels.
        tail : bool or (float, float), default=False
            Rank by probability × inverse propensity, which is then the score: rare labels come first where they are
            nearly as likely as common ones. A pair sets the constants (A, B) of the propensities, (0.55, 1.5) by
            default.
        shortlist : int or bool, default=False
            Number of labels that are scored for each row, from the most promising clusters of labels; True scores one
            in forty, at least 1,000. Much faster from 100,000 labels on; a label of the best ``k`` may be missed.

        Returns
        -------
        labels : ndarray of shape (n_samples, k)
            Labels, best first; None where fewer than ``k`` labels remain.
        scores : ndarray of shape (n_samples, k)
            Their probabilities; 0 where there is no label.
        """
        if k < 1:
            raise SettingsError(f"k={k} must be at least 1", "k")
        found, scores = self.top_columns(X, k, include, exclude, tail, shortlist)
        labels = np.array([*self.classes_.tolist(), None], dtype=object)[found]
        return labels if (found < 0).any() else labels.astype(self.classes_.dtype), scores

    def top_columns(
        self,
        X: Any,
        k: int,
        include: Iterable[Any] | None = None,
        exclude: Iterable[Any] | None = None,
        tail: Tail = False,
        shortlist: int | bool = False,
    ) -> tuple[NDArray[np.int64], Array]:
        """As `predict_topk`, with labels as columns; -1 where there is none."""
        X = self.rows(X)
        with bars(self.verbose > 0) as report:
            model = self.device_model(shortlist, report)
            return model.top_k(X, k, self._allowed(include, exclude), _worth(model, tail), report)

    def build_shortlist(self, report: Report = silent) -> Self:
        """Cluster the labels for ``predict_topk(shortlist=...)``, which otherwise does so on first use.

        It takes seconds for 200,000 labels. A saved model keeps the clusters, 4 bytes a label.

        Returns
        -------
        self : RembrandtClassifier
        """
        check_is_fitted(self)
        if self.model_.embedding is not None and self.model_.embedding.index is None:
            scorer = replace(self.model_.embedding.with_shortlist(True, report), shortlist=None)
            self.model_ = replace(self.model_, scorers=self.model_.scorers | {"embedding": scorer})
        return self

    def decision_function(self, X: Any) -> Array:
        """Compute the log-odds of all labels.

        Parameters
        ----------
        X : array-like of str, or {array-like, sparse matrix} of shape (n_samples, n_features)
            Texts or features, as given to `fit`.

        Returns
        -------
        ndarray of shape (n_samples, n_labels)
            Log-odds; for two classes (n_samples,), those of the second minus those of the first.
        """
        scores = self.device_model().log_odds(self.rows(X))
        return scores[:, 1] - scores[:, 0] if self.model_.multiclass and scores.shape[1] == 2 else scores

    def predict_proba(self, X: Any) -> Array:
        """Compute the probabilities of all labels.

        Parameters
        ----------
        X : array-like of str, or {array-like, sparse matrix} of shape (n_samples, n_features)
            Texts or features, as given to `fit`.

        Returns
        -------
        ndarray of shape (n_samples, n_labels)
            Probabilities; with one label a row they sum to one.
        """
        return self.device_model().probabilities(self.rows(X))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy or, with several labels a row, the precision of the best label.

        Parameters
        ----------
        X : array-like of str, or {array-like, sparse matrix} of shape (n_samples, n_features)
            Texts or features, as given to `fit`.
        y : array-like
            True labels, as given to `fit`.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows; used with one label a row.

        Returns
        -------
        float
        """
        if self.model_.multiclass:
            return float(super().score(X, y, sample_weight))
        targets = read_targets(y)
        columns = self.model_.labels.columns(targets.classes.tolist())[targets.Y.indices]
        rows = np.repeat(np.arange(targets.Y.shape[0]), np.diff(targets.Y.indptr))
        known = columns >= 0  # labels that the fit never saw have no column and are never found
        entries = (np.ones(int(known.sum()), np.float32), (rows[known], columns[known]))
        truth = sparse.csr_array(entries, shape=(targets.Y.shape[0], self.model_.n_labels))
        return float(precision_at_k(truth, self.top_columns(X, 1)[0], 1))

    @property
    def classes_(self) -> Array:
        return self.model_.classes

    @property
    def text_(self) -> TextFeatures | None:
        return self.model_.text

    @property
    def joined_(self) -> Joined | None:
        return self.model_.joined

    @property
    def embedding_(self) -> Array:
        return self.model_.label_vectors[0]

    @property
    def singular_values_(self) -> Array:
        return self.model_.label_vectors[1]

    @property
    def settings_(self) -> dict[str, Any]:
        return self.model_.settings

    @property
    def n_iter_(self) -> int:
        return int(self.settings_.get("iterations", 1))

    @property
    def label_counts_(self) -> Array:
        return self.model_.label_counts

    @property
    def n_train_(self) -> int:
        return self.model_.n_train

    def device_model(self, shortlist: int | bool = False, report: Report = silent) -> Model:
        """Return the model on the device of prediction; the copy on a device is kept for the next call."""
        check_is_fitted(self, "model_")
        if shortlist is not False and shortlist is not True:
            check_whole("shortlist", shortlist, 1)
        if shortlist is not False:
            self.build_shortlist(report)
        place, model = CPU if is_dask(self.device) else place_for(self.device), self.model_
        if place != CPU:
            known = getattr(self, "_on_device", None)
            if known is None or known[0] is not self.model_ or known[1] != self.device:
                known = self._on_device = self.model_, self.device, self.model_.on(place)
            model = known[2]
        return model if shortlist is False else model.with_shortlist(shortlist)

    def rows(self, X: Any) -> Any:
        """Turn texts or features into the validated feature matrix of the model."""
        check_is_fitted(self, "model_")
        text = self.model_.text
        if text is not None and is_text(X):
            X = text.transform(X)
        if text is not None and is_blocks(X):
            X = tuple(text.transform(x) if is_text(x) else x for x in X)
        return self._matrix(X)

    def dataset_rows(self, data: Dataset, report: Report = silent) -> Any:
        """Return the features of a dataset, or those of its texts."""
        if self.joined_ is not None and data.X is None:
            raise DataError("the model was fitted to texts with other features, which a file of texts does not have")
        return data.X if self.text_ is None or data.texts is None else self.text_.transform(data.texts, report)

    def columns(self, labels: Iterable[Any]) -> NDArray[np.int64]:
        """Return the columns of labels; refuse one that the model does not know."""
        wanted = [label.item() if isinstance(label, np.generic) else label for label in labels]
        found = self.model_.labels.columns(wanted)
        if (found < 0).any():
            unknown = wanted[int(np.flatnonzero(found < 0)[0])]
            raise DataError(f"label {unknown!r} is not one of the {self.model_.n_labels:,} of this model; see classes_")
        return found

    def _allowed(self, include: Iterable[Any] | None, exclude: Iterable[Any] | None) -> NDArray[np.int64] | None:
        if include is None and exclude is None:
            return None
        allowed = np.zeros(self.model_.n_labels, dtype=bool)
        allowed[slice(None) if include is None else self.columns(include)] = True
        allowed[self.columns(() if exclude is None else exclude)] = False
        return np.flatnonzero(allowed)


def _worth(model: Model, tail: Tail) -> Array | None:
    """Return what a hit on each label counts, where it matters."""
    if isinstance(tail, bool):
        return model.worth() if tail else None
    if not isinstance(tail, tuple | list) or len(tail) != 2:
        raise SettingsError(f"tail={tail!r} must be True, False or a pair of numbers (A, B)", "tail")
    check_number("tail", tail[0], 0.0)
    check_number("tail", tail[1], 0.0, above=True)
    return model.worth(*map(float, tail))
