"""The whole pipeline as a scikit-learn classifier: texts or features in, labels out."""

import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from rembrandt.calibrating import Threshold, calibrate
from rembrandt.checkpoints import NOTHING_KEPT, Checkpoints, checkpoints_in
from rembrandt.checks import plain
from rembrandt.data import Dataset
from rembrandt.data.stored import StoredRows
from rembrandt.embeddings import Method, SolverName
from rembrandt.engines.place import place_for
from rembrandt.errors import DataError, RembrandtWarning, SettingsError
from rembrandt.estimators.asking import Asking
from rembrandt.estimators.predicting import Predicting
from rembrandt.features.fourier import Kernel
from rembrandt.features.joined import is_blocks
from rembrandt.features.text import TextFeatures, is_text
from rembrandt.fitting import (
    DecoderName,
    Labelled,
    fit_model,
)
from rembrandt.growing import check_updatable, refit_due, updated
from rembrandt.model.model import Model
from rembrandt.model.persist import save_model
from rembrandt.presets import Preset
from rembrandt.progress import Report, bars, silent
from rembrandt.search import Found, Watch, unwatched
from rembrandt.selection import Auto
from rembrandt.settling import Settled, repeated
from rembrandt.targets import Targets, joined_labels, named_like, read_first, read_targets

Array = NDArray[Any]
NO_SUMS = ("transpose", "logistic")  # decoders that are no function of sums over examples


def _learns_on(self: "RembrandtClassifier") -> bool:
    """Whether more examples can be added to the model, or to that which these settings make; refused with a reason."""
    if hasattr(self, "model_"):
        check_updatable(self.model_)
    elif self.sparse in (True, "alone") or self.decoder in NO_SUMS:
        what = f"sparse={self.sparse!r}" if self.sparse in (True, "alone") else f"decoder={self.decoder!r}"
        raise SettingsError(
            f"partial_fit adds examples to sums that {what} does not keep; use decoder='ridge' and sparse=False, or "
            "fit anew with all examples"
        )
    return True


class RembrandtClassifier(Asking, Predicting):
    """Predict one or many of a great number of labels, through an embedding of the labels.

    Texts or features are projected on the label embedding (``H = XW``), mapped (``φ``, optional random features of a
    kernel) and decoded (``scores = φ(H)Q + b``). Whatever is "auto" is chosen on a held-out part of the training data.

    Parameters
    ----------
    preset : "fast", "balanced" or "best"
        How much time quality may cost: values for those of the parameters below that are "auto" (`rembrandt.presets`).
        "fast" has a sparse part alone and tries nothing; "balanced" chooses a low-rank decoder on held-out data; "best"
        adds a sparse part of several trees and chooses how both are mixed; beyond 5,000 labels the sparse part answers
        alone.
    budget : float, optional
        Seconds to search for whatever is "auto": the rank and its ridge too, kernels, the sparse part and its share, by
        successive halving on held-out data. The preset says how large a sparse part may be. The fit comes after that.
    n_components, method, ridge, n_oversamples, n_iter, solver, tol, max_iter, center, regressor
        The embedding, as in `LabelEmbedder`.
    decoder : "transpose", "ridge", "logistic" or "auto"
        Back through the embedding; least squares; softmax or independent logistic; matching pursuit (for "cs").
    decoder_ridge : float or "auto"
        Strength of the decoder's penalty: of ridge relative to the mean squared length of what it sees of an example,
        of logistic to the curvature of a label's loss at its base rate.
    kernel : None, "gaussian", "laplacian", "matern3", "matern5" or "auto"
    kernel_scale : float
        Bandwidth, in units of the median distance between projected examples.
    leave_out : float or "auto"
        How much of its own labels is taken out of a training example's projection before a decoder sees it: 0 to 1.
    n_random_features : int, optional
        Size of the kernel map: more is nearer to the kernel, and slower. Without it, what the number of examples
        makes affordable, from 1000 to 4000.
    normalize : bool or "auto"
        Scale rows to length one first.
    max_epochs : int
        Passes of the logistic decoder at most.
    sparse : bool, "alone" or "auto"
        Add a sparse part: a tree of linear classifiers, with weights of its own for every label. It finds rare labels
        that low rank cannot tell apart; how much it counts is chosen on held-out data. "alone": it answers by itself.
        "auto" is what the preset says.
    sparse_pairs : float or "auto"
        What the sparse part may cost, in pairs of examples and nodes of its first level: more clusters are better and
        slower, and where all examples × labels fit there are none.
    sparse_trees : int or "auto"
        Trees of the sparse part, each with clusters of its own: two or three are better than one, and slower.
    sparse_cost, sparse_power, sparse_share : float or "auto"
        The sparse part's fidelity to the training examples, the power of its hinge in a probability, and its share in
        the score, from 0 to 1. For whoever repeats a fit without its search; "auto" chooses on held-out data.
    growable : bool
        Keep what `partial_fit` needs: the mean and covariance of what the decoder sees, 4 D² bytes for
        D features (4 MB for 1,000, 64 MB for 4,000). For whoever has new examples or labels now and then and cannot
        fit anew each time. The decoder is ridge then, unless another is asked for.
    calibrate : bool
        Learn on held-out rows how likely a score is right, for probabilities that mean what they say. One more fit.
    threshold : float, "micro" or "macro"
        From which probability on ``predict`` gives a label, where rows have several: one for all, that with the best
        micro-averaged F1 on held-out rows, or one for each label for the macro-averaged; both cost one more fit.
    text : TextFeatures, optional
        How texts become features, when ``fit`` is given strings; ``TextFeatures()`` without it.
    random_state : int, RandomState or None
    verbose : int
        Show progress when positive.
    device : str
        Where to fit and predict, as in `LabelEmbedder`; the model is the same value wherever it was fitted.

    Attributes
    ----------
    classes_ : array (c,)
    embedding_, singular_values_, projection_ : arrays
        As in `LabelEmbedder`.
    settings_ : dict
        What was chosen, and why.
    selection_ : list of dict
        Every candidate that was tried on held-out data, with its quality.
    blends_ : list of dict
        Every sparse part that was tried beside the low-rank one, with its share in the score and the quality.
    model_ : Model
        The fitted value itself.

    Examples
    --------
    >>> texts = ["red apple", "green apple", "red car", "fast car"] * 10
    >>> labels = [["fruit"], ["fruit"], ["vehicle"], ["vehicle"]] * 10
    >>> classifier = RembrandtClassifier(random_state=0).fit(texts, labels)
    >>> classifier.predict_topk(["apple"], k=1)[0].tolist()
    [['fruit']]
    """

    model_: Model
    classes_: Array
    feature_names_: list[str] | None
    label_titles_: dict[str, str]
    extra_: dict[str, Any]

    def __init__(
        self,
        n_components: int | Auto = "auto",
        method: Method = "rembrandt",
        ridge: float | Auto = "auto",
        decoder: DecoderName | Auto = "auto",
        decoder_ridge: float | Auto = "auto",
        kernel: Kernel | Auto | None = "auto",
        kernel_scale: float | Auto = "auto",
        n_random_features: int | None = None,
        normalize: bool | Auto = "auto",
        leave_out: float | Auto = "auto",
        n_oversamples: int = 20,
        n_iter: int = 1,
        solver: SolverName = "auto",
        tol: float = 0.02,
        max_iter: int = 10,
        center: bool = False,
        regressor: Any = None,
        max_epochs: int = 40,
        sparse: bool | Literal["alone"] | Auto = "auto",
        sparse_pairs: float | Auto = "auto",
        sparse_trees: int | Auto = "auto",
        sparse_cost: float | Auto = "auto",
        sparse_power: float | Auto = "auto",
        sparse_share: float | Auto = "auto",
        growable: bool = False,
        calibrate: bool = False,
        threshold: Threshold = 0.5,
        text: TextFeatures | None = None,
        random_state: Any = None,
        verbose: int = 0,
        device: str = "cpu",
        preset: Preset = "balanced",
        budget: float | None = None,
    ) -> None:
        self.n_components = n_components
        self.method = method
        self.ridge = ridge
        self.decoder = decoder
        self.decoder_ridge = decoder_ridge
        self.kernel = kernel
        self.kernel_scale = kernel_scale
        self.n_random_features = n_random_features
        self.normalize = normalize
        self.leave_out = leave_out
        self.n_oversamples = n_oversamples
        self.n_iter = n_iter
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.center = center
        self.regressor = regressor
        self.max_epochs = max_epochs
        self.sparse = sparse
        self.sparse_pairs = sparse_pairs
        self.sparse_trees = sparse_trees
        self.sparse_cost = sparse_cost
        self.sparse_power = sparse_power
        self.sparse_share = sparse_share
        self.growable = growable
        self.calibrate = calibrate
        self.threshold = threshold
        self.text = text
        self.random_state = random_state
        self.verbose = verbose
        self.device = device
        self.preset = preset
        self.budget = budget

    def fit(self, X: Any, y: Any, sample_weight: Any = None, checkpoint: str | Path | None = None) -> Self:
        """Fit to features or texts ``X`` and classes (1-D), a 0/1 matrix, or a list of labels for each example.

        A tuple of texts and matrices is several blocks of features of the same examples, joined with equal strength;
        what is predicted for then is a tuple of the same blocks.

        What is done is kept in the folder ``checkpoint``: a fit that was killed goes on there when it is called again
        with the same data and settings, and gives the same model. Delete the folder when the model is saved.
        """
        with bars(self.verbose > 0) as report, checkpoints_in(checkpoint) as checkpoints:
            return self._fit(X, lambda: read_targets(y), sample_weight, report, checkpoints)

    def fit_dataset(
        self,
        data: Dataset,
        report: Report = silent,
        checkpoint: str | Path | Checkpoints | None = None,
        watch: Watch = unwatched,
    ) -> Self:
        """Fit to what a reader returned, keeping the names of labels and features; ``checkpoint`` as in `fit`.

        ``watch`` is told how a search with a budget goes.
        """
        with checkpoints_in(checkpoint) as checkpoints:
            return self._fit_dataset(data, report, checkpoints, watch=watch)

    def search_dataset(self, data: Dataset, report: Report = silent, watch: Watch = unwatched) -> Found:
        """What a fit with a budget would choose, and every trial; nothing is fitted to all examples."""
        if self.budget is None:
            raise SettingsError("budget=None leaves no time to search; give seconds")
        own = type(self)(**self.get_params(deep=False))
        labelled = own._read(data.texts if data.X is None else data.X, lambda: _targets(data), data.weights, report)
        asked, recipe = own._asked(labelled, False)
        return own._search(labelled, asked, recipe, report, watch)

    def refit_dataset(self, data: Dataset, report: Report = silent) -> Self:
        """Fit to other examples with what was chosen before: nothing is tried on held-out data.

        For examples that were added to those of the first fit; terms, labels and the rank are found anew.
        """
        check_is_fitted(self)
        return self._fit_dataset(data, report, NOTHING_KEPT, self.settings_)

    def _fit_dataset(
        self,
        data: Dataset,
        report: Report,
        checkpoints: Checkpoints,
        chosen: dict[str, Any] | None = None,
        watch: Watch = unwatched,
    ) -> Self:
        targets = _targets(data)
        X = data.texts if data.X is None else data.X
        self._fit(X, lambda: targets, data.weights, report, checkpoints, chosen, watch)
        self.feature_names_, self.label_titles_ = data.feature_names, dict(data.label_titles)
        return self

    @available_if(_learns_on)
    def partial_fit(self, X: Any, y: Any, classes: Iterable[Any] | None = None, sample_weight: Any = None) -> Self:
        """Learn from more examples, with labels that the model knows and new ones; the first call is a fit.

        ``y`` is as for `fit`. ``classes`` names the columns of a matrix, or labels of later calls; neither is needed
        where a call has the labels themselves. Examples seen before are taken to have none of the labels that are new.

        Scores are then those of a ridge regression on all examples, exactly, in the embedding and the kernel map of
        the first fit; a warning says when it is time to fit anew. Needs a model that was fitted here or with
        ``growable=True``, and a ridge decoder.
        """
        with bars(self.verbose > 0) as report:
            if not hasattr(self, "model_"):
                return self._fit(X, lambda: read_first(y, classes), sample_weight, report, NOTHING_KEPT, growable=True)
            rows = self.model_rows(X)
            Y, names = joined_labels(y, classes, self.classes_)
            return self._update(rows, Y, names, sample_weight, report)

    def update_dataset(self, data: Dataset, report: Report = silent) -> Self:
        """As `partial_fit` of a fitted classifier, with what a reader returned."""
        used = np.flatnonzero(np.bincount(data.Y.indices, minlength=data.n_labels))
        given = [data.label_names[i] for i in used]
        Y, names = joined_labels(data.Y[:, used], named_like(given, self.classes_), self.classes_)
        stored = isinstance(data.X, StoredRows)
        rows = data.X if stored else self.model_rows(self.dataset_rows(data, report))
        self._update(rows, Y, names, data.weights, report)
        self._take_titles(data, given)
        return self

    def save(self, path: str | Path, force: bool = False, extra: Mapping[str, Any] | None = None) -> None:
        """Write the model to a new folder; ``force`` replaces a model that is there. ``extra`` is kept as JSON."""
        check_is_fitted(self)
        facts: dict[str, Any] = {
            "params": {name: plain(value) for name, value in self.get_params(deep=False).items() if name != "text"},
            "dense_target": self._dense_target,
            "joined": None if self.joined_ is None else asdict(self.joined_),
            "selection": self.selection_,
            "blends": self.blends_,
            "feature_names": self.feature_names_,
            "label_titles": self.label_titles_,
            "extra": dict(extra or {}),
        }
        facts["params"]["regressor"] = None
        facts["params"]["random_state"] = self.settings_["embedding"]["seed"]
        facts["params"]["device"] = "cpu"  # a model belongs to no device: whoever loads it says where it runs
        save_model(path, self.model_, self.text_, facts, force)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "_placed"}

    def _fit(
        self,
        X: Any,
        read: Callable[[], Targets],
        sample_weight: Any,
        report: Report,
        checkpoints: Checkpoints,
        chosen: dict[str, Any] | None = None,
        watch: Watch = unwatched,
        growable: bool = False,
    ) -> Self:
        data = self._read(X, read, sample_weight, report)
        if checkpoints is not NOTHING_KEPT:
            checkpoints.begin(self._fingerprint(data))
        asked, recipe = self._asked(data, growable)
        if chosen is None:
            settled = checkpoints.stage(
                "settings",
                lambda: self._settled(data, asked, recipe, report, watch),
                Settled.packed,
                Settled.unpacked,
            )
            recipe, self.selection_, self.blends_ = settled.recipe, settled.trials, settled.blends
        else:
            recipe = repeated(recipe, chosen)
        calibration = calibrate(data, recipe, self.calibrate, self._threshold(data), report)
        with data.place.session():
            self.model_ = calibration.applied(fit_model(data, recipe, report, checkpoints))
        self.tallies_ = data.place.tallies
        self.classes_ = data.classes
        self.feature_names_, self.label_titles_, self.extra_ = None, {}, {}
        return self

    def _read(self, X: Any, read: Callable[[], Targets], sample_weight: Any, report: Report) -> Labelled:
        """Features or texts and their labels, checked."""
        stored = isinstance(X, StoredRows)
        place_for(self.device, X if stored else None)  # refused before anything is done
        self.text_ = X.store.text if stored else None
        blocks = X if is_blocks(X) else (X,)
        if sum(map(is_text, blocks)) > 1:
            raise DataError("X has more than one block of texts; join each example's texts into one")
        if any(map(is_text, blocks)):
            self.text_ = text = TextFeatures() if self.text is None else TextFeatures(**self.text.get_params())
            rows = tuple(text.fit_transform(x, report=report) if is_text(x) else x for x in blocks)
            X = rows if is_blocks(X) else rows[0]
        X = self._features(X, reset=True)
        targets = read()
        self._dense_target = targets.dense
        return self._labelled(X, targets, sample_weight)

    def _take_titles(self, data: Dataset, names: Iterable[str]) -> None:
        self.label_titles_ |= {name: data.label_titles[name] for name in names if name in data.label_titles}

    def _update(self, X: Any, Y: sparse.csr_array, names: Array, sample_weight: Any, report: Report) -> Self:
        more = self._labelled(X, Targets(Y, names, self.model_.multiclass), sample_weight)
        if more.multiclass and np.diff(Y.indptr).max(initial=0) > 1:
            raise DataError("an example has several labels, and the model was fitted to one for each; give one")
        self.model_ = updated(self.model_, more.X, more.Y, names, more.weights, report)
        self.classes_ = self.model_.classes
        if due := refit_due(self.model_):
            warnings.warn(due, RembrandtWarning, stacklevel=3)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_label = True
        return tags


def _targets(data: Dataset) -> Targets:
    return Targets(data.Y, np.asarray(data.label_names), multiclass=data.task == "multiclass")
