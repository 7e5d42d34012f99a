"""The whole pipeline as a scikit-learn classifier: texts or features in, labels out."""

import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from rembrandt import __version__
from rembrandt.data import Dataset
from rembrandt.data.examples import Examples, numbered
from rembrandt.data.labels import Title
from rembrandt.data.rows import array_digest, is_rows
from rembrandt.data.targets import Targets, named_targets
from rembrandt.embeddings import warn_if_fewer
from rembrandt.engines.place import place_for
from rembrandt.errors import DataError, RembrandtWarning, SettingsError
from rembrandt.estimators.base import dataset_targets
from rembrandt.estimators.inputs import check_input
from rembrandt.estimators.saving import save_classifier
from rembrandt.estimators.updates import Updates
from rembrandt.features.fourier import Kernel
from rembrandt.features.joined import is_blocks
from rembrandt.features.text import TextFeatures, is_text
from rembrandt.fitting import fit_model
from rembrandt.progress import Report, bars, silent
from rembrandt.recipe import Recipe, as_json, resolve
from rembrandt.scorers.embedding_fit import n_random_features
from rembrandt.selection import Choice, Watch, choose, unwatched
from rembrandt.settings import (
    Auto,
    DecoderName,
    EmbeddingSettings,
    Method,
    Preset,
    ScorerName,
    Threshold,
    TreeSettings,
)
from rembrandt.storage.checkpoints import NO_CHECKPOINTS, Checkpoints, checkpoints_in, fingerprint

LARGE = 10  # megabytes kept for updates above which a fit warns
EFFORT = {"fast": 0, "balanced": 1, "best": 2}  # of the search for settings


def warn_if_large(recipe: Recipe) -> None:
    """Warn before the fit if a growable model will keep much for updates."""
    if not recipe.growable or recipe.kernel is None or recipe.n_components == "auto":
        return
    size = 4e-6 * (n_random_features(recipe) + recipe.n_components) ** 2
    if size > LARGE:
        message = (
            f"growable=True adds {size:,.0f} MB to the model, for exact updates; kernel=None needs "
            "little"
        )
        warnings.warn(
            RembrandtWarning(f"{message}, and updates work without growable too", "growable"),
            stacklevel=4,
        )


def _can_update(self: "RembrandtClassifier") -> bool:
    """Whether `partial_fit` is available, by the parameters alone; raises with the reason where it
    is not.
    """
    if self.decoder not in ("auto", "ridge") or self.scorers not in (
        "auto",
        ("embedding",),
        "embedding",
    ):
        message = (
            "partial_fit needs scorers=('embedding',) and decoder='ridge'; fit, and then update"
        )
        raise SettingsError(message, "decoder")
    return True


class RembrandtClassifier(Updates):
    """Predict one or many of a large number of labels.

    A model has one or more scorers: the label embedding with its decoder, trees of sparse linear
    classifiers, and label centroids. A blend, learned on held-out training examples, turns their
    scores into probabilities. Whatever is "auto" is chosen on held-out examples too.

    Parameters
    ----------
    preset : {"fast", "balanced", "best"}, default="balanced"
        Trade training time for accuracy. "fast" has trees and centroids, and the embedding instead
        of trees where features are dense or few; "balanced" has all three; "best" has more trees
        and tries more settings. Held-out examples decide which scorers a model keeps.
    scorers : "auto" or tuple of {"trees", "centroids", "embedding"}, default="auto"
        The scorers that a model may have.
    n_components : int or "auto", default="auto"
        Rank of the embedding. "auto" keeps the directions that hold nearly all of the spectrum.
    method : {"rembrandt", "pca", "plst", "cs", "cca"}, default="rembrandt"
        Method of the embedding, as in `LabelEmbedder`.
    ridge : float or "auto", default="auto"
        Strength of the regression behind the embedding, relative to the mean squared length of a
        feature.
    decoder : {"transpose", "ridge", "discriminant", "logistic", "candidates", "auto"},
    default="auto"
        From the embedding to scores: its transpose, least squares, linear discriminant analysis,
        softmax or independent logistic regression over all labels, or logistic regression over the
        labels that other scorers propose.
    decoder_ridge : float or "auto", default="auto"
        Penalty of the decoder, relative to the mean squared length of a mapped example; for
        "logistic" of an example with whitened features. A linear "ridge" decoder hardly needs one.
    kernel : {"gaussian", "laplacian", "matern3", "matern5", "auto"} or None, default="auto"
        Kernel of the decoder, by random Fourier features.
    normalize : bool or "auto", default="auto"
        Scale rows to unit length before they are embedded.
    regressor : object, default=None
        Any scikit-learn regressor with several outputs, in place of the ridge regression behind the
        embedding. A model with a regressor cannot be saved.
    embedding : EmbeddingSettings, default=None
        Rarely used settings of the embedding and its decoder. What is not set in it has the value
        of the preset, so ``EmbeddingSettings()`` is the same as None.
    trees : TreeSettings, default=None
        Settings of the trees; what is not set has the value of the preset.
    text : TextFeatures, default=None
        How texts become features; ``TextFeatures()`` by default.
    growable : bool, default=False
        Keep what exact updates need: 4 D² bytes for D mapped features (4 MB for 1,000, 64 MB for
        4,000). The model then has the embedding alone, with a ridge decoder. Other models are
        updated too; see `update`.
    threshold : float, "micro" or "macro", default="micro"
        Probability from which `predict` returns a label, where rows have several. "micro" and
        "macro" choose it on held-out examples for the best F1, of all labels together or of each
        label.
    budget : float, default=None
        Seconds to search for whatever is "auto" by successive halving. The fit comes after the
        search.
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
        The resolved settings, and facts about the fit: ``predict_threshold`` is the probability
        from which `predict` returns a label, and ``calibration_error`` the mean error of
        probabilities on held-out examples.
    selection_ : list of dict
        Every candidate that was tried on held-out examples, with its precision.
    embedding_ : ndarray of shape (n_labels, rank)
        A vector for each label. A model without an embedding derives them from its label weights.
    singular_values_ : ndarray of shape (rank,)
        Strength of each direction of the embedding.
    text_ : TextFeatures or None
        The fitted text features.
    joined_ : Joined or None
        How several blocks of features are joined.
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
    _saved: tuple[str, str | None]  # where the model was loaded from or saved to, and its checksum

    def __init__(
        self,
        preset: Preset = "balanced",
        scorers: Auto | ScorerName | tuple[ScorerName, ...] = "auto",
        n_components: int | Auto = "auto",
        method: Method = "rembrandt",
        ridge: float | Auto = "auto",
        decoder: DecoderName | Auto = "auto",
        decoder_ridge: float | Auto = "auto",
        kernel: Kernel | Auto | None = "auto",
        normalize: bool | Auto = "auto",
        regressor: Any = None,
        embedding: EmbeddingSettings | None = None,
        trees: TreeSettings | None = None,
        text: TextFeatures | None = None,
        growable: bool = False,
        threshold: Threshold = "micro",
        budget: float | None = None,
        random_state: Any = None,
        device: str = "cpu",
        verbose: int = 0,
    ) -> None:
        self.preset = preset
        self.scorers = scorers
        self.n_components = n_components
        self.method = method
        self.ridge = ridge
        self.decoder = decoder
        self.decoder_ridge = decoder_ridge
        self.kernel = kernel
        self.normalize = normalize
        self.regressor = regressor
        self.embedding = embedding
        self.trees = trees
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
    ) -> Self:
        """Fit to texts or features and their labels.

        Parameters
        ----------
        X : array-like of str, {array-like, sparse matrix} of shape (n_samples, n_features) or tuple
            Texts, features, or several blocks of both, which are joined with equal strength.
        y : array-like
            One class per row, a 0/1 matrix, or a list of labels for each row.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.
        checkpoint : str or Path, default=None
            Folder for finished stages. The same call continues an interrupted fit; the model is the
            same.
        classes : iterable of labels, default=None
            The labels of the columns of a 0/1 matrix, in their order; or labels that may not occur
            in ``y``.
        label_names : mapping of labels to names, or iterable of names, default=None
            Names that are shown for labels that are identifiers: strings, or tuples of a name and a
            description. An iterable has one for each of ``classes_``.
        groups : array-like of shape (n_samples,), default=None
            Rows with the same value, such as the pages of a document, are held out together when
            settings are chosen.
        times : array-like of shape (n_samples,), default=None
            Numbers or dates: the latest rows are held out when settings are chosen, for models of
            what comes later.

        Returns
        -------
        self : RembrandtClassifier
        """
        with bars(self.verbose > 0) as report, checkpoints_in(checkpoint) as checkpoints:
            held = {"groups": groups, "times": times}
            self._fit(
                X, lambda: named_targets(y, classes), sample_weight, report, checkpoints, held=held
            )
        return self if label_names is None else self.set_label_names(label_names)

    def fit_dataset(
        self,
        data: Dataset,
        report: Report = silent,
        checkpoint: str | Path | Checkpoints | None = None,
        watch: Watch = unwatched,
        recipe: Recipe | None = None,
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
        recipe : Recipe, default=None
            Use this recipe, such as that of an earlier fit, instead of choosing one.
        groups, times : array-like of shape (n_samples,), default=None
            As in `fit`.

        Returns
        -------
        self : RembrandtClassifier
        """
        with checkpoints_in(checkpoint) as checkpoints:
            work = report, checkpoints, watch, recipe, {"groups": groups, "times": times}
            self._fit(data.inputs, lambda: dataset_targets(data), data.weights, *work)
        self.feature_names_ = data.feature_names
        return self.name_labels(data.label_titles) if data.label_titles else self

    def search_dataset(
        self, data: Dataset, report: Report = silent, watch: Watch = unwatched
    ) -> Choice:
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
        Choice
            The recipe and every trial.
        """
        if self.budget is None:
            raise SettingsError("budget=None leaves no time to search; give seconds", "budget")
        own = type(self)(**self.get_params(deep=False))
        examples, _ = own._read(data.inputs, lambda: dataset_targets(data), data.weights, report)
        recipe = resolve(own.get_params(deep=False), examples)
        place = place_for(self.device, examples.X)
        return choose(examples, recipe, EFFORT[self.preset], self.budget, place, report, watch)

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
            first._fit(X, lambda: named_targets(y, classes), sample_weight, report, NO_CHECKPOINTS)
        self.__dict__ |= {
            name: value for name, value in vars(first).items() if name not in self.get_params()
        }
        return self

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

    def _fit(
        self,
        X: Any,
        read: Callable[[], Targets],
        sample_weight: Any,
        report: Report,
        checkpoints: Checkpoints,
        watch: Watch = unwatched,
        recipe: Recipe | None = None,
        held: Mapping[str, Any] = MappingProxyType({}),
    ) -> Self:
        data, text = self._read(X, read, sample_weight, report)
        columns: Any = {name: numbered(name, values, data.n) for name, values in held.items()}
        if all(columns.get(name) is not None for name in ("groups", "times")):
            raise SettingsError(
                "groups and times both say which rows are held out; give one of them", "groups"
            )
        data = replace(data, **columns)
        place = place_for(self.device, data.X)
        resolved = resolve(self.get_params(deep=False), data) if recipe is None else recipe
        if checkpoints is not NO_CHECKPOINTS:
            checkpoints.begin(self._fingerprint(data))

        def search() -> Choice:
            return choose(data, resolved, EFFORT[self.preset], self.budget, place, report, watch)

        with place.session():
            choice = checkpoints.stage("settings", search, Choice.arrays, Choice.from_arrays)
            warn_if_large(choice.recipe)
            # What was learned on held-out examples goes with the fit on all examples.
            model = fit_model(
                *(
                    data,
                    choice.recipe,
                    choice.blend,
                    choice.threshold,
                    place,
                    report,
                    checkpoints,
                    choice.first_trees,
                )
            )
        warn_if_fewer(model.settings.get("rank", np.inf), self.n_components)
        learned = {
            "blends": choice.blends,
            "calibration_error": choice.calibration_error,
            "version": __version__,
        }
        self.model_ = replace(
            model, text=text, joined=self._joined, settings=model.settings | learned
        )
        self.selection_ = choice.trials
        self.tallies_ = place.tallies
        self.feature_names_, self.extra_ = None, {}
        return self

    def _read(
        self, X: Any, read: Callable[[], Targets], sample_weight: Any, report: Report
    ) -> tuple[Examples, TextFeatures | None]:
        """Validate texts or features and their labels."""
        check_input(X)
        place_for(
            self.device, X if is_rows(X) else None
        )  # refuse an unknown device before any work
        blocks = X if is_blocks(X) else (X,)
        text: TextFeatures | None = getattr(
            X, "text", None
        )  # a store remembers how its texts became features
        if sum(map(is_text, blocks)) > 1:
            raise DataError(
                "X has more than one block of texts; join the texts of each example into one"
            )
        if any(map(is_text, blocks)):
            fitted = text = (
                TextFeatures() if self.text is None else TextFeatures(**self.text.get_params())
            )
            rows = tuple(
                fitted.fit_transform(x, report=report) if is_text(x) else x for x in blocks
            )
            X = rows if is_blocks(X) else rows[0]
        features = self._fit_rows(X)
        targets = read()
        self._dense_target = targets.dense
        return self._examples(features, targets, sample_weight), text

    def _fingerprint(self, data: Examples) -> dict[str, Any]:
        """What the model depends on; texts are in the features."""
        settings = {name: as_json(value) for name, value in self.get_params(deep=False).items()}
        if not isinstance(settings["random_state"], int):
            raise SettingsError(
                "a checkpoint needs a number as random_state: fits must be repeatable",
                "random_state",
            )
        if self.regressor is not None:
            raise SettingsError(
                "a checkpoint cannot store a fitted regressor; fit with regressor=None", "regressor"
            )
        if self.device.startswith("dask"):
            settings["device"] = "dask"  # the next scheduler may have another address
        del settings["text"], settings["verbose"]
        named = {"labels": data.Y, "label names": data.classes, "weights": data.weights}
        named |= {"groups": data.groups, "times": data.times}
        digests = {
            name: None if array is None else array_digest(array) for name, array in named.items()
        }
        return fingerprint(
            data.X.shape, {"values of the features": data.X.digest(), **digests}, settings
        )
