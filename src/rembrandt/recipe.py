"""Recipes: every setting of a fit, and the values that presets and rules give to open ones."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from typing import Any

import numpy as np

from rembrandt.checks import check_whole, seed_of
from rembrandt.data.examples import Examples
from rembrandt.data.rows import label_feature_pairs
from rembrandt.errors import SettingsError
from rembrandt.linalg.sparse import is_sparse
from rembrandt.settings import (
    DECODERS,
    GENERAL,
    METHODS,
    PRESET_EMBEDDING,
    PRESET_TREES,
    SCORERS,
    UNSET,
    DecoderName,
    EmbeddingSettings,
    Method,
    Open,
    ScorerName,
    Threshold,
    TreeSettings,
    check_values,
    merged,
    set_values,
    with_defaults,
)

__all__ = [
    "DECODERS",
    "EMBEDDING_PARAMETERS",
    "LINEAR",
    "METHODS",
    "PRESETS",
    "SCORERS",
    "EmbeddingSettings",
    "Recipe",
    "TreeSettings",
    "as_json",
    "check",
    "resolve",
]

# Decoders without a kernel and a penalty.
LINEAR: tuple[DecoderName, ...] = ("transpose", "candidates")


@dataclass(frozen=True)
class Recipe:
    """Every setting that a fit depends on. "auto" marks what is still to be chosen on held-out
    examples.

    The fields have the names of the parameters of `RembrandtClassifier`. Settings of the embedding
    and the trees that are not set get their declared defaults, so that a recipe is complete.
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

    def __post_init__(self) -> None:
        object.__setattr__(self, "embedding", with_defaults(self.embedding))
        object.__setattr__(self, "trees", with_defaults(self.trees))

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
        check_values(vars(recipe))
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
PASSES = 10  # of trees whose cost is given, so that there is nothing to choose
# The scorers of each preset and the size of their parts. Held-out rows decide which of them a model
# keeps.
PRESETS: dict[str, Recipe] = {
    "fast": Recipe(
        ("trees", "centroids"), embedding=PRESET_EMBEDDING["fast"], trees=PRESET_TREES["fast"]
    ),
    "balanced": Recipe(
        SCORERS, embedding=PRESET_EMBEDDING["balanced"], trees=PRESET_TREES["balanced"]
    ),
    "best": Recipe(SCORERS, embedding=PRESET_EMBEDDING["best"], trees=PRESET_TREES["best"]),
}
# Parameters of the classifier that concern the embedding, with their defaults.
EMBEDDING_PARAMETERS: dict[str, Any] = {
    setting.name: setting.default
    for setting in GENERAL
    if setting.name
    in ("n_components", "method", "ridge", "decoder", "decoder_ridge", "kernel", "normalize")
}
EMBEDDING_PARAMETERS |= {"embedding": None, "regressor": None}


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
    scorers = _scorers(params, data)
    embedding, kernel = _embedding(params, data, scorers)
    threshold: Any = params["threshold"]
    if isinstance(threshold, str):
        if data.multiclass:
            # The best label is predicted, and there is no threshold to choose.
            threshold = 0.5
    else:
        threshold = float(threshold)
    names = EMBEDDING_PARAMETERS.keys() - {"embedding", "kernel"}
    recipe = Recipe(
        scorers=scorers,
        **{name: params[name] for name in names},
        kernel=kernel,
        embedding=embedding,
        trees=_trees(params, data),
        growable=bool(params["growable"]),
        threshold=threshold,
        seed=seed_of(params["random_state"]),
    )
    if recipe.growable and recipe.decoder == "auto":
        recipe = replace(recipe, decoder="ridge")  # more examples can be added to it in closed form
    if recipe.decoder in LINEAR and recipe.kernel == "auto":
        recipe = replace(recipe, kernel=None)
    # JSON has no numbers of NumPy.
    plain = Recipe.from_json(replace(recipe, regressor=None).to_json())
    return replace(plain, regressor=recipe.regressor)


def _trees(params: Mapping[str, Any], data: Examples) -> TreeSettings:
    """Return the settings of the trees: those of the user, of the preset and of rules on the
    data.
    """
    preset = PRESETS[params["preset"]].trees
    user: TreeSettings = params["trees"] or TreeSettings()
    sizes: dict[str, Any] = {}
    if _is_open(user.pairs):
        sizes["pairs"] = preset.pairs
        if params["preset"] == "fast":
            sizes["pairs"] = min(preset.pairs, FAST_ENTRIES * data.n / max(1, data.X.nnz))
    if _is_open(user.n_trees):
        sizes["n_trees"] = preset.n_trees
        if data.X.resident()[0] < data.n:
            affordable = STORED_WEIGHTS // max(1, label_feature_pairs(data.X, data.Y))
            sizes["n_trees"] = int(np.clip(affordable, 1, preset.n_trees))
    if _is_open(user.passes) and not _is_open(user.cost):
        sizes["passes"] = PASSES
    return replace(merged(preset, user), **sizes)


def _is_open(value: Any) -> bool:
    """Whether a user leaves the value of a setting to the preset or the data."""
    return value is UNSET or (isinstance(value, str) and value == "auto")


def _embedding(
    params: Mapping[str, Any], data: Examples, scorers: tuple[ScorerName, ...]
) -> tuple[EmbeddingSettings, Any]:
    """Return the settings of the embedding: those of the user, of the preset and of rules on the
    data; and the kernel.
    """
    embedding = merged(PRESETS[params["preset"]].embedding, params["embedding"])
    kernel = params["kernel"]
    if embedding.n_random_features is None:
        least, each = RIDGE_FLOPS["best" if params["budget"] else params["preset"]]
        # n D² for the Gram matrix and 2 c D² to solve for every label
        nonzeros = data.X.nnz + data.Y.nnz if _is_sparse(data) else 0
        affordable = ((least + each * nonzeros) / (data.n + 2 * data.n_labels)) ** 0.5
        embedding = replace(embedding, n_random_features=int(np.clip(affordable, *RANDOM_FEATURES)))
        if kernel == "auto" and affordable < RANDOM_FEATURES[0]:
            kernel = None
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
    return embedding, kernel


def check(params: Mapping[str, Any]) -> None:
    """Raise SettingsError for parameters that are out of range or do not go together."""
    check_values(params)
    if params.get("decoder") in LINEAR and params["kernel"] not in (None, "auto"):
        raise SettingsError(
            f"decoder={params['decoder']!r} does not use a kernel; set kernel=None", "kernel"
        )
    if params.get("growable") and params["decoder"] not in ("auto", "ridge"):
        raise SettingsError(
            "growable=True needs decoder='ridge', which can be updated in closed form", "decoder"
        )
    regressor = params.get("regressor")
    method = params.get("method")
    settings = vars(params.get("embedding") or EmbeddingSettings()) | dict(params)
    for name in ("label_power", "row_power"):
        if method == "pca" and settings[name] not in (0, "auto", UNSET):
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


def as_json(value: Any) -> Any:
    """Return a parameter as JSON: settings and mappings as dicts, without settings that are not
    set, and numbers of NumPy as those of Python.
    """
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, Mapping):
        return {name: as_json(item) for name, item in value.items() if item is not UNSET}
    if isinstance(value, np.generic):
        return value.item()
    return value


def _scorers(params: Mapping[str, Any], data: Examples) -> tuple[ScorerName, ...]:
    """Return the names of the scorers in the order in which they are fitted."""
    chosen = params["scorers"]
    wanted: set[Any] = set()
    if chosen == "auto":
        if params["growable"]:
            wanted = {"embedding"}  # the scorer that more examples can be added to
        elif params["preset"] == "fast" and not _trees_are_cheap(data):
            wanted = {"centroids", "embedding"}
        else:
            wanted = set(PRESETS[params["preset"]].scorers)
        # A part whose settings are set is wanted.
        if any(not _is_default(name, params[name]) for name in EMBEDDING_PARAMETERS):
            wanted.add("embedding")
        if params["trees"] is not None and set_values(params["trees"]):
            wanted.add("trees")
    elif isinstance(chosen, str):
        wanted = {chosen}
    else:
        wanted = set(chosen)
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
    """Whether a parameter of the embedding is not set, or set to its default."""
    if isinstance(value, EmbeddingSettings):
        return not set_values(value)
    default = EMBEDDING_PARAMETERS[name]
    return bool(value is default or value == default)
