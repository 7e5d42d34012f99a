"""Predictions of a fitted classifier, by the names of the labels."""

import warnings
from collections.abc import Iterable
from dataclasses import replace
from operator import attrgetter
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from rembrandt.checks import check_number, check_whole
from rembrandt.data import Dataset
from rembrandt.data.arrays import move_columns
from rembrandt.data.targets import is_matrix, read_targets
from rembrandt.engines.place import CPU, is_dask, place_for
from rembrandt.errors import DataError, RembrandtWarning, SettingsError
from rembrandt.estimators.base import Estimator
from rembrandt.estimators.inputs import check_input
from rembrandt.features.joined import is_blocks
from rembrandt.features.text import is_text
from rembrandt.metrics import f1_scores, row_terms
from rembrandt.model.model import Model
from rembrandt.predict import Request, all_probabilities, answer, indicator, log_odds
from rembrandt.progress import Report, bars, silent

Array = NDArray[Any]
Tail = bool | tuple[float, float]
DEFAULT_TAIL = (0.55, 1.5)  # A and B of the propensities of most sets of the Repository


class Prediction(ClassifierMixin, Estimator):
    """Prediction methods of `RembrandtClassifier`."""

    model_: Model
    device: str
    verbose: int
    _dense_target: Any
    _on_device: Any

    def predict(self, X: Any) -> Any:
        """Predict the class of each row or, with several labels a row, those whose probability
        reaches the threshold.

        Parameters
        ----------
        X : array-like of str, or {array-like, sparse matrix} of shape (n_samples, n_features)
            Texts or features, as given to `fit`.

        Returns
        -------
        ndarray of shape (n_samples,) or sparse array of shape (n_samples, n_labels)
            Classes, None for a text without a known word; or a 0/1 matrix, dense where `fit` was
            given a dense one.
        """
        model = self.device_model()
        labels = self.predicted_columns(self.rows(X))
        if not model.multiclass:
            matrix = indicator(labels, model.n_labels)
            if self._dense_target is None:
                return matrix
            return matrix.toarray().astype(self._dense_target)
        first = labels[:, 0] if labels.shape[1] else np.full(len(labels), -1)
        n_blank = int((first < 0).sum())
        if n_blank == 0:
            return self.classes_[first]
        message = (
            f"{n_blank:,} of {len(first):,} texts have no word of the model and get no label: None"
        )
        warnings.warn(RembrandtWarning(message), stacklevel=2)
        return np.array([*self.classes_.tolist(), None], dtype=object)[first]

    def predicted_columns(self, rows: Any) -> NDArray[np.int64]:
        """Return the columns that `predict` predicts for rows of features; -1 after the last."""
        return answer(self.device_model(), self._default_request(rows)).labels

    def _default_request(self, rows: Any) -> Request:
        """Return what `predict` asks: the first label, or all that reach the threshold."""
        if self.model_.multiclass:
            return Request(rows, k=1)
        return Request(rows, threshold=self.model_.threshold)

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
            Rank by probability × inverse propensity, which is then the score: rare labels come
            first where they are nearly as likely as common ones. A pair sets the constants (A, B)
            of the propensities, (0.55, 1.5) by default.
        shortlist : int or bool, default=False
            Number of labels that are scored for each row, from the most promising clusters of
            labels; True scores one in forty, at least 1,000. Much faster from 100,000 labels on; a
            label of the best ``k`` may be missed.

        Returns
        -------
        labels : ndarray of shape (n_samples, k)
            Labels, best first; at most as many columns as there are labels. A text without a known
            word has no labels: None in all columns.
        scores : ndarray of shape (n_samples, k)
            Their probabilities; 0 where there is no label.
        """
        if k < 1:
            raise SettingsError(f"k={k} must be at least 1", "k")
        columns, scores = self.top_columns(X, k, include, exclude, tail, shortlist)
        labels = np.array([*self.classes_.tolist(), None], dtype=object)[columns]
        if (columns < 0).any():
            return labels, scores
        return labels.astype(self.classes_.dtype), scores

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
        rows = self.rows(X)
        with bars(self.verbose > 0) as report:
            model = self.device_model(shortlist, report)
            allowed = self.allowed_columns(include, exclude)
            request = Request(rows, k, allowed=allowed, tail=tail_constants(tail))
            ranked = answer(model, request, report)
        n_allowed = model.n_labels if allowed is None else len(allowed)
        columns = np.full((len(ranked.labels), min(k, n_allowed)), -1, dtype=np.int64)
        scores = np.zeros(columns.shape, dtype=np.float32)
        width = ranked.labels.shape[1]
        columns[:, :width] = ranked.labels
        scores[:, :width] = ranked.probabilities if ranked.weighted is None else ranked.weighted
        return columns, scores

    def build_shortlist(self, report: Report = silent) -> Self:
        """Cluster the labels for ``predict_topk(shortlist=...)``, which otherwise does so on first
        use.

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
            Log-odds of what `predict_proba` returns; for two classes (n_samples,), those of the
            second.
        """
        scores = log_odds(self.predict_proba(X))
        if self.model_.multiclass and scores.shape[1] == 2:
            return scores[:, 1]
        return scores

    def predict_proba(self, X: Any) -> Array:
        """Compute the probabilities of all labels.

        Parameters
        ----------
        X : array-like of str, or {array-like, sparse matrix} of shape (n_samples, n_features)
            Texts or features, as given to `fit`.

        Returns
        -------
        ndarray of shape (n_samples, n_labels)
            Probabilities; with one label a row they sum to one. Those of a text without a known
            word are zero.
        """
        rows = self.rows(X)
        with bars(self.verbose > 0) as report:
            return all_probabilities(self.device_model(), rows, report)

    def score(self, X: Any, y: Any, sample_weight: Any = None, measure: str = "auto") -> float:
        """Return a measure of the predictions.

        Parameters
        ----------
        X : array-like of str, or {array-like, sparse matrix} of shape (n_samples, n_features)
            Texts or features, as given to `fit`.
        y : array-like
            True labels, as given to `fit`; the columns of a matrix are those of ``classes_``.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows; for "micro_f1" and "macro_f1" it must be None.
        measure : str, default="auto"
            "p@k", "r@k", "f1@k", "ndcg@k" or "psp@k" with any number k, "micro_f1" or "macro_f1" of
            the labels that reach the threshold. "auto" is the accuracy or, with several labels a
            row, "p@1".

        Returns
        -------
        float
        """
        truth, missing = self.truth(y)
        if measure in ("micro_f1", "macro_f1"):
            if sample_weight is not None:
                raise SettingsError(f"{measure} has no weights; leave sample_weight out", "measure")
            predicted = self.predicted_columns(self.rows(X))
            return f1_scores(truth, predicted, missing)[measure]
        name, _, k = ("p@1" if measure == "auto" else measure).partition("@")
        if name not in ("p", "r", "f1", "ndcg", "psp") or not k.isdecimal() or int(k) < 1:
            known = "p@k, r@k, f1@k, ndcg@k, psp@k, micro_f1, macro_f1"
            raise SettingsError(f"measure={measure!r} is not one of {known}", "measure")
        ranked, _ = self.top_columns(X, int(k))
        counts = self.label_counts_
        terms = row_terms(
            truth, ranked, counts, self.n_train_, ks=(int(k),), missing_labels=missing
        )[f"{name}@{k}"]
        weights = 1.0 if sample_weight is None else np.asarray(sample_weight)
        above, below = (float((side * weights).sum()) for side in terms)
        return above / below if below else 0.0

    def truth(self, y: Any) -> tuple[sparse.csr_array, NDArray[np.int64]]:
        """Return true labels over the columns of the model, and how many of each row have no
        column.
        """
        targets = read_targets(y, self.classes_ if is_matrix(y) else None)
        columns = self.model_.labels.columns(targets.classes.tolist())
        Y = move_columns(targets.Y, columns, self.model_.n_labels)
        return Y, np.diff(targets.Y.indptr).astype(np.int64) - np.diff(Y.indptr)

    classes_ = property(attrgetter("model_.classes"))
    text_ = property(attrgetter("model_.text"))
    joined_ = property(attrgetter("model_.joined"))
    settings_ = property(attrgetter("model_.settings"))
    label_counts_ = property(attrgetter("model_.label_counts"))
    n_train_ = property(attrgetter("model_.n_train"))

    @property
    def embedding_(self) -> Array:
        return self.model_.label_vectors[0]

    @property
    def singular_values_(self) -> Array:
        return self.model_.label_vectors[1]

    @property
    def n_iter_(self) -> int:
        return int(self.settings_.get("iterations", 1))

    def device_model(self, shortlist: int | bool = False, report: Report = silent) -> Model:
        """Return the model on the device of prediction; the copy on a device is kept for the next
        call.
        """
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

    def __getstate__(self) -> dict[str, Any]:
        return {
            name: value for name, value in super().__getstate__().items() if name != "_on_device"
        }

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_label = True
        return tags

    def rows(self, X: Any) -> Any:
        """Turn texts or features into the validated feature matrix of the model."""
        check_is_fitted(self, "model_")
        check_input(X)
        text = self.model_.text
        if is_text(X):
            if text is None:
                raise DataError(
                    "the model was fitted to features, not to texts; give a matrix of features"
                )
            X = text.transform(X)
        elif text is not None and is_blocks(X):
            X = tuple(text.transform(x) if is_text(x) else x for x in X)
        return self._matrix(X)

    def dataset_rows(self, data: Dataset, report: Report = silent) -> Any:
        """Return the features of a dataset, or those of its texts."""
        if (self.joined_ is None) != (data.vectors is None):
            found = "with vectors" if self.joined_ is not None else "without vectors"
            raise DataError(
                f"the model was fitted {found}; give the same kind of examples", parameter="vectors"
            )
        if self.joined_ is not None:
            return self.rows(data.inputs)
        return (
            data.X
            if self.text_ is None or data.texts is None
            else self.text_.transform(data.texts, report)
        )

    def columns(self, labels: Iterable[Any]) -> NDArray[np.int64]:
        """Return the columns of labels; refuse one that the model does not know."""
        wanted = [label.item() if isinstance(label, np.generic) else label for label in labels]
        found = self.model_.labels.columns(wanted)
        if (found < 0).any():
            unknown = wanted[int(np.flatnonzero(found < 0)[0])]
            raise DataError(
                f"label {unknown!r} is not one of the {self.model_.n_labels:,} of this model; see "
                "classes_"
            )
        return found

    def allowed_columns(
        self, include: Iterable[Any] | None, exclude: Iterable[Any] | None
    ) -> NDArray[np.int64] | None:
        """Return the columns that may be predicted, None for all."""
        if include is None and exclude is None:
            return None
        allowed = np.zeros(self.model_.n_labels, dtype=bool)
        allowed[slice(None) if include is None else self.columns(include)] = True
        allowed[self.columns(() if exclude is None else exclude)] = False
        return np.flatnonzero(allowed)


def tail_constants(tail: Tail) -> tuple[float, float] | None:
    """Return the constants of the propensities, where labels are ranked for the tail."""
    if isinstance(tail, bool):
        return DEFAULT_TAIL if tail else None
    if not isinstance(tail, tuple | list) or len(tail) != 2:
        raise SettingsError(
            f"tail={tail!r} must be True, False or a pair of numbers (A, B)", "tail"
        )
    check_number("tail", tail[0], 0.0)
    check_number("tail", tail[1], 0.0, above=True)
    return float(tail[0]), float(tail[1])
