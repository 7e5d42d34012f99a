"""Every setting of a fit: the parameters, the presets, and the values that presets and rules give
to open ones.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from math import inf
from typing import Any, Literal, get_args

import numpy as np

from rembrandt.checks import check_among, check_number, check_whole, seed_of
from rembrandt.data.examples import Examples
from rembrandt.data.rows import label_feature_pairs
from rembrandt.errors import SettingsError
from rembrandt.features.fourier import KERNELS
from rembrandt.linalg.sparse import is_sparse

Auto = Literal["auto"]
Preset = Literal["fast", "balanced", "best"]
ScorerName = Literal["trees", "centroids", "embedding"]
Method = Literal["rembrandt", "pca", "plst", "cs", "cca"]
DecoderName = Literal["transpose", "ridge", "discriminant", "logistic", "candidates"]
SolverName = Literal["auto", "cholesky", "pcg"]
Threshold = float | Literal["micro", "macro"]
Open = Any  # a value, or "auto" until it is chosen

SCORERS: tuple[ScorerName, ...] = get_args(ScorerName)  # the order in which they are fitted
METHODS: tuple[Method, ...] = get_args(Method)
DECODERS: tuple[DecoderName, ...] = get_args(DecoderName)
LINEAR: tuple[DecoderName, ...] = (
    "transpose",
    "candidates",
)  # decoders without a kernel and a penalty


@dataclass(frozen=True)
class EmbeddingSettings:
    """Rarely used settings of the label embedding and its decoder.

    Parameters
    ----------
    kernel_scale : float or "auto", default="auto"
        Bandwidth of the kernel, in units of the median distance between projected examples.
    n_random_features : int, default=None
        Number of random Fourier features. None chooses 1,000 to 4,000 by the number of examples and
        the preset.
    label_power : float or "auto", default=0.0
        Power β, from 0 to 1, of a label's number of examples by which its column of Y is divided
        before the labels are embedded. 0 is the paper's algorithm; ¼ or ½ hold rare labels better.
        "auto" chooses on held-out examples.
    row_power : float or "auto", default=0.0
        The same for an example's number of labels: ½ keeps examples with many labels from
        dominating the embedding.
    label_ridge : float, default=None
        Ridge of the whitening of the labels in ``method="cca"``, relative to the mean squared
        length of a label; None is that of the features. Near 0 rare labels count as much as
        frequent ones.
    projection_ridge : float, default=None
        Ridge of the projection of the features on a finished embedding; None is that of the
        embedding. The authors' code uses a millionth of it.
    leave_out : float or "auto", default="auto"
        Fraction, from 0 to 1, of an example's own labels that is removed from its projection before
        the decoder is fitted. A regression on many features fits its training examples too well;
        the decoder should not rely on it.
    proposes : bool or "auto", default="auto"
        Search all labels for the best; otherwise the embedding scores the labels that other scorers
        propose, which is much faster with many labels. "auto" searches up to some ten thousand
        labels.
    n_oversamples : int, default=20
        Additional columns of the randomized eigensolver.
    n_iter : int, default=1
        Power iterations of the randomized eigensolver.
    solver : {"auto", "cholesky", "pcg"}, default="auto"
        Solver of the ridge regressions: exact for few features, conjugate gradients for many.
    tol : float, default=0.02
        Relative residual at which conjugate gradients stop.
    max_iter : int, default=10
        Maximum number of conjugate gradient iterations.
    center : bool, default=False
        Subtract the means of features and labels instead of appending a constant feature.
    max_epochs : int, default=40
        Maximum number of passes of the logistic decoder.
    """

    kernel_scale: Open = "auto"
    n_random_features: int | None = None
    label_power: Open = 0.0
    row_power: Open = 0.0
    label_ridge: float | None = None
    projection_ridge: float | None = None
    leave_out: Open = "auto"
    proposes: Open = "auto"
    n_oversamples: int = 20
    n_iter: int = 1
    solver: SolverName = "auto"
    tol: float = 0.02
    max_iter: int = 10
    center: bool = False
    max_epochs: int = 40


@dataclass(frozen=True)
class TreeSettings:
    """Settings of the trees of sparse linear classifiers.

    Parameters
    ----------
    n_trees : int or "auto", default="auto"
        Number of trees, each with its own clusters of labels. Their scores are averaged. "auto" is
        that of the preset, 3, 5 or 8; fewer for a large store, whose trees would not fit in memory.
    pairs : float or "auto", default="auto"
        Budget of the first level, in pairs of examples and nodes: larger is slower and more
        accurate. Where all examples × labels fit into it, there are no clusters and each label is
        learned against all examples. "auto" is that of the preset; "fast" lowers it for rows with
        many non-zero features.
    cost : float or "auto", default="auto"
        Weight C of the squared hinge loss against the penalty on the weights.
    power : float, default=3.0
        Power of the hinge in the probability of a node.
    threshold : float, default=0.1
        Weights smaller than this are dropped, and with a cost below 1 those smaller than this times
        the cost.
    tolerance : float, default=0.2
        Projected gradient at which coordinate descent stops.
    passes : int or "auto", default="auto"
        Maximum number of passes over the examples of a node. Few passes stop early, which helps
        where labels have few examples. "auto" tries 6 and 12 on held-out examples where labels are
        clustered, and is 6 where they are not; 10 where the cost is given.
    beam : int, default=10
        Number of clusters that prediction visits for each row.
    """

    n_trees: Open = "auto"
    pairs: Open = "auto"
    cost: Open = "auto"
    power: float = 3.0
    threshold: float = 0.1
    tolerance: float = 0.2
    passes: Open = "auto"
    beam: int = 10


@dataclass(frozen=True)
class Recipe:
    """Every setting that a fit depends on. "auto" marks what is still to be chosen on held-out
    examples.

    The fields have the names of the parameters of `RembrandtClassifier`.
    """

    scorers: tuple[ScorerName, ...] = ("embedding",)
    n_components: Open = "auto"
    method: Method = "rembrandt"
    ridge: Open = 1.0
    decoder: Open = "ridge"
    decoder_ridge: Open = 0.1
    kernel: Open = None
    normalize: Open = False
    regressor: Any = None
    embedding: EmbeddingSettings = field(default_factory=EmbeddingSettings)
    trees: TreeSettings = field(default_factory=TreeSettings)
    growable: bool = False
    threshold: Threshold = "micro"
    seed: int = 0

    def with_embedding(self, **changes: Any) -> "Recipe":
        """Change settings of the embedding."""
        return replace(self, embedding=replace(self.embedding, **changes))

    def with_trees(self, **changes: Any) -> "Recipe":
        """Change settings of the trees."""
        return replace(self, trees=replace(self.trees, **changes))

    def to_json(self) -> dict[str, Any]:
        """Return the recipe as JSON; a regressor is named by its representation."""
        named = None if self.regressor is None else repr(self.regressor)
        return dict(as_json(replace(self, regressor=None))) | {"regressor": named}

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> "Recipe":
        """Rebuild the recipe that `to_json` returned, and check it. Keys that are no fields are
        ignored.
        """
        try:
            known = {f.name: facts[f.name] for f in fields(cls) if f.name in facts}
            known["embedding"] = EmbeddingSettings(**facts["embedding"])
            known["trees"] = TreeSettings(**facts["trees"])
            known["scorers"] = tuple(facts["scorers"])
        except (KeyError, TypeError) as cause:
            raise SettingsError(f"these are not the settings of a fit: {cause}") from cause
        if known.get("regressor") is not None:
            raise SettingsError(
                f"the regressor {known['regressor']} cannot be rebuilt from JSON; pass the object",
                "regressor",
            )
        recipe = cls(**known)
        _check_values(vars(recipe))
        check_whole("seed", recipe.seed, 0)
        if not recipe.scorers or any(name not in SCORERS for name in recipe.scorers):
            raise SettingsError(
                f"scorers={recipe.scorers!r} are not the scorers of a fit", "scorers"
            )
        return recipe


RANDOM_FEATURES = 1000, 4000  # the fewest and the most: with fewer, a kernel is no better than none
# Of all trees that a preset fits to a store, at most: they are in memory, the store is not
STORED_WEIGHTS = 1.5e8
FAST_ENTRIES = (
    8e8  # nodes × non-zero features on the first level of a tree of the preset fast, at most
)
CHEAP_TREES = 1e8  # non-zero features × labels below which trees take a second
SEARCHED = 3e7  # labels × random features, up to which the embedding proposes labels itself
# Operations that a ridge regression on random features may take: at least so many, and more for
# each non-zero feature and label, as the other parts of a fit do.
RIDGE_FLOPS = {"fast": (7e9, 2e4), "balanced": (1.5e10, 1.5e4), "best": (4e10, 1.5e5)}
_OPEN = EmbeddingSettings(
    label_power="auto", row_power="auto", tol=0.25
)  # as good in a blend, in half the time
_TREES = TreeSettings(n_trees=5, pairs=3e7)
PASSES = 10  # of trees whose cost is given, so that there is nothing to choose
# The scorers of each preset and the size of their parts. Held-out rows decide which of them a model
# keeps.
PRESETS = {
    "fast": Recipe(("trees", "centroids"), embedding=_OPEN, trees=replace(_TREES, n_trees=3)),
    "balanced": Recipe(SCORERS, embedding=_OPEN, trees=_TREES),
    "best": Recipe(SCORERS, embedding=_OPEN, trees=replace(_TREES, n_trees=8, pairs=3e8)),
}
EMBEDDING_PARAMETERS: dict[str, Any] = {  # with their defaults
    **dict.fromkeys(
        ("n_components", "ridge", "decoder", "decoder_ridge", "kernel", "normalize"), "auto"
    ),
    **dict.fromkeys(("embedding", "regressor")),
    "method": "rembrandt",
}


def resolve(params: Mapping[str, Any], data: Examples) -> Recipe:
    """Check a classifier's parameters and fill in what the preset and the data decide; the rest
    stays "auto".

    Parameters
    ----------
    params : mapping
        Parameters of `RembrandtClassifier` by name.
    data : Examples
        Training examples.

    Returns
    -------
    Recipe
    """
    check(params)
    own = PRESETS[params["preset"]].trees
    trees = params["trees"] or TreeSettings()
    sizes: dict[str, Any] = {
        name: getattr(own, name) for name in ("n_trees", "pairs") if getattr(trees, name) == "auto"
    }
    if trees.pairs == "auto" and params["preset"] == "fast":
        sizes["pairs"] = min(own.pairs, FAST_ENTRIES * data.n / max(1, data.X.nnz))
    if trees.cost != "auto" and trees.passes == "auto":
        sizes["passes"] = PASSES
    if trees.n_trees == "auto" and data.X.resident()[0] < data.n:
        sizes["n_trees"] = int(
            np.clip(STORED_WEIGHTS // max(1, label_feature_pairs(data.X, data.Y)), 1, own.n_trees)
        )
    embedding = params["embedding"] or PRESETS[params["preset"]].embedding
    kernel = params["kernel"]
    if embedding.n_random_features is None:
        least, each = RIDGE_FLOPS["best" if params["budget"] else params["preset"]]
        # n D² for the Gram matrix and 2 c D² to solve for every label
        nonzeros = data.X.nnz + data.Y.nnz if _is_sparse(data) else 0
        affordable = ((least + each * nonzeros) / (data.n + 2 * data.n_labels)) ** 0.5
        embedding = replace(embedding, n_random_features=int(np.clip(affordable, *RANDOM_FEATURES)))
        kernel = None if kernel == "auto" and affordable < RANDOM_FEATURES[0] else kernel
    scorers = _scorers(params, data)
    if embedding.proposes == "auto":
        searched = data.n_labels * (embedding.n_random_features or 0) <= SEARCHED
        searched = searched and params["decoder"] != "candidates"
        embedding = replace(embedding, proposes=scorers == ("embedding",) or searched)
    if params["decoder"] == "candidates" and embedding.proposes:
        raise SettingsError(
            "decoder='candidates' scores labels that other scorers propose; add scorers, and leave "
            "proposes=False",
            "decoder",
        )
    if not embedding.proposes and scorers == ("embedding",):
        raise SettingsError(
            "proposes=False needs another scorer, whose labels the embedding scores", "proposes"
        )
    # With one label a row the best label is predicted, and there is no threshold to choose.
    threshold: Any = (
        0.5 if data.multiclass and isinstance(params["threshold"], str) else params["threshold"]
    )
    recipe = Recipe(
        scorers=scorers,
        **{name: params[name] for name in EMBEDDING_PARAMETERS if name != "embedding"}
        | {"kernel": kernel},
        embedding=embedding,
        trees=replace(trees, **sizes),
        growable=bool(params["growable"]),
        threshold=threshold if threshold in ("micro", "macro") else float(threshold),
        seed=seed_of(params["random_state"]),
    )
    if recipe.growable and recipe.decoder == "auto":
        recipe = replace(recipe, decoder="ridge")  # more examples can be added to it in closed form
    if recipe.decoder in LINEAR and recipe.kernel == "auto":
        recipe = replace(recipe, kernel=None)
    plain = Recipe.from_json(
        replace(recipe, regressor=None).to_json()
    )  # without the numbers of NumPy
    return replace(plain, regressor=recipe.regressor)


_WHOLE = {
    "n_components": 1,
    "n_random_features": 1,
    "n_oversamples": 0,
    "n_iter": 0,
    "max_iter": 1,
    "max_epochs": 1,
}
_WHOLE |= {"n_trees": 1, "passes": 1, "beam": 1}  # with the smallest value
_POSITIVE = ("kernel_scale", "pairs", "cost", "power", "tolerance", "budget")
_NUMBERS = {
    "ridge": inf,
    "decoder_ridge": inf,
    "leave_out": 1.0,
    "tol": inf,
}  # from 0, with the largest value
_NUMBERS |= {"label_power": 1.0, "row_power": 1.0, "label_ridge": inf, "projection_ridge": inf}
_OPTIONAL = ("n_random_features", "budget", "label_ridge", "projection_ridge")
_SWITCHES = ("normalize", "center", "growable", "proposes")
_NAMES: dict[str, tuple[Any, ...]] = dict.fromkeys(_SWITCHES, (True, False))
_NAMES |= {
    "preset": tuple(PRESETS),
    "method": METHODS,
    "decoder": DECODERS,
    "kernel": (None, *KERNELS),
}
_NAMES["solver"] = get_args(SolverName)


def check(params: Mapping[str, Any]) -> None:
    """Raise SettingsError for parameters that are out of range or do not go together."""
    _check_values(params)
    if params.get("decoder") in LINEAR and params["kernel"] not in (None, "auto"):
        raise SettingsError(
            f"decoder={params['decoder']!r} does not use a kernel; set kernel=None", "kernel"
        )
    if params.get("growable") and params["decoder"] not in ("auto", "ridge"):
        raise SettingsError(
            "growable=True needs decoder='ridge', which can be updated in closed form", "decoder"
        )
    regressor, method = params.get("regressor"), params.get("method")
    settings = vars(params.get("embedding") or EmbeddingSettings()) | dict(params)
    for name in ("label_power", "row_power"):
        if method == "pca" and settings[name] not in (0, "auto"):
            raise SettingsError(
                f"{name}={settings[name]!r} scales labels, and method='pca' embeds the features; "
                f"use {name}=0",
                name,
            )
    missing = [name for name in ("fit", "predict") if not callable(getattr(regressor, name, None))]
    if regressor is not None and (missing or isinstance(regressor, type)):
        raise SettingsError(
            f"regressor={regressor!r} must be None or an object with fit and predict", "regressor"
        )
    if regressor is not None and method != "rembrandt":
        raise SettingsError(
            f"method={method!r} has no regression step that a regressor replaces; use "
            "method='rembrandt'",
            "regressor",
        )


def _check_values(params: Mapping[str, Any]) -> None:
    """Raise SettingsError for a parameter that is out of range."""
    for name, value in params.items():
        if (name in _OPTIONAL and value is None) or (isinstance(value, str) and value == "auto"):
            continue
        if name in _WHOLE:
            check_whole(name, value, _WHOLE[name])
        elif name in _POSITIVE:
            check_number(name, value, 0.0, above=True)
        elif name in _NUMBERS:
            check_number(name, value, 0.0, most=_NUMBERS[name])
        elif name in _NAMES:
            check_among(name, value, _NAMES[name])
        elif name == "threshold" and isinstance(value, str):
            check_among(name, value, ("micro", "macro"))
        elif name == "threshold":  # a number, of the classifier or of the trees
            check_number(name, value, 0.0)
    for name, kind in (("embedding", EmbeddingSettings), ("trees", TreeSettings)):
        value = params.get(name)
        if value is None:
            continue
        if not isinstance(value, kind):
            raise SettingsError(f"{name}={value!r} must be None or {kind.__name__}(...)", name)
        _check_values(vars(value))


def as_json(value: Any) -> Any:
    """Return a parameter as JSON: settings and mappings as dicts, numbers of NumPy as those of
    Python.
    """
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, Mapping):
        return {name: as_json(item) for name, item in value.items()}
    return value.item() if isinstance(value, np.generic) else value


def _scorers(params: Mapping[str, Any], data: Examples) -> tuple[ScorerName, ...]:
    """Return the names of the scorers in the order in which they are fitted."""
    given = params["scorers"]
    if given == "auto":
        wanted: set[Any] = set(PRESETS[params["preset"]].scorers)
        tuned = any(not _is_default(name, params[name]) for name in EMBEDDING_PARAMETERS)
        if params["growable"]:
            wanted = {"embedding"}  # the scorer that more examples can be added to
        elif params["preset"] == "fast" and not _trees_are_cheap(data):
            wanted = {"centroids", "embedding"}
        wanted |= ({"embedding"} if tuned else set()) | (
            {"trees"} if params["trees"] is not None else set()
        )
    else:
        wanted = {given} if isinstance(given, str) else set(given)
        if not wanted or wanted - set(SCORERS):
            raise SettingsError(
                f"scorers={given!r} must be 'auto' or names among {', '.join(map(repr, SCORERS))}",
                "scorers",
            )
    if params["growable"] and wanted != {"embedding"}:
        raise SettingsError(
            "growable=True needs scorers=('embedding',): other scorers cannot be updated without "
            "the training examples",
            "growable",
        )
    return tuple(name for name in SCORERS if name in wanted)


def _trees_are_cheap(data: Examples) -> bool:
    """Whether trees take less time than the embedding, or little: they skip zeros, and it factors a
    d × d matrix.
    """
    return _is_sparse(data) and data.X.nnz * data.n_labels < max(
        CHEAP_TREES, float(data.X.shape[1]) ** 3
    )


def _is_sparse(data: Examples) -> bool:
    return is_sparse(data.X[:0])


def _is_default(name: str, value: Any) -> bool:
    default = EMBEDDING_PARAMETERS[name]
    return bool(value is default or (not is_dataclass(value) and value == default))
