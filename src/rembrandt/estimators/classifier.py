"""The whole pipeline as a scikit-learn classifier: texts or features in, labels out."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from scipy import sparse

from rembrandt.checks import check_number, check_whole
from rembrandt.data import Dataset
from rembrandt.data.arrays import move_columns
from rembrandt.data.examples import Examples, numbered
from rembrandt.data.hierarchy import Parents
from rembrandt.data.labels import LabelIndex, Title, as_labels, check_titles, titles_of
from rembrandt.data.ordering import in_canonical_order
from rembrandt.data.rows import array_digest, as_rows, is_rows
from rembrandt.data.targets import (
    Targets,
    frame_labels,
    is_matrix,
    joined_labels,
    named_like,
    named_targets,
    read_targets,
)
from rembrandt.data.views import Views, as_texts, check_blocks, is_blocks
from rembrandt.declarations import ModelSettings, PartName, Threshold, as_json
from rembrandt.engines.backend import backend_for
from rembrandt.errors import DataError, RembrandtWarning, SettingsError, kind_of
from rembrandt.estimators.base import Estimator, dataset_targets
from rembrandt.estimators.inputs import as_input, index_of, read_once
from rembrandt.estimators.predictions import Predictions
from rembrandt.estimators.requests import (
    SET_MEASURES,
    Tail,
    checked_hierarchy,
    dataset_rows,
    default_request,
    feature_names,
    hierarchy_of,
    label_columns,
    name_labels,
    predicted_columns,
    prediction_model,
    reranked_columns,
    rows_of,
    set_measures,
    top_columns,
    true_labels,
    vector_block,
)
from rembrandt.estimators.saving import save_classifier
from rembrandt.explanations.explain import explain_labels
from rembrandt.explanations.explanation import Explanation
from rembrandt.features.text import NewTerms, TextFeatures, is_text
from rembrandt.fitting import fit_model
from rembrandt.linalg import Array
from rembrandt.metrics import row_terms
from rembrandt.model.description import describe
from rembrandt.model.model import Model
from rembrandt.parts.allowance import ALLOWANCES
from rembrandt.parts.embedding.fit import n_random_features
from rembrandt.parts.embedding.rank import warn_if_fewer
from rembrandt.parts.embedding.settings import (
    DecoderName,
    EmbeddingSettings,
    KernelName,
    Method,
)
from rembrandt.parts.trees.settings import TreeSettings
from rembrandt.planning import fixed_settings, max_trial_seconds, resolve
from rembrandt.predict import all_probabilities, answer, indicator
from rembrandt.probabilities import log_odds
from rembrandt.progress import Report, bars, silent
from rembrandt.reranking import Reranker
from rembrandt.scikit import ClassifierMixin, available_if, check_is_fitted
from rembrandt.search import SearchResult, Watch, search, unwatched
from rembrandt.settings import Preset
from rembrandt.storage.checkpoints import NO_CHECKPOINTS, Checkpoints, checkpoints_in, fingerprint
from rembrandt.updating import (
    NO_NEW_TERMS,
    add_labels,
    refit_due,
    unlike_history,
    update_model,
    with_new_terms,
)

# Megabytes kept for updates above which a fit warns.
LARGE_MEGABYTES = 10


def _can_update(self: "RembrandtClassifier") -> bool:
    """Whether `partial_fit` is available, by the parameters alone; raises with the reason where it
    is not.
    """
    is_possible = self.parts in ("auto", ("embedding",), "embedding")
    if not is_possible or self.decoder not in ("auto", "ridge"):
        raise SettingsError(
            "partial_fit needs parts=('embedding',) and decoder='ridge'; fit, and then update",
            "decoder",
        )
    return True


class RembrandtClassifier(ClassifierMixin, Estimator):
    """Predict one or many of a large number of labels.

    A model has one or more parts: the label embedding with its decoder, trees of sparse linear
    classifiers, label centroids, and names of labels that are matched against the texts. A blend,
    learned on held-out training examples, turns their scores into probabilities. Whatever is "auto"
    follows from the preset and the data.

    Parameters
    ----------
    preset : {"fast", "balanced", "best"}, default="balanced"
        Trade training time for accuracy. A preset is an allowance for the work of a fit: how many
        trees, and how much the embedding may cost next to them. "best" also tries other settings on
        held-out examples.
    parts : "auto" or tuple of {"trees", "centroids", "embedding", "names"}, default="auto"
        The parts of the model; "auto" has those that the preset allows, and names where the names
        of labels, or labels that are words, occur in the texts.
    n_components : int or "auto", default="auto"
        Rank of the embedding; "auto" is that of the preset, or all directions where there are
        fewer.
    method : {"rembrandt", "pca", "plst", "cs", "cca"}, default="rembrandt"
        Method of the embedding, as in `LabelEmbedder`.
    ridge : float or "auto", default="auto"
        Strength of the regression behind the embedding, relative to the mean squared length of a
        feature.
    decoder : {"transpose", "ridge", "discriminant", "logistic", "candidates", "auto"},
    default="auto"
        From the embedding to scores: its transpose, least squares, linear discriminant analysis,
        softmax or independent logistic regression over all labels, or logistic regression over the
        labels that other parts list.
    decoder_ridge : float or "auto", default="auto"
        Penalty of the decoder, relative to the mean squared length of a mapped example; for
        "logistic" of an example with whitened features. A linear "ridge" decoder hardly needs one.
    kernel : {"gaussian", "laplacian", "matern3", "matern5", "auto"} or None, default="auto"
        Kernel of the decoder, by random Fourier features.
    normalize : bool or "auto", default="auto"
        Scale rows to unit length before they are embedded.
    embedding : EmbeddingSettings, default=None
        Rarely used settings of the embedding and its decoder. What is not set in it has the value
        of the preset, so ``EmbeddingSettings()`` is the same as None.
    trees : TreeSettings, default=None
        Settings of the trees; what is not set has the value of the preset.
    encoder : str, EncoderSettings or object with encode, default=None
        A pretrained encoder that reads the texts too: the folder or the name of a network, settings
        with that name, or an object with ``encode(list of str)``. On a GPU it is fine-tuned, on the
        CPU its vectors are used as they are.
    text : TextFeatures, default=None
        How texts become features; ``TextFeatures()`` by default.
    growable : bool, default=False
        Keep what exact updates need: 4 D² bytes for D mapped features (4 MB for 1,000, 64 MB for
        4,000). The model then has the embedding alone, with a ridge decoder. Other models are
        updated too; see `update`.
    threshold : float, "micro" or "macro", default="micro"
        Smallest probability of a label that `predict` returns, where rows have several. "micro" and
        "macro" choose it on held-out examples for the best F1, of all labels together or of each
        label.
    budget : float, default=None
        Seconds to try other settings than those of the preset. The fit comes after the search.
    random_state : int, RandomState instance or None, default=None
        Seed of everything that is random.
    device : str, default="cpu"
        Where to fit and predict, as in `LabelEmbedder`; for stores also "dask" or
        "dask:tcp://host:port". The model does not depend on where it was fitted.
    verbose : int, default=0
        Show progress when positive.

    Attributes
    ----------
    classes_ : ndarray of shape (n_labels,)
        Names of the labels.
    model_ : Model
        The fitted model.
    settings_ : dict
        The resolved settings: ``parts`` has those of each part by its name.
    facts_ : Facts
        How the model was fitted, and what it reached on held-out examples.
    threshold_ : float, ndarray or None
        Smallest probability of a label that `predict` returns; None where rows have one label.
    selection_ : list of dict
        Every other setting that was tried on held-out examples, with its precision.
    embedding_ : ndarray of shape (n_labels, rank)
        A vector for each label. A model without an embedding derives them from its label weights.
    singular_values_ : ndarray of shape (rank,)
        Strength of each direction of the embedding.
    text_ : TextFeatures or None
        The fitted text features.
    label_counts_ : ndarray of shape (n_labels,)
        Number of training examples of each label.
    n_train_ : int
        Number of training examples.
    n_iter_ : int
        Largest number of conjugate gradient iterations.
    n_features_in_ : int
        Number of features.
    feature_names_ : list of str or None
        Names of the features, where a file had them.
    label_names_, label_descriptions_ : dict
        Names of labels that are identifiers, and descriptions.
    extra_ : dict
        What was saved with the model.
    tallies_ : dict
        Passes over a store and bytes moved, by stage of the fit; empty for rows in memory.

    Examples
    --------
    >>> texts = ["red apple", "green apple", "red car", "fast car"] * 10
    >>> labels = [["fruit"], ["fruit"], ["vehicle"], ["vehicle"]] * 10
    >>> classifier = RembrandtClassifier(random_state=0).fit(texts, labels)
    >>> classifier.predict_topk(["apple"], k=1)[0].tolist()
    [['fruit']]
    """

    feature_names_: list[str] | None
    model_: Model
    selection_: list[dict[str, Any]]
    extra_: dict[str, Any]
    _dense_target: Any
    _on_device: Any
    _saved: tuple[str, str | None]  # where the model was loaded from or saved to, and its checksum

    def __init__(
        self,
        preset: Preset = "balanced",
        parts: Literal["auto"] | PartName | tuple[PartName, ...] = "auto",
        n_components: int | Literal["auto"] = "auto",
        method: Method = "rembrandt",
        ridge: float | Literal["auto"] = "auto",
        decoder: DecoderName | Literal["auto"] = "auto",
        decoder_ridge: float | Literal["auto"] = "auto",
        kernel: KernelName | Literal["auto"] | None = "auto",
        normalize: bool | Literal["auto"] = "auto",
        embedding: EmbeddingSettings | None = None,
        trees: TreeSettings | None = None,
        encoder: Any = None,
        text: TextFeatures | None = None,
        growable: bool = False,
        threshold: Threshold = "micro",
        budget: float | None = None,
        random_state: Any = None,
        device: str = "cpu",
        verbose: int = 0,
    ) -> None:
        self.preset = preset
        self.parts = parts
        self.n_components = n_components
        self.method = method
        self.ridge = ridge
        self.decoder = decoder
        self.decoder_ridge = decoder_ridge
        self.kernel = kernel
        self.normalize = normalize
        self.embedding = embedding
        self.trees = trees
        self.encoder = encoder
        self.text = text
        self.growable = growable
        self.threshold = threshold
        self.budget = budget
        self.random_state = random_state
        self.device = device
        self.verbose = verbose

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        checkpoint: str | Path | None = None,
        classes: Iterable[Any] | None = None,
        label_names: Mapping[Any, Title] | Iterable[Title] | None = None,
        groups: Any = None,
        times: Any = None,
        label_parents: Parents | None = None,
    ) -> Self:
        """Fit to texts or features and their labels.

        Parameters
        ----------
        X : array-like of str, {array-like, sparse matrix} of shape (n_samples, n_features) or tuple
            Texts or features; or a tuple of them and of vectors that stand beside them, for which
            the model gets a part of its own.
        y : array-like
            One class per row, a 0/1 matrix, or a list of labels for each row. The columns of a data
            frame of zeros and ones are the labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.
        checkpoint : str or Path, default=None
            Folder for finished stages. The same call continues an interrupted fit; the model is the
            same.
        classes : iterable of labels, default=None
            The labels of the columns of a 0/1 matrix, in their order; or labels that may not occur
            in ``y``.
        label_names : mapping of labels to names, or iterable of names, default=None
            Names that are shown for labels that are identifiers: strings, or tuples of a name, a
            description and other names. An iterable has one for each of ``classes_``.
        groups : array-like of shape (n_samples,), default=None
            Rows with the same value, such as the pages of a document, are held out together when
            settings are chosen.
        times : array-like of shape (n_samples,), default=None
            Numbers or dates: the latest rows are held out when settings are chosen, for models of
            what comes later.
        label_parents : mapping of labels to lists of labels, or str, default=None
            As in `set_label_parents`.

        Returns
        -------
        self : RembrandtClassifier
        """
        if groups is not None and times is not None:
            raise SettingsError(
                "groups and times both say which rows are held out; give one of them", "groups"
            )
        with bars(self.verbose > 0) as report, checkpoints_in(checkpoint) as checkpoints:
            data, text = self._read(X, lambda: named_targets(y, classes), sample_weight, report)
            data = _with_held_out_columns(data, groups, times)
            if label_names is not None:
                if isinstance(label_names, Mapping):
                    check_titles(label_names, data.classes.tolist())
                data = _with_label_names(data, label_names)
            hierarchy = None
            if label_parents is not None:
                hierarchy = hierarchy_of(data.classes.tolist(), label_parents, label_names)
            self._fit(data, text, report, checkpoints)
        self.model_ = replace(self.model_, hierarchy=hierarchy)
        return self

    def fit_dataset(
        self,
        data: Dataset,
        report: Report = silent,
        checkpoint: str | Path | Checkpoints | None = None,
        watch: Watch = unwatched,
        settings: ModelSettings | None = None,
        groups: Any = None,
        times: Any = None,
    ) -> Self:
        """Fit to a dataset and keep the names of its labels and features.

        Parameters
        ----------
        data : Dataset
            Examples, as `rembrandt.read` returns them.
        report : callable, default=silent
            Receives the progress.
        checkpoint : str, Path or Checkpoints, default=None
            As in `fit`.
        watch : callable, default=unwatched
            Receives the progress of a search with a budget.
        settings : ModelSettings, default=None
            Use these settings, such as those of an earlier fit. No others are tried.
        groups, times : array-like of shape (n_samples,), default=None
            As in `fit`.

        Returns
        -------
        self : RembrandtClassifier
        """
        if not isinstance(data, Dataset):
            raise DataError(f"data is {kind_of(data)}; give what rembrandt.read returns")
        if groups is not None and times is not None:
            raise SettingsError(
                "groups and times both say which rows are held out; give one of them", "groups"
            )
        with checkpoints_in(checkpoint) as checkpoints:
            examples, text = self._read(
                data.inputs, lambda: dataset_targets(data), data.weights, report
            )
            examples = _with_held_out_columns(examples, groups, times)
            if data.label_names:
                examples = _with_label_names(examples, data.label_names)
            hierarchy = None
            if data.label_parents:
                hierarchy = hierarchy_of(data.label_ids, data.label_parents, data.label_names)
            self._fit(examples, text, report, checkpoints, watch, settings)
        self.model_ = replace(self.model_, hierarchy=hierarchy)
        self.feature_names_ = data.feature_names
        return self

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
        model = prediction_model(self)
        rows = rows_of(self, X)
        if model.multiclass or model.hierarchy is None:
            labels = predicted_columns(self, rows)
        else:
            request = default_request(self, rows, "closed")
            labels = answer(model, replace(request, allowed=np.arange(model.n_labels))).labels
        if not model.multiclass:
            matrix = indicator(labels, model.n_labels)
            if self._dense_target is None:
                return matrix
            return matrix.toarray().astype(self._dense_target)
        first = np.full(len(labels), -1)
        if labels.shape[1]:
            first = labels[:, 0]
        n_blank = int((first < 0).sum())
        if n_blank == 0:
            return self.classes_[first]
        message = (
            f"{n_blank:,} of {len(first):,} texts have no word of the model and get no label: None"
        )
        warnings.warn(RembrandtWarning(message), stacklevel=2)
        return np.array([*self.classes_.tolist(), None], dtype=object)[first]

    def predict_labels(
        self,
        X: Any,
        k: int | None = None,
        min_probability: float | None = None,
        hierarchy: str = "auto",
        reranker: Reranker | None = None,
    ) -> Any:
        """Predict the labels of each row by name: those that `predict` gives, best first.

        Parameters
        ----------
        X : array-like of str, or {array-like, sparse matrix} of shape (n_samples, n_features)
            Texts or features, as given to `fit`.
        k : int, default=None
            Largest number of labels of a row; None for all that are predicted.
        min_probability : float, default=None
            Smallest probability of a predicted label, instead of the threshold of the model.
        hierarchy : {"auto", "closed", "specific", "flat"}, default="auto"
            As in `predict_topk`; with one label a row "auto" is "flat".
        reranker : Reranker, default=None
            As in `predict_topk`; labels after those that it ranks are not predicted.

        Returns
        -------
        list of lists, or Series of lists with the index of X
            Names of labels, where they have names, else labels. A text without a known word has
            none.
        """
        if k is not None:
            check_whole("k", k, 1)
        if min_probability is not None:
            check_number("min_probability", min_probability, 0.0, most=1.0)
        mode = checked_hierarchy(self.model_, hierarchy)
        if hierarchy == "auto" and self.model_.multiclass:
            mode = "flat"
        request = default_request(self, rows_of(self, X), mode)
        if min_probability is not None:
            request = replace(request, k=None, threshold=min_probability)
        if k is not None:
            request = replace(request, k=k)
        if reranker is None:
            columns = answer(prediction_model(self), request).labels
        else:
            n_labels = reranker.n_labels
            columns, scores = reranked_columns(self, X, n_labels, reranker, hierarchy)
            reaching = scores >= np.broadcast_to(request.threshold, self.classes_.shape)[columns]
            columns = np.where(reaching, columns, -1)[:, : request.k]
        index = self.model_.nodes
        shown = index.names
        if index.titles is not None:
            shown = [title or label for title, label in zip(index.titles, shown, strict=True)]
        labels = [[shown[i] for i in row if i >= 0] for row in columns.tolist()]
        row_index = index_of(X)
        if row_index is None:
            return labels
        import pandas as pd

        return pd.Series(labels, index=row_index, dtype=object)

    def predict_topk(
        self,
        X: Any,
        k: int = 5,
        include: Iterable[Any] | None = None,
        exclude: Iterable[Any] | None = None,
        tail: Tail = False,
        shortlist: int | bool = False,
        hierarchy: str = "auto",
        branches: bool = False,
        reranker: Reranker | None = None,
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
        hierarchy : {"auto", "closed", "specific", "flat"}, default="auto"
            How the parents of labels count. "closed": a parent is at least as likely as each label
            below it, comes before it, and may be a group that is not a label. "specific": a label
            is left out where one below it is predicted. "flat": not at all. "auto" is "closed"
            where the model has parents of labels.
        branches : bool, default=False
            The labels in ``include`` and ``exclude`` stand for all labels below them, too.
        reranker : Reranker, default=None
            Ranks the first labels of each text again, by the scores of another model.

        Returns
        -------
        labels : ndarray of shape (n_samples, k)
            Labels, best first; at most as many columns as there are labels. A text without a known
            word has no labels: None in all columns.
        scores : ndarray of shape (n_samples, k)
            Their probabilities; 0 where there is no label.
        """
        check_whole("k", k, 1)
        with bars(self.verbose > 0) as report:
            options: dict[str, Any] = {
                "include": include,
                "exclude": exclude,
                "tail": tail,
                "shortlist": shortlist,
                "report": report,
                "hierarchy": hierarchy,
                "branches": branches,
            }
            if reranker is None:
                columns, scores = top_columns(self, rows_of(self, X), k, **options)
            else:
                columns, scores = reranked_columns(self, X, k, reranker, **options)
        labels = np.array([*self.model_.nodes.names, None], dtype=object)[columns]
        if (columns < 0).any() or (columns >= self.model_.n_labels).any():
            return labels, scores
        return labels.astype(self.classes_.dtype), scores

    def predict_frame(
        self,
        X: Any,
        k: int = 5,
        include: Iterable[Any] | None = None,
        exclude: Iterable[Any] | None = None,
        hierarchy: str = "auto",
        branches: bool = False,
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
        hierarchy : {"auto", "closed", "specific", "flat"}, default="auto"
            As in `predict_topk`.
        branches : bool, default=False
            As in `predict_topk`.

        Returns
        -------
        DataFrame
            Columns ``label``, ``name``, ``probability`` and ``rank``, with the index of X or the
            number of the row.
        """
        import pandas as pd

        rows = rows_of(self, X)
        labels, probabilities = top_columns(
            self, rows, k, include, exclude, hierarchy=hierarchy, branches=branches
        )
        index = index_of(X)
        if index is None:
            index = pd.RangeIndex(len(labels))
        nodes = self.model_.nodes
        columns = Predictions(range(len(labels)), labels, probabilities, nodes).long()
        columns["label"] = as_labels(nodes.names)[labels[labels >= 0]]
        return pd.DataFrame(columns, index=index.take(columns.pop("id")))

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
            word are zero. Where the model has parents of labels, a parent is at least as likely as
            each label below it.
        """
        rows = rows_of(self, X)
        model = prediction_model(self)
        with bars(self.verbose > 0) as report:
            return all_probabilities(model, rows, report, checked_hierarchy(model, "auto"))

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

    def explain(
        self, X: Any, labels: Iterable[Any] | None = None, k: int = 5
    ) -> list[list[Explanation]]:
        """Explain the log-odds of labels: what every feature of a row adds to them, exactly.

        Parameters
        ----------
        X : array-like of str, or {array-like, sparse matrix} of shape (n_samples, n_features)
            Texts or features, as given to `fit`.
        labels : iterable of labels, default=None
            The labels to explain, the same for every row. By default the ``k`` best of each row.
        k : int, default=5
            Number of labels of a row if ``labels`` is not given.

        Returns
        -------
        list of list of Explanation
            For every row the explanations of its labels.

        Examples
        --------
        >>> texts = ["red apple", "green apple", "red car", "fast car"] * 10
        >>> labels = ["fruit", "fruit", "vehicle", "vehicle"] * 10
        >>> classifier = RembrandtClassifier(random_state=0).fit(texts, labels)
        >>> classifier.explain(["an apple"], ["fruit"])[0][0].top(1)[0][0]
        'apple'
        """
        X = read_once(X)
        rows = rows_of(self, X)
        if labels is None:
            columns, _ = top_columns(self, rows, k)
        else:
            columns = np.tile(label_columns(self, labels), (rows.n, 1))
        texts: list[Any] = [None] * rows.n
        given_texts = X[0] if is_blocks(X) else X
        if is_text(given_texts):
            texts = list(given_texts)
        names = feature_names(self)
        explanations = []
        for i, best in enumerate(columns):
            known = best[best >= 0]
            explanations.append(explain_labels(self.model_, rows[[i]], known, names, texts[i]))
        return explanations

    def score(self, X: Any, y: Any, sample_weight: Any = None, measure: str = "auto") -> float:
        """Return a measure of the predictions.

        Parameters
        ----------
        X : array-like of str, or {array-like, sparse matrix} of shape (n_samples, n_features)
            Texts or features, as given to `fit`.
        y : array-like
            True labels, as given to `fit`; the columns of a matrix are those of ``classes_``.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows; for measures of the labels that reach the threshold it must be
            None.
        measure : str, default="auto"
            "p@k", "r@k", "f1@k", "ndcg@k" or "psp@k" with any number k; "micro_f1" or "macro_f1" of
            the labels that reach the threshold; or, where labels have parents,
            "hierarchical_precision", "hierarchical_recall" or "hierarchical_f1" of them. "auto" is
            the accuracy or, with several labels a row, "p@1".

        Returns
        -------
        float
        """
        truth, missing = true_labels(self, y)
        if measure in SET_MEASURES:
            if sample_weight is not None:
                raise SettingsError(f"{measure} has no weights; leave sample_weight out", "measure")
            predicted = predicted_columns(self, rows_of(self, X))
            return set_measures(self.model_, truth, predicted, missing, measure)
        name, _, k = ("p@1" if measure == "auto" else measure).partition("@")
        if name not in ("p", "r", "f1", "ndcg", "psp") or not k.isdecimal() or int(k) < 1:
            known = ", ".join(("p@k, r@k, f1@k, ndcg@k, psp@k", *SET_MEASURES))
            raise SettingsError(f"measure={measure!r} is not one of {known}", "measure")
        ranked, _ = top_columns(self, rows_of(self, X), int(k))
        counts = self.label_counts_
        terms = row_terms(
            truth, ranked, counts, self.n_train_, ks=(int(k),), missing_labels=missing
        )[f"{name}@{k}"]
        weights: Any = 1.0
        if sample_weight is not None:
            weights = np.asarray(sample_weight)
        numerators, denominators = terms
        denominator = float((denominators * weights).sum())
        if denominator == 0:
            return 0.0
        return float((numerators * weights).sum()) / denominator

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
        examples are fitted again, without it only the new labels are. ``facts_.updates`` says
        what they missed, and a warning when a refit is due.

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
        Y, new_classes = joined_labels(y, classes, self.classes_)
        history_targets = None
        with (
            bars(self.verbose > 0) as report,
            self._reading_new_terms(X, history, report) as new_terms,
        ):
            rows = rows_of(self, X, report)
            if history is not None:
                old_X, old_y = history
                known = frame_labels(old_y)
                if known is None and is_matrix(old_y):
                    known = self.classes_
                old_rows = rows_of(self, old_X, report)
                history_targets = (old_rows, read_targets(old_y, known), None)
            self._update(rows, Y, new_classes, sample_weight, report, history_targets, new_terms)
        return self

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
        labels = named_like([data.label_ids[i] for i in used], self.classes_)
        Y, new_classes = joined_labels(data.Y[:, used], labels, self.classes_)
        history_targets = None
        old_texts = None if history is None else (history.texts, None)
        with self._reading_new_terms(data.texts, old_texts, report) as new_terms:
            if history is not None:
                old_labels = as_labels(named_like(history.label_ids, self.classes_))
                targets = Targets(history.Y, old_labels, self.model_.multiclass)
                old_rows = dataset_rows(self, history, report)
                history_targets = (old_rows, targets, history.weights)
            rows = dataset_rows(self, data, report)
            self._update(rows, Y, new_classes, data.weights, report, history_targets, new_terms)
        if data.label_names:
            self._name_more_labels(data.label_names)
        return self

    @available_if(_can_update)
    def partial_fit(
        self, X: Any, y: Any, classes: Iterable[Any] | None = None, sample_weight: Any = None
    ) -> Self:
        """Add examples, with labels that the model knows and new ones, as `update` does; the first
        call is a fit.

        The first call fits with ``growable=True``. Scores are then those of a ridge regression on
        all examples, exactly, in the embedding and the kernel map of the first fit.

        Parameters
        ----------
        X : array-like of str, or {array-like, sparse matrix} of shape (n_samples, n_features)
            Texts or features.
        y : array-like
            Labels, as for `fit`.
        classes : iterable of labels, default=None
            Names of the columns of a 0/1 matrix, or labels of later calls.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.

        Returns
        -------
        self : RembrandtClassifier
        """
        if hasattr(self, "model_"):
            return self.update(X, y, None, classes, sample_weight)
        first = type(self)(**self.get_params(deep=False) | {"growable": True})
        with bars(self.verbose > 0) as report:
            data, text = first._read(X, lambda: named_targets(y, classes), sample_weight, report)
            first._fit(data, text, report, NO_CHECKPOINTS)
        params = self.get_params()
        for name, value in vars(first).items():
            if name not in params:
                setattr(self, name, value)
        return self

    def search_dataset(
        self, data: Dataset, report: Report = silent, watch: Watch = unwatched
    ) -> SearchResult:
        """Search for settings as a fit with a budget would, without fitting to all examples.

        Parameters
        ----------
        data : Dataset
            Examples, as `rembrandt.read` returns them.
        report : callable, default=silent
            Receives the progress.
        watch : callable, default=unwatched
            Receives the progress of the search.

        Returns
        -------
        SearchResult
            The settings and every trial.
        """
        if self.budget is None:
            raise SettingsError("budget=None leaves no time to search; give seconds", "budget")
        searching = type(self)(**self.get_params(deep=False))
        examples, _ = searching._read(
            data.inputs, lambda: dataset_targets(data), data.weights, report
        )
        examples = in_canonical_order(examples)
        settings = resolve(searching.get_params(deep=False), examples)
        backend = backend_for(self.device, examples.X)
        options = searching._search_options(settings, examples)
        return search(examples, settings, backend=backend, report=report, watch=watch, **options)

    def build_shortlist(self, report: Report = silent) -> Self:
        """Cluster the labels for ``predict_topk(shortlist=...)``, which otherwise does so on first
        use.

        It takes seconds for 200,000 labels. A saved model keeps the clusters, 4 bytes a label.

        Returns
        -------
        self : RembrandtClassifier
        """
        check_is_fitted(self)
        self.model_ = self.model_.with_shortlist(0, report)
        return self

    def set_encoder(self, encoder: Any) -> Self:
        """Give a loaded model the encoder that it was fitted with, where that is an object, of
        which a saved model has the name alone.

        Parameters
        ----------
        encoder : object
            With ``encode(list of str)``; its vectors must have the same width.

        Returns
        -------
        self : RembrandtClassifier
        """
        check_is_fitted(self, "model_")
        self.model_ = self.model_.with_encoder(encoder)
        return self

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
        name_labels(self, label_names)
        return self

    def add_labels(self, label_names: Mapping[Any, Title]) -> Self:
        """Add labels that have a name and no example.

        They are predicted where their names and descriptions match a text. The model must match
        names: it has a part "names".

        Parameters
        ----------
        label_names : mapping of labels to names
            Names by label: strings, or tuples of a name, a description and other names. Labels that
            the model has get these names.

        Returns
        -------
        self : RembrandtClassifier

        Examples
        --------
        >>> texts = ["fried fish", "grilled fish", "baked bread", "fresh bread"] * 30
        >>> labels = [["fish"], ["fish"], ["bread"], ["bread"]] * 30
        >>> classifier = RembrandtClassifier(random_state=0).fit(texts, labels)
        >>> classifier = classifier.add_labels({"rice": "Rice", "soup": ("Soup", "a broth")})
        >>> classifier.predict_topk(["fried rice"], k=1)[0].tolist()
        [['rice']]
        """
        check_is_fitted(self, "model_")
        labels = named_like([str(label) for label in label_names], self.classes_)
        named = dict(zip(labels, label_names.values(), strict=True))
        is_new = self.model_.labels.columns(labels) < 0
        new_labels = [label for label, new in zip(labels, is_new, strict=True) if new]
        if new_labels:
            self.model_ = add_labels(self.model_, as_labels(new_labels))
        self._name_more_labels(named)
        return self

    def _name_more_labels(self, label_names: Mapping[Any, Title]) -> None:
        """Set the names of some labels; the others keep theirs."""
        names = self.label_names_
        descriptions = self.label_descriptions_
        others = self._by_label(self.model_.other_names)
        shown: dict[Any, Title] = {
            label: (
                names.get(label, ""),
                descriptions.get(label, ""),
                *others.get(label, "").splitlines(),
            )
            for label in names | descriptions | others
        }
        name_labels(self, {**shown, **label_names})

    def set_label_parents(
        self, label_parents: Parents, names: Mapping[str, Title] | None = None
    ) -> Self:
        """Set which labels lie under which others; the parts of the model stay as they are.

        Parameters
        ----------
        label_parents : mapping of labels to lists of labels, or str
            The parents of each label, which may have parents in turn and need not be labels; or
            the separator between the parts of a label: the parent of "Art -- France" is "Art" with
            " -- ".
        names : mapping of labels to names, default=None
            Names that are shown for parents that are not labels.

        Returns
        -------
        self : RembrandtClassifier
        """
        check_is_fitted(self, "model_")
        hierarchy = hierarchy_of(self.classes_.tolist(), label_parents, names)
        self.model_ = replace(self.model_, hierarchy=hierarchy)
        return self

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

    def save(
        self,
        path: str | Path,
        force: bool = False,
        extra: Mapping[str, Any] | None = None,
        sign_key: str | bytes | None = None,
    ) -> None:
        """Write the model to a new folder.

        Parameters
        ----------
        path : str or Path
            The folder.
        force : bool, default=False
            Replace a model that is there; a model that was loaded from there and has changed since
            is kept.
        extra : mapping, default=None
            JSON to keep with the model, in ``extra_``.
        sign_key : str or bytes, default=None
            Secret to sign the model with; `load` with the same ``require_signature`` accepts no
            other model.
        """
        check_is_fitted(self, "model_")
        self._saved = save_classifier(self, path, force, extra, sign_key)

    classes_ = property(attrgetter("model_.classes"))
    text_ = property(attrgetter("model_.text"))
    label_counts_ = property(attrgetter("model_.label_counts"))
    n_train_ = property(attrgetter("model_.n_train"))
    facts_ = property(attrgetter("model_.facts"))

    @property
    def settings_(self) -> dict[str, Any]:
        return self.model_.settings.to_json()

    @property
    def threshold_(self) -> Any:
        if self.model_.multiclass:
            return None
        return self.model_.threshold

    @property
    def embedding_(self) -> Array:
        return self.model_.label_vectors[0]

    @property
    def singular_values_(self) -> Array:
        return self.model_.label_vectors[1]

    @property
    def n_iter_(self) -> int:
        iterations = [part.facts().get("iterations", 1) for part in self.model_.parts.values()]
        return max(iterations)

    @property
    def label_names_(self) -> dict[Any, str]:
        return self._by_label(self.model_.titles)

    @property
    def label_descriptions_(self) -> dict[Any, str]:
        return self._by_label(self.model_.descriptions)

    def _by_label(self, texts: list[str] | None) -> dict[Any, str]:
        """Return the texts of labels that have one."""
        if texts is None:
            return {}
        labels = self.classes_.tolist()
        return {label: text for label, text in zip(labels, texts, strict=True) if text}

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_on_device"}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_label = True
        return tags

    def _read(
        self, X: Any, read: Callable[[], Targets], sample_weight: Any, report: Report
    ) -> tuple[Examples, TextFeatures | None]:
        """Validate texts or features, vectors beside them, and their labels."""
        X = read_once(X)
        # Refuse an unknown device before any work.
        backend_for(self.device, X if is_rows(X) else None)
        from rembrandt.kernels.compiling import USUAL_MODULES, compile_kernels  # loads numba

        compile_kernels(report, USUAL_MODULES)
        blocks = X if is_blocks(X) else (X,)
        features = blocks[0]
        # A store remembers how its texts became features.
        text: TextFeatures | None = getattr(features, "text", None)
        texts = None
        if is_text(features):
            texts = as_texts(features)
            text = TextFeatures()
            if self.text is not None:
                text = TextFeatures(**self.text.get_params())
            features = text.fit_transform(features, report=report)
        rows = self._fit_rows(features)
        vectors = tuple(vector_block(block) for block in blocks[1:])
        check_blocks(rows, vectors)
        targets = read()
        self._dense_target = targets.dense
        data = self._examples(rows, targets, sample_weight)
        term_keys = None
        if texts is not None and text is not None:
            term_keys = text.term_keys
        data = replace(
            data,
            vectors=tuple(as_rows(block) for block in vectors),
            texts=texts,
            term_keys=term_keys,
        )
        return data, text

    def _fit(
        self,
        data: Examples,
        text: TextFeatures | None,
        report: Report,
        checkpoints: Checkpoints,
        watch: Watch = unwatched,
        settings: ModelSettings | None = None,
    ) -> None:
        """Search, and fit the model to all examples."""
        unordered = data
        data = in_canonical_order(unordered)
        backend = backend_for(self.device, data.X)
        options: dict[str, Any] = {}
        if settings is None:
            settings = resolve(self.get_params(deep=False), data)
            options = self._search_options(settings, data)
        if checkpoints is not NO_CHECKPOINTS:
            checkpoints.begin(self._fingerprint(unordered))
        with backend.session():
            result = checkpoints.load("settings", SearchResult.from_arrays)
            if result is None:
                result = search(
                    data, settings, backend=backend, report=report, watch=watch, **options
                )
                if options.get("budget") is not None:
                    # A search within a budget may use more splits than a fit. So that the same
                    # settings give the same model, the blend is learned again.
                    again = search(data, result.settings, backend=backend, report=report)
                    result = result.with_learned(again)
                checkpoints.save("settings", result.arrays)
            _warn_if_large(result.settings)
            # What was learned on held-out examples goes with the fit on all examples.
            model = fit_model(data, result.settings, result.learned, backend, report, checkpoints)
        if "embedding" in model.parts:
            warn_if_fewer(model.parts["embedding"].facts()["rank"], self.n_components)
        facts = replace(
            model.facts,
            held_out=result.held_out,
            calibration_error=result.calibration_error,
        )
        self.model_ = replace(
            model,
            text=text,
            facts=facts,
            titles=data.label_names,
            descriptions=data.label_descriptions,
            other_names=data.label_other_names,
        )
        self.selection_ = result.trials
        self.tallies_ = backend.tallies
        self.feature_names_ = None
        self.extra_ = {}

    def _search_options(self, settings: ModelSettings, data: Examples) -> dict[str, Any]:
        """Return what `search` may change of settings that are not given as a whole."""
        return {
            "varies": ALLOWANCES[self.preset].varies_settings,
            "budget": self.budget,
            "fixed": fixed_settings(self.get_params(deep=False), settings),
            "max_trial_seconds": max_trial_seconds(settings, data),
        }

    @contextmanager
    def _reading_new_terms(
        self, X: Any, history: tuple[Any, Any] | None, report: Report
    ) -> Iterator[NewTerms]:
        """Let the model read the new terms of texts; an update that fails leaves it as it was."""
        before = self.model_
        texts = _texts_of(X)
        old_texts = () if history is None else _texts_of(history[0])
        new_terms = NO_NEW_TERMS
        if len(texts):
            self.model_, new_terms = with_new_terms(before, texts, old_texts, report)
            self.n_features_in_ = self.model_.n_features
        try:
            yield new_terms
        except BaseException:
            self.model_ = before
            self.n_features_in_ = before.n_features
            raise

    def _update(
        self,
        rows: Any,
        Y: sparse.csr_array,
        new_classes: Array,
        sample_weight: Any,
        report: Report,
        history: tuple[Any, Targets, Any] | None,
        new_terms: NewTerms,
    ) -> None:
        """Update the model; ``history`` are the rows, the labels and the weights of earlier
        examples.
        """
        model = self.model_
        more = self._update_examples(rows, Targets(Y, new_classes, model.multiclass), sample_weight)
        if more.multiclass and np.diff(Y.indptr).max(initial=0) > 1:
            raise DataError(
                "an example has several labels, but the model was fitted to one label a row"
            )
        old = None
        if history is not None:
            old_rows, targets, weights = history
            index = LabelIndex([*model.classes.tolist(), *new_classes.tolist()])
            columns = index.columns(targets.classes.tolist())
            known = move_columns(targets.Y, columns, Y.shape[1])
            old = self._update_examples(
                old_rows, Targets(known, new_classes, model.multiclass), weights
            )
            difference = unlike_history(model, old)
            if difference is not None:
                warnings.warn(RembrandtWarning(difference, "history"), stacklevel=3)
        self.model_ = update_model(model, more, new_classes, report, old, new_terms)
        reason = refit_due(self.model_)
        if reason is not None:
            warnings.warn(RembrandtWarning(reason), stacklevel=3)

    def _update_examples(self, rows: Any, targets: Targets, sample_weight: Any) -> Examples:
        """Return rows with labels and weights as examples."""
        if isinstance(rows, Views):
            data = self._examples(as_rows(rows.features), targets, sample_weight)
            vectors = tuple(as_rows(block) for block in rows.vectors)
            return replace(data, vectors=vectors, texts=rows.texts)
        return self._examples(as_rows(rows), targets, sample_weight)

    def _fingerprint(self, data: Examples) -> dict[str, Any]:
        """What the model depends on; texts are in the features."""
        settings = {name: as_json(value) for name, value in self.get_params(deep=False).items()}
        if not isinstance(settings["random_state"], int):
            raise SettingsError(
                "a checkpoint needs a number as random_state: fits must be repeatable",
                "random_state",
            )
        if isinstance(settings["encoder"], str) and not isinstance(self.encoder, str):
            raise SettingsError(
                "a checkpoint needs the name of an encoder: an object cannot be kept in it",
                "encoder",
            )
        if self.device.startswith("dask"):
            settings["device"] = "dask"  # the next scheduler may have another address
        del settings["text"]
        del settings["verbose"]
        arrays = {
            "texts": None if self.encoder is None else data.texts,
            "labels": data.Y,
            "label names": data.classes,
            "weights": data.weights,
            "names": _as_array(data.label_names),
            "descriptions": _as_array(data.label_descriptions),
            "other names": _as_array(data.label_other_names),
            "groups": data.groups,
            "times": data.times,
        }
        digests: dict[str, Any] = {"values of the features": data.X.digest()}
        for number, block in enumerate(data.vectors):
            digests[f"vectors {number}"] = block.digest()
        for name, array in arrays.items():
            digests[name] = None if array is None else array_digest(array)
        return fingerprint(data.X.shape, digests, settings)


def _texts_of(X: Any) -> Any:
    """Return the texts of examples; none if they have features."""
    if X is None:
        return ()
    X = as_input(X)
    first = X[0] if is_blocks(X) else X
    if isinstance(first, str) or not is_text(first):
        return ()
    return list(first)


def _as_array(texts: list[str] | None) -> Array | None:
    return None if texts is None else as_texts(texts)


def _with_held_out_columns(data: Examples, groups: Any, times: Any) -> Examples:
    """Return examples with the columns that say which rows are held out."""
    return replace(
        data,
        groups=numbered("groups", groups, data.n),
        times=numbered("times", times, data.n),
    )


def _with_label_names(
    data: Examples, label_names: Mapping[Any, Title] | Iterable[Title]
) -> Examples:
    """Return examples whose labels have names and descriptions."""
    titles = titles_of(data.classes.tolist(), label_names)
    return replace(
        data,
        label_names=titles.names,
        label_descriptions=titles.descriptions,
        label_other_names=titles.other_names,
    )


def _warn_if_large(settings: ModelSettings) -> None:
    """Warn before the fit if a growable model will keep much for updates."""
    spec = settings.parts.get("embedding")
    if spec is None or not spec.settings.growable or spec.settings.kernel is None:
        return
    n_mapped = n_random_features(spec.settings) + spec.settings.n_components
    megabytes = 4e-6 * n_mapped**2
    if megabytes > LARGE_MEGABYTES:
        message = (
            f"growable=True adds {megabytes:,.0f} MB to the model, for exact updates; kernel=None "
            "needs little, and updates work without growable too"
        )
        warnings.warn(RembrandtWarning(message, "growable"), stacklevel=4)
