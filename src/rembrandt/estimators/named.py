"""Names of labels that are identifiers, and predictions by name."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Self

from sklearn.utils.validation import check_is_fitted

from rembrandt.data.labels import Title, check_titles, titles_of
from rembrandt.estimators.inputs import index_of
from rembrandt.estimators.prediction import Prediction
from rembrandt.estimators.predictions import Predictions
from rembrandt.model.description import describe
from rembrandt.predict import answer


class NamedPrediction(Prediction):
    """Methods of `RembrandtClassifier` for the names of labels."""

    selection_: list[dict[str, Any]]
    extra_: dict[str, Any]

    def set_label_names(self, label_names: Mapping[Any, Title] | Iterable[Title]) -> Self:
        """Set the names that are shown for labels that are identifiers.

        Parameters
        ----------
        label_names : mapping of labels to names, or iterable of names
            Names by label, or one for each of ``classes_``: strings, or tuples of a name and a
            description. Labels that are not in a mapping are shown as they are.

        Returns
        -------
        self : RembrandtClassifier
        """
        check_is_fitted(self, "model_")
        if isinstance(label_names, Mapping):
            check_titles(label_names, self.classes_.tolist())
        return self.name_labels(label_names)

    def name_labels(self, names: Mapping[Any, Title] | Iterable[Title]) -> Self:
        """As `set_label_names`, where it may be that no label has a name."""
        titles, descriptions = titles_of(self.classes_.tolist(), names)
        self.model_ = replace(self.model_, titles=titles, descriptions=descriptions)
        return self

    @property
    def label_names_(self) -> dict[Any, str]:
        return self._given(self.model_.titles)

    @property
    def label_descriptions_(self) -> dict[Any, str]:
        return self._given(self.model_.descriptions)

    def _given(self, texts: list[str] | None) -> dict[Any, str]:
        return {
            label: text
            for label, text in zip(self.classes_.tolist(), texts or (), strict=False)
            if text
        }

    def describe(self) -> dict[str, Any]:
        """Describe the fitted model: training data, what was chosen and why, quality, size of its
        parts, use.

        Returns
        -------
        dict
            JSON values; sections have ``words``, a sentence for people. The command is ``rembrandt
            info``.
        """
        check_is_fitted(self, "model_")
        return dict(describe(self.model_, self.selection_, self.extra_))

    def predict_labels(
        self, X: Any, k: int | None = None, min_probability: float | None = None
    ) -> Any:
        """Predict the labels of each row by name: those that `predict` gives, best first.

        Parameters
        ----------
        X : array-like of str, or {array-like, sparse matrix} of shape (n_samples, n_features)
            Texts or features, as given to `fit`.
        k : int, default=None
            Largest number of labels of a row; None for all that are predicted.
        min_probability : float, default=None
            Probability from which a label is predicted, instead of the threshold of the model.

        Returns
        -------
        list of lists, or Series of lists with the index of X
            Names of labels, where they have names, else labels. A text without a known word has
            none.
        """
        request = self._default_request(self.rows(X))
        if min_probability is not None:
            request = replace(request, k=None, threshold=min_probability)
        if k is not None:
            request = replace(request, k=k)
        labels = answer(self.device_model(), request).labels
        index = self.model_.labels
        shown = self.classes_.tolist()
        if index.titles is not None:
            shown = [title or label for title, label in zip(index.titles, shown, strict=True)]
        found = [[shown[i] for i in row if i >= 0] for row in labels.tolist()]
        if index_of(X) is None:
            return found
        import pandas as pd

        return pd.Series(found, index=index_of(X), dtype=object)

    def predict_frame(
        self,
        X: Any,
        k: int = 5,
        include: Iterable[Any] | None = None,
        exclude: Iterable[Any] | None = None,
    ) -> Any:
        """Predict the ``k`` best labels of each row as a pandas data frame with a row for each
        label.

        Parameters
        ----------
        X : array-like of str, or {array-like, sparse matrix} of shape (n_samples, n_features)
            Texts or features, as given to `fit`.
        k : int, default=5
            Number of labels.
        include, exclude : iterable of labels, default=None
            As in `predict_topk`.

        Returns
        -------
        DataFrame
            Columns ``label``, ``name``, ``probability`` and ``rank``, with the index of X or the
            number of the row.
        """
        import pandas as pd

        labels, probabilities = self.top_columns(X, k, include, exclude)
        index = pd.RangeIndex(len(labels)) if index_of(X) is None else index_of(X)
        columns = Predictions(range(len(labels)), labels, probabilities, self.model_.labels).long()
        columns["label"] = self.classes_[labels[labels >= 0]]
        return pd.DataFrame(columns, index=index.take(columns.pop("id")))
