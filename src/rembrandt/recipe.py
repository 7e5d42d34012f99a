"""Every setting of a fit: the parameters, the presets, and the values that presets and rules give to open ones."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from math import inf
from typing import Any, Literal, get_args

import numpy as np

from rembrandt.checks import check_among, check_number, check_whole, seed_of
from rembrandt.data.examples import Examples
from rembrandt.errors import SettingsError
from rembrandt.features.fourier import KERNELS

Auto = Literal["auto"]
Preset = Literal["fast", "balanced", "best"]
ScorerName = Literal["trees", "centroids", "embedding"]
Method = Literal["rembrandt", "pca", "plst", "cs", "cca"]
DecoderName = Literal["transpose", "ridge", "logistic"]
SolverName = Literal["auto", "cholesky", "pcg"]
Threshold = float | Literal["micro", "macro"]
Open = Any  # a value, or "auto" until it is chosen

SCORERS: tuple[ScorerName, ...] = get_args(ScorerName)  # the order in which they are fitted
METHODS: tuple[Method, ...] = get_args(Method)
DECODERS: tuple[DecoderName, ...] = get_args(DecoderName)
MANY_LABELS = 5_000  # beyond this "best" uses trees alone
COST_FEW, COST_MANY = 3.0, 0.3  # of trees, where labels have four examples and where they have forty or more


@dataclass(frozen=True)
class EmbeddingSettings:
    """Rarely used settings of the label embedding and its decoder.

    Parameters
    ----------
    kernel_scale : float or "auto", default="auto"
        Bandwidth of the kernel, in units of the median distance between projected examples.
    n_random_features : int, default=None
        Number of random Fourier features. None chooses 1,000 to 4,000 by the number of examples.
    label_power : float or "auto", default=0.0
        Power β, from 0 to 1, of a label's number of examples by which its column of Y is divided before the labels are
        embedded. 0 is the paper's algorithm; ¼ or ½ hold rare labels better. "auto" chooses on held-out examples.
    row_power : float or "auto", default=0.0
        The same for an example's number of labels: ½ keeps examples with many labels from dominating the embedding.
    label_ridge : float, default=None
        Ridge of the whitening of the labels in ``method="cca"``, relative to the mean squared length of a label; None
        is that of the features. Near 0 rare labels count as much as frequent ones.
    projection_ridge : float, default=None
        Ridge of the projection of the features on a finished embedding; None is that of the embedding. The authors'
        code uses a millionth of it.
    leave_out : float or "auto", default="auto"
        Fraction, from 0 to 1, of an example's own labels that is removed from its projection before the decoder is
        fitted. A regression on many features fits its training examples too well; the decoder should not rely on it.
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
        Number of trees, each with its own clusters of labels. Their scores are averaged.
    pairs : float or "auto", default="auto"
        Budget of the first level, in pairs of examples and nodes: larger is slower and more accurate. Where all
        examples × labels fit into it, there are no clusters and each label is learned against all examples.
    cost : float or "auto", default="auto"
        Weight C of the squared hinge loss against the penalty on the weights.
    power : float or "auto", default="auto"
        Power of the hinge in the probability of a node.
    threshold : float, default=0.05
        Weights smaller than this are dropped.
    tolerance : float, default=0.3
        Projected gradient at which coordinate descent stops.
    passes : int, default=12
        Maximum number of passes over the examples of a node.
    beam : int, default=10
        Number of clusters that prediction visits for each row.
    """

    n_trees: Open = "auto"
    pairs: Open = "auto"
    cost: Open = "auto"
    power: Open = "auto"
    threshold: float = 0.05
    tolerance: float = 0.3
    passes: int = 12
    beam: int = 10


@dataclass(frozen=True)
class Recipe:
    """Every setting that a fit depends on. "auto" marks what is still to be chosen on held-out examples.

    The fields have the names of the parameters of `RembrandtClassifier`. ``blend`` holds the weight of each scorer.
    """

    scorers: tuple[ScorerName, ...] = ("embedding",)
    blend: tuple[float, ...] | Auto = "auto"
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
    calibrate: bool = False
    threshold: Threshold = 0.5
    seed: int = 0

    def with_embedding(self, **changes: Any) -> "Recipe":
        """Change settings of the embedding."""
        return replace(self, embedding=replace(self.embedding, **changes))

    def with_trees(self, **changes: Any) -> "Recipe":
        """Change settings of the trees."""
        return replace(self, trees=replace(self.trees, **changes))

    @property
    def weights(self) -> tuple[float, ...]:
        """Weight of each scorer in the blend; equal where none was chosen."""
        return (1 / len(self.scorers),) * len(self.scorers) if isinstance(self.blend, str) else self.blend

    def to_json(self) -> dict[str, Any]:
        """Return the recipe as JSON; a regressor is named by its representation."""
        named = None if self.regressor is None else repr(self.regressor)
        return dict(as_json(replace(self, regressor=None))) | {"regressor": named}

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> "Recipe":
        """Rebuild the recipe that `to_json` returned. Keys that are no fields are ignored."""
        known = {f.name: facts[f.name] for f in fields(cls) if f.name in facts}
        if known.get("regressor") is not None:
            raise SettingsError(
                f"the regressor {known['regressor']} cannot be rebuilt from JSON; pass the object", "regressor"
            )
        known["embedding"] = EmbeddingSettings(**facts["embedding"])
        known["trees"] = TreeSettings(**facts["trees"])
        known["scorers"] = tuple(facts["scorers"])
        if facts["blend"] != "auto":
            known["blend"] = tuple(facts["blend"])
        return cls(**known)


PRESETS = {  # the scorers, and the settings of trees that are used where a parameter is "auto"
    "fast": Recipe(("trees",), trees=TreeSettings(n_trees=1, pairs=3e7, power=3.0)),
    "balanced": Recipe(("embedding",), trees=TreeSettings(n_trees=2, pairs=3e7)),
    "best": Recipe(("trees", "embedding"), trees=TreeSettings(n_trees=3, pairs=3e8)),
}
EMBEDDING_PARAMETERS: dict[str, Any] = {  # with their defaults
    **dict.fromkeys(("n_components", "ridge", "decoder", "decoder_ridge", "kernel", "normalize"), "auto"),
    **dict.fromkeys(("embedding", "regressor")),
    "method": "rembrandt",
}


def resolve(params: Mapping[str, Any], data: Examples) -> Recipe:
    """Check a classifier's parameters and fill in what the preset and the data decide; the rest stays "auto".

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
    trees = params["trees"] or TreeSettings()
    scorers, blend = _scorers(params, data)
    embedding = params["embedding"] or EmbeddingSettings()
    if embedding.kernel_scale == "auto" and params["budget"] is None:
        embedding = replace(embedding, kernel_scale=1.0)
    filled = dict(vars(PRESETS[params["preset"]].trees))
    if params["budget"] is not None:
        filled.pop("power")
    elif data.n_labels > MANY_LABELS:  # a sample of the examples would hardly have a label twice to choose on
        filled |= {"cost": usual_cost(data.per_label), "power": 3.0}
    elif params["preset"] != "balanced":
        filled["cost"] = usual_cost(data.per_label)
    trees = replace(trees, **{name: value for name, value in filled.items() if getattr(trees, name) == "auto"})
    # With one label a row the best label is predicted, and there is no threshold to choose.
    threshold: Any = 0.5 if data.multiclass and isinstance(params["threshold"], str) else params["threshold"]
    recipe = Recipe(
        scorers=scorers,
        blend=blend,
        **{name: params[name] for name in EMBEDDING_PARAMETERS if name != "embedding"},
        embedding=embedding,
        trees=trees,
        growable=bool(params["growable"]),
        calibrate=bool(params["calibrate"]),
        threshold=threshold if threshold in ("micro", "macro") else float(threshold),
        seed=seed_of(params["random_state"]),
    )
    if recipe.ridge == "auto" and params["budget"] is None:
        recipe = replace(recipe, ridge=1.0)
    if recipe.growable and recipe.decoder == "auto":
        recipe = replace(recipe, decoder="ridge")  # more examples can be added to it in closed form
    if recipe.decoder == "transpose" and recipe.kernel == "auto":
        recipe = replace(recipe, kernel=None)
    plain = Recipe.from_json(replace(recipe, regressor=None).to_json())  # without the numbers of NumPy
    return replace(plain, regressor=recipe.regressor)


_WHOLE = {"n_components": 1, "n_random_features": 1, "n_oversamples": 0, "n_iter": 0, "max_iter": 1, "max_epochs": 1}
_WHOLE |= {"n_trees": 1, "passes": 1, "beam": 1}  # with the smallest value
_POSITIVE = ("kernel_scale", "pairs", "cost", "power", "tolerance", "budget")
_NUMBERS = {"ridge": inf, "decoder_ridge": inf, "leave_out": 1.0, "tol": inf}  # from 0, with the largest value
_NUMBERS |= {"label_power": 1.0, "row_power": 1.0, "label_ridge": inf, "projection_ridge": inf}
_OPTIONAL = ("n_random_features", "budget", "label_ridge", "projection_ridge")
_NAMES: dict[str, tuple[Any, ...]] = dict.fromkeys(("normalize", "center", "growable", "calibrate"), (True, False))
_NAMES |= {"preset": tuple(PRESETS), "method": METHODS, "decoder": DECODERS, "kernel": (None, *KERNELS)}
_NAMES["solver"] = get_args(SolverName)


def check(params: Mapping[str, Any]) -> None:
    """Raise SettingsError for parameters that are out of range or do not go together."""
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
        check(vars(value))
    if params.get("decoder") == "transpose" and params["kernel"] not in (None, "auto"):
        raise SettingsError("decoder='transpose' does not use a kernel; set kernel=None", "kernel")
    if params.get("growable") and params["decoder"] not in ("auto", "ridge"):
        raise SettingsError("growable=True needs decoder='ridge', which can be updated in closed form", "decoder")
    regressor, method = params.get("regressor"), params.get("method")
    settings = vars(params.get("embedding") or EmbeddingSettings()) | dict(params)
    for name in ("label_power", "row_power"):
        if method == "pca" and settings[name] not in (0, "auto"):
            raise SettingsError(
                f"{name}={settings[name]!r} scales labels, and method='pca' embeds the features; use {name}=0", name
            )
    missing = [name for name in ("fit", "predict") if not callable(getattr(regressor, name, None))]
    if regressor is not None and (missing or isinstance(regressor, type)):
        raise SettingsError(f"regressor={regressor!r} must be None or an object with fit and predict", "regressor")
    if regressor is not None and method != "rembrandt":
        raise SettingsError(
            f"method={method!r} has no regression step that a regressor replaces; use method='rembrandt'", "regressor"
        )


def as_json(value: Any) -> Any:
    """Return a parameter as JSON: settings and mappings as dicts, numbers of NumPy as those of Python."""
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, Mapping):
        return {name: as_json(item) for name, item in value.items()}
    return value.item() if isinstance(value, np.generic) else value


def usual_cost(per_label: float) -> float:
    """Cost of the trees where it is not chosen on held-out examples, by the mean number of examples of a label."""
    return float(np.clip(12 / max(per_label, 1e-9), COST_MANY, COST_FEW))


def _scorers(params: Mapping[str, Any], data: Examples) -> tuple[tuple[ScorerName, ...], tuple[float, ...] | Auto]:
    """Return the names of the scorers in their order, and their weights where they are given or there is one."""
    given = params["scorers"]
    if given == "auto":
        wanted: set[Any] = set(PRESETS[params["preset"]].scorers)
        tuned = any(not _is_default(name, params[name]) for name in EMBEDDING_PARAMETERS)
        on_disk = data.X.resident()[0] < data.n
        if params["budget"] is not None:  # a search tries both, but trees need all rows in memory
            wanted = {"embedding"} if on_disk else {"trees", "embedding"}
        elif params["preset"] == "best" and data.n_labels > MANY_LABELS:
            wanted = {"trees"}
        if params["growable"]:
            wanted = {"embedding"}  # the scorer that more examples can be added to
        wanted |= ({"embedding"} if tuned else set()) | ({"trees"} if params["trees"] is not None else set())
    else:
        wanted = {given} if isinstance(given, str) else set(given)
        if not wanted or wanted - set(SCORERS):
            raise SettingsError(
                f"scorers={given!r} must be 'auto', names among {', '.join(map(repr, SCORERS))}, or a mapping from "
                "names to weights",
                "scorers",
            )
    if params["growable"] and wanted != {"embedding"}:
        raise SettingsError(
            "growable=True needs scorers=('embedding',): other scorers cannot be updated without the training examples",
            "growable",
        )
    names = tuple(name for name in SCORERS if name in wanted)
    if isinstance(given, Mapping):
        for name in names:
            check_number("scorers", given[name], 0.0)
        total = sum(given[name] for name in names)
        if total == 0:
            raise SettingsError(f"scorers={given!r} has no positive weight", "scorers")
        return names, tuple(float(given[name]) / total for name in names)
    return names, (1.0,) if len(names) == 1 else "auto"


def _is_default(name: str, value: Any) -> bool:
    default = EMBEDDING_PARAMETERS[name]
    return value is default or (isinstance(value, str) and value == default)
