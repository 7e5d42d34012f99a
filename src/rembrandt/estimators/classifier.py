"""The whole pipeline as a scikit-learn classifier: texts or features in, labels out."""

import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from rembrandt.blending import OpenBlend
from rembrandt.calibrating import Threshold, calibrate
from rembrandt.checkpoints import NOTHING_KEPT, Checkpoints, checkpoints_in, fingerprint
from rembrandt.checks import check_among, check_number, check_whole, plain
from rembrandt.data import Dataset
from rembrandt.data.stored import StoredRows
from rembrandt.decoders.shortlist import usual
from rembrandt.decoders.tree import TreeSettings
from rembrandt.embeddings import Method, SolverName
from rembrandt.engines.place import place_for
from rembrandt.engines.stored_place import is_dask, stored_place
from rembrandt.errors import DataError, RembrandtWarning, SettingsError
from rembrandt.estimators.base import Estimator
from rembrandt.features.fourier import KERNELS, Kernel
from rembrandt.features.joined import Joined, is_blocks
from rembrandt.features.text import TextFeatures, is_text
from rembrandt.fitting import (
    DECODERS,
    DecoderName,
    Labelled,
    Recipe,
    fit_model,
)
from rembrandt.growing import check_updatable, grown, refit_due, updated
from rembrandt.metrics import precision_at_k
from rembrandt.model.model import Model
from rembrandt.model.persist import load_model, save_model
from rembrandt.presets import Preset, filled, is_auto
from rembrandt.progress import Report, bars, silent
from rembrandt.regressors import described, is_foreign, regressor_of
from rembrandt.search import SEARCHED, Found, Watch, search, space_of, unwatched
from rembrandt.selection import FEWEST, Auto, Open
from rembrandt.settling import Settled, repeated, settle
from rembrandt.targets import Targets, joined_labels, named_like, new_labels, read_first, read_targets

Array = NDArray[Any]
NO_SUMS = ("transpose", "logistic", "greedy")  # decoders that are no function of sums over examples
Tail = bool | tuple[float, float]  # rank for PSP@k; the constants A and B of the propensities where they are given


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


class RembrandtClassifier(ClassifierMixin, Estimator):
    """Predict one or many of a great number of labels, through an embedding of the labels.

    Texts or features are projected on the label embedding (``H = XW``), mapped (``φ``, optional random features of a
    kernel) and decoded (``scores = φ(H)Q + b``). Whatever is "auto" is chosen on a held-out part of the training data.

    Parameters
    ----------
    preset : "fast", "balanced" or "best"
        How much time quality may cost: values for those of the parameters below that are "auto" (`rembrandt.presets`).
        "fast" has a sparse part alone and tries nothing; "balanced" chooses a low-rank decoder on held-out data; "best"
        adds a sparse part of several trees and chooses how both are mixed.
    budget : float, optional
        Seconds to search for whatever is "auto": the rank and its ridge too, kernels, the sparse part and its share, by
        successive halving on held-out data. The preset says how large a sparse part may be. The fit comes after that.
    n_components, method, ridge, n_oversamples, n_iter, solver, tol, max_iter, center, regressor
        The embedding, as in `LabelEmbedder`.
    decoder : "transpose", "ridge", "logistic", "greedy" or "auto"
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
        Keep what `partial_fit` and `add_labels` need: the mean and covariance of what the decoder sees, 4 D² bytes for
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

    def add_labels(self, X: Any, y: Any, classes: Iterable[Any] | None = None) -> Self:
        """Learn labels that the model does not know yet, from examples of them; the others stay as they are.

        ``y`` has the labels of each row, or one label a row; labels that the model knows are passed over. Or it is a
        0/1 matrix, and ``classes`` names its columns. The rows of the fit are taken to have none of the new labels.
        Needs ``growable=True``. Scores of a ridge or transpose decoder are those of a ridge regression on all rows, the
        old ones and these, in the same embedding; those of a logistic decoder approximate what a fit would give.
        """
        rows = self.model_rows(X)
        Y, names = new_labels(y, classes, self.classes_)
        if rows.shape[0] != Y.shape[0]:
            raise DataError(f"X has {rows.shape[0]} rows and y has {Y.shape[0]}: give one label entry for each row")
        with bars(self.verbose > 0) as report:
            self.model_ = grown(self.model_, rows, Y, names, report)
        self.classes_ = self.model_.classes
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
        rows = data.X if stored else self.model_rows(data.texts if data.X is None else data.X)
        self._update(rows, Y, names, data.weights, report)
        self.label_titles_ |= {name: data.label_titles[name] for name in given if name in data.label_titles}
        return self

    def predict(self, X: Any) -> Any:
        """The class of each row; for several labels a row, those whose probability reaches the threshold, as 0/1."""
        X = self.model_rows(X)
        if self.model_.multiclass:
            return self.classes_[self.placed_model().top_k(X, 1)[0][:, 0]]
        labels = self.placed_model().label_sets(X)
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
        """The ``k`` best labels of each row and their scores, best first.

        ``include`` limits the answer to these labels, ``exclude`` leaves these out. Where fewer than ``k`` labels are
        left, the label is None and the score is -inf.

        ``tail=True`` ranks by what a label is expected to add to PSP@k: its probability × its inverse propensity, which
        is then the score. Rare labels come first where they are nearly as likely as common ones. A pair sets the
        constants (A, B) of the propensities; (0.55, 1.5) without it.

        ``shortlist=N`` looks at about ``N`` labels of each row instead of all, those of the clusters that promise most;
        ``True`` at one in forty, 1,000 at least. What is found has the score that it has without; a label of the best
        ``k`` may be missed now and then. Much faster from 100,000 labels on, once `make_shortlist` has clustered them.
        """
        if k < 1:
            raise SettingsError(f"k={k} must be at least 1")
        found, scores = self.model_topk(X, k, include, exclude, tail, shortlist)
        labels = np.array([*self.classes_.tolist(), None], dtype=object)[found]
        return labels if (found < 0).any() else labels.astype(self.classes_.dtype), scores

    def model_topk(
        self,
        X: Any,
        k: int,
        include: Iterable[Any] | None = None,
        exclude: Iterable[Any] | None = None,
        tail: Tail = False,
        shortlist: int | bool = False,
    ) -> tuple[NDArray[np.int64], Array]:
        """As `predict_topk`, with the labels as column numbers (-1 where there is none)."""
        X = self.model_rows(X)
        with bars(self.verbose > 0) as report:
            look_at = self.looked_at(shortlist, tail is not False, report)
            model = self.placed_model()
            return model.top_k(X, k, self._allowed(include, exclude), report, _worth(model, tail), look_at)

    def make_shortlist(self, report: Report = silent) -> Self:
        """Cluster the labels for ``predict_topk(shortlist=...)``, which does so itself when first asked.

        It takes seconds for 200,000 labels. A model that is saved keeps the clusters, 4 bytes a label.
        """
        check_is_fitted(self)
        if self.model_.blend < 1:  # a sparse part that answers alone needs none
            self.model_ = self.model_.with_shortlist(report)
        return self

    def looked_at(self, shortlist: int | bool, tail: bool = False, report: Report = silent) -> int | None:
        """How many labels a row looks at, with what that needs made; None for all."""
        if shortlist is False:
            return None
        if shortlist is not True:
            check_whole("shortlist", shortlist, 1)
        self.placed_model().check_shortlist(tail)
        self.make_shortlist(report)
        return usual(len(self.classes_)) if shortlist is True else int(shortlist)

    def decision_function(self, X: Any) -> Array:
        """Scores of all labels, n × c; for two classes the difference of the second and the first."""
        scores = self.placed_model().scores(self.model_rows(X))
        return scores[:, 1] - scores[:, 0] if self.model_.multiclass and scores.shape[1] == 2 else scores

    def predict_proba(self, X: Any) -> Array:
        """Probabilities of all labels, n × c."""
        return self.placed_model().probabilities(self.model_rows(X))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy for one label a row, P@1 for several."""
        if self.model_.multiclass:
            return float(super().score(X, y, sample_weight))
        truth = self._truth(y)
        return float(precision_at_k(truth, self.model_topk(X, 1)[0], 1))

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
        facts["params"]["regressor"] = described(self.regressor)
        facts["params"]["random_state"] = self.settings_["embedding"]["seed"]
        facts["params"]["device"] = "cpu"  # a model belongs to no device: whoever loads it says where it runs
        save_model(path, self.model_, self.text_, facts, force)

    @property
    def embedding_(self) -> Array:
        return self.model_.embedding

    @property
    def singular_values_(self) -> Array:
        return self.model_.singular_values

    @property
    def projection_(self) -> Array:
        return self.model_.projection

    @property
    def settings_(self) -> dict[str, Any]:
        return self.model_.settings

    @property
    def n_iter_(self) -> int:
        return int(self.settings_["iterations"])

    @property
    def label_counts_(self) -> Array:
        return self.model_.label_counts

    @property
    def n_train_(self) -> int:
        return self.model_.n_train

    def placed_model(self) -> Model:
        """The model where ``device`` is; what is copied there stays for the next call."""
        check_is_fitted(self)
        if self.device == "cpu" or is_dask(self.device):
            return self.model_
        placed = getattr(self, "_placed", None)
        if placed is None or placed[0] is not self.model_ or placed[1] != self.device:
            placed = self._placed = self.model_, self.device, self.model_.on(place_for(self.device))
        return placed[2]

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
        with data.place.held():
            self.model_ = calibration.applied(fit_model(data, recipe, report, checkpoints))
        self.tallies_ = getattr(data.place, "tallies", {})
        self.classes_ = data.classes
        self.feature_names_, self.label_titles_, self.extra_ = None, {}, {}
        return self

    def _read(self, X: Any, read: Callable[[], Targets], sample_weight: Any, report: Report) -> Labelled:
        """Features or texts and their labels, checked."""
        stored = isinstance(X, StoredRows)
        (stored_place if stored else place_for)(self.device)  # refused before anything is done
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

    def _update(self, X: Any, Y: sparse.csr_array, names: Array, sample_weight: Any, report: Report) -> Self:
        more = self._labelled(X, Targets(Y, names, self.model_.multiclass), sample_weight)
        if more.multiclass and np.diff(Y.indptr).max(initial=0) > 1:
            raise DataError("an example has several labels, and the model was fitted to one for each; give one")
        self.model_ = updated(self.model_, more.X, more.Y, names, more.weights, report)
        self.classes_ = self.model_.classes
        if due := refit_due(self.model_):
            warnings.warn(due, RembrandtWarning, stacklevel=3)
        return self

    def _asked(self, data: Labelled, growable: bool) -> tuple[Self, Recipe]:
        """This classifier with the preset's values where it is open, and the recipe that they make."""
        given = self.get_params(deep=False) | ({"growable": True} if growable else {})
        asked = type(self)(**filled(self.preset, given, data.Y.shape[1]))
        recipe = asked._recipe(data, **asked._own_settings())
        return asked, recipe

    def _settled(self, data: Labelled, asked: Self, recipe: Recipe, report: Report, watch: Watch) -> Settled:
        """The recipe with what is open chosen on held-out rows, and what was tried."""
        if self.budget is None:
            return asked._chosen(data, recipe, report)
        found = self._search(data, asked, recipe, report, watch)
        # From here on it is the fit of a user who gave what was found: the same model without a search.
        given = asked.get_params(deep=False) | found.chosen | {"random_state": recipe.embedding.seed}
        chosen = type(self)(**given)
        settled = chosen._chosen(data, chosen._recipe(data, **chosen._own_settings()), report)
        return replace(settled, trials=found.trials)

    def _search(self, data: Labelled, asked: Self, recipe: Recipe, report: Report, watch: Watch) -> Found:
        check_number("budget", self.budget, 0.0, above=True)
        asked._choices(), asked._blend()  # refused before anything is done
        open_ = frozenset(name for name in SEARCHED if is_auto(getattr(self, name)))
        space = space_of(data, recipe, asked.get_params(deep=False), open_)
        if data.X.shape[0] < FEWEST or not space.is_open:
            return Found({}, [], 0.0, "there was nothing to choose, or too few examples to hold any out")
        return search(data, recipe, space, float(self.budget or 0), report, watch)

    def _chosen(self, data: Labelled, recipe: Recipe, report: Report) -> Settled:
        """What this classifier leaves open, chosen without a budget."""
        choices, blend, tree = self._choices(), self._blend(), None
        if self.sparse:
            pairs, trees = float(self.sparse_pairs), int(self.sparse_trees)
            tree = TreeSettings(pairs=pairs, trees=trees, seed=recipe.embedding.seed)
        return settle(data, recipe, choices, tree, report, blend)

    def _fingerprint(self, data: Labelled) -> dict[str, Any]:
        """What this fit depends on; texts are in its features."""
        settings = {name: plain(value) for name, value in self.get_params(deep=False).items()}
        if not isinstance(settings["random_state"], int):
            raise SettingsError("a checkpoint needs random_state to be a number: without one no two fits are the same")
        if is_dask(self.device):
            settings["device"] = "dask"  # a scheduler may have died, and the next one is elsewhere
        if is_foreign(self.regressor):
            raise SettingsError("a checkpoint cannot keep a regressor that is not Rembrandt's; fit without one")
        settings["regressor"] = described(self.regressor)
        del settings["text"], settings["verbose"]
        return fingerprint(data.X, data.Y, data.weights, data.classes, settings)

    def _own_settings(self) -> dict[str, Any]:
        check_number("kernel_scale", self.kernel_scale, 0.0, above=True)
        check_whole("max_epochs", self.max_epochs, 1)
        check_among("sparse", self.sparse, (True, False, "alone"))
        check_among("calibrate", self.calibrate, (True, False))
        check_among("growable", self.growable, (True, False))
        if self.growable and self.sparse:
            raise SettingsError("growable=True needs sparse=False: the trees of a sparse part take no new labels")
        check_whole("sparse_trees", self.sparse_trees, 1)
        check_number("sparse_pairs", self.sparse_pairs, 0.0, above=True)
        features = self.n_random_features
        if features is not None:
            check_whole("n_random_features", features, 1)
        return {
            "kernel_scale": float(self.kernel_scale),
            "n_random_features": None if features is None else int(features),
            "max_epochs": int(self.max_epochs),
            "growable": bool(self.growable),
        }

    def _threshold(self, data: Labelled) -> Threshold:
        if not isinstance(self.threshold, str):
            check_number("threshold", self.threshold, 0.0)
            return float(self.threshold)
        check_among("threshold", self.threshold, ("micro", "macro"))
        return 0.5 if data.multiclass else self.threshold  # where a row has one label, the best is predicted

    def _choices(self) -> Open:
        check_among("decoder", self.decoder, ("auto", *DECODERS))
        check_among("kernel", self.kernel, (None, "auto", *KERNELS))
        check_among("normalize", self.normalize, (True, False, "auto"))
        decoder, kernel = self.decoder, self.kernel
        if decoder == "auto" and self.growable:
            decoder = "ridge"  # the one that new examples can be added to
        if decoder in ("transpose", "greedy") and kernel == "auto":
            kernel = None  # they decode the projection itself
        penalty, left_out = _number_or_auto("decoder_ridge", self.decoder_ridge), _share("leave_out", self.leave_out)
        return Open(decoder, kernel, penalty, self.normalize, left_out)

    def _blend(self) -> OpenBlend:
        share = _share("sparse_share", self.sparse_share)
        if self.sparse == "alone":
            if share not in ("auto", 1.0):
                raise SettingsError(f"sparse='alone' leaves no room for sparse_share={share:g}; use sparse=True")
            share = 1.0
        cost = _number_or_auto("sparse_cost", self.sparse_cost, above=True)
        return OpenBlend(cost, _number_or_auto("sparse_power", self.sparse_power, above=True), share)

    def model_rows(self, X: Any) -> Any:
        """Features or texts as the model's rows, checked."""
        check_is_fitted(self)
        if self.text_ is not None and is_text(X):
            X = self.text_.transform(X)
        if self.text_ is not None and is_blocks(X):
            X = tuple(self.text_.transform(x) if is_text(x) else x for x in X)
        return self._features(X, reset=False)

    def _allowed(self, include: Iterable[Any] | None, exclude: Iterable[Any] | None) -> NDArray[np.int64] | None:
        if include is None and exclude is None:
            return None
        chosen = np.zeros(len(self.classes_), dtype=bool)
        chosen[slice(None) if include is None else self.model_columns(include)] = True
        chosen[self.model_columns(() if exclude is None else exclude)] = False
        return np.flatnonzero(chosen)

    def model_columns(self, labels: Iterable[Any]) -> list[int]:
        """The column numbers of labels; one that the model does not know is refused."""
        place = {label: column for column, label in enumerate(self.classes_.tolist())}
        wanted = [label.item() if isinstance(label, np.generic) else label for label in labels]
        unknown = [label for label in wanted if label not in place]
        if unknown:
            raise DataError(
                f"label {unknown[0]!r} is not one of the {len(place):,} that this model knows; see classes_"
            )
        return [place[label] for label in wanted]

    def _truth(self, y: Any) -> sparse.csr_array:
        """``y`` as a 0/1 matrix over this model's labels; labels it never saw are no column and never a hit."""
        targets = read_targets(y)
        place = {label: column for column, label in enumerate(self.classes_.tolist())}
        columns = np.array([place.get(label, -1) for label in targets.classes.tolist()])[targets.Y.indices]
        rows = np.repeat(np.arange(targets.Y.shape[0]), np.diff(targets.Y.indptr))
        known = columns >= 0
        shape = (targets.Y.shape[0], len(place))
        return sparse.csr_array((np.ones(known.sum(), np.float32), (rows[known], columns[known])), shape=shape)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_label = True
        return tags


def load(path: str | Path, verify: bool = True, device: str = "cpu") -> RembrandtClassifier:
    """The classifier saved in the folder ``path``; its weights stay on disk until they are used.

    ``verify=False`` skips the check sums: for a large model on a disk that is trusted. It predicts on ``device``.
    """
    place_for(device)
    model, text, facts = load_model(path, verify)
    regressor = facts["params"].get("regressor")
    if isinstance(regressor, dict):
        regressor = regressor_of(regressor)
    classifier = RembrandtClassifier(
        **facts["params"] | {"device": device, "regressor": regressor},
        text=None if text is None else TextFeatures(**text.get_params()),
    )
    classifier.model_ = model
    classifier.text_ = text
    joined = facts.get("joined")  # models of version 0.1 have none
    classifier.joined_ = None if joined is None else Joined(tuple(joined["widths"]), tuple(joined["lengths"]))
    classifier.classes_ = model.classes
    classifier.n_features_in_ = model.n_features
    classifier._dense_target = facts["dense_target"]
    classifier.selection_ = facts["selection"]
    classifier.blends_ = facts.get("blends", [])  # models of version 0.1 have none
    classifier.feature_names_ = facts["feature_names"]
    classifier.label_titles_ = facts["label_titles"]
    classifier.extra_ = facts["extra"]
    return classifier


def _worth(model: Model, tail: Tail) -> Array | None:
    """What a hit on each label counts, where it matters."""
    if tail is False or tail is True:
        return model.worth() if tail else None
    if not isinstance(tail, tuple | list) or len(tail) != 2:
        raise SettingsError(f"tail={tail!r} must be True, False or a pair of numbers (A, B)")
    check_number("tail's A", tail[0], 0.0)
    check_number("tail's B", tail[1], 0.0, above=True)
    return model.worth(*map(float, tail))


def _targets(data: Dataset) -> Targets:
    return Targets(data.Y, np.asarray(data.label_names), multiclass=data.task == "multiclass")


def _number_or_auto(name: str, value: Any, above: bool = False) -> float | Auto:
    if is_auto(value):
        return "auto"
    check_number(name, value, 0.0, above)
    return float(value)


def _share(name: str, value: Any) -> float | Auto:
    """From 0 to 1, or "auto"."""
    share = _number_or_auto(name, value)
    if share != "auto" and share > 1:
        raise SettingsError(f"{name}={value!r} must be a number from 0 to 1")
    return share
