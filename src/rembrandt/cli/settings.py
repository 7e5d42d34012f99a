"""Options with the parameters of `RembrandtClassifier` and `TextFeatures`, and how they become parameters."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from rembrandt.cli import options
from rembrandt.cli.options import ADVANCED, MODEL, TEXT, flag, option

if TYPE_CHECKING:
    from rembrandt.features.text import TextFeatures
    from rembrandt.recipe import Recipe

# These names are the library's; importing them would slow down every command.
Preset = Literal["fast", "balanced", "best"]
Method = Literal["rembrandt", "pca", "plst", "cs", "cca"]
Decoder = Literal["auto", "transpose", "ridge", "logistic"]
Kernel = Literal["auto", "none", "gaussian", "laplacian", "matern3", "matern5"]


# Fields of TreeSettings and their options.
TREES = {"n_trees": "n_trees", "pairs": "tree_pairs", "cost": "tree_cost", "power": "tree_power"}


def _auto(help: str, panel: str = ADVANCED, whole: bool = False) -> Any:
    """Return an option that takes a number or ``auto``."""
    parser, metavar = (options.whole_or_auto, "N|auto") if whole else (options.number_or_auto, "R|auto")
    return option(help, panel, parser=parser, metavar=metavar, show_default=False)


@dataclass(frozen=True)
class Settings:
    """Options of ``fit`` and ``tune`` that are parameters of the classifier."""

    preset: Annotated[Preset, option("Trade training time for accuracy.", MODEL)] = "balanced"
    budget: Annotated[
        Any,
        option(
            "Search this long for settings that are auto: 90s, 5m, 1h.", MODEL, parser=options.seconds, metavar="TIME"
        ),
    ] = None
    scorers: Annotated[
        Any,
        option(
            "Scorers of the model, separated by commas: trees, centroids, embedding; NAME=WEIGHT fixes the blend.",
            MODEL,
            parser=options.scorer_names,
            metavar="auto|NAMES",
        ),
    ] = "auto"
    n_components: options.Components = "auto"
    method: Annotated[Method, option("Label embedding.", MODEL)] = "rembrandt"
    ridge: Annotated[Any, _auto("Ridge penalty of the embedding's regression.", MODEL)] = "auto"
    decoder: Annotated[Decoder, option("From the embedding to labels.", MODEL)] = "auto"
    kernel: Annotated[Kernel, option("Kernel of the decoder.", MODEL)] = "auto"
    calibrate: Annotated[bool, flag("--calibrate", "Calibrate probabilities on held-out examples.", MODEL)] = False
    threshold: Annotated[
        Any,
        option(
            "Probability from which a label is predicted; micro and macro choose it by F1.",
            MODEL,
            parser=options.probability,
            metavar="P|micro|macro",
        ),
    ] = "0.5"
    growable: Annotated[bool, flag("--growable", "Keep what rembrandt update needs.", MODEL)] = False
    seed: options.Seed = 0
    device: options.Device = "cpu"
    decoder_ridge: Annotated[Any, _auto("Penalty of the decoder.")] = "auto"
    normalize: Annotated[Literal["auto", "yes", "no"], option("Scale examples to unit length.", ADVANCED)] = "auto"
    kernel_scale: Annotated[Any, _auto("Bandwidth of the kernel, in median distances between examples.")] = "auto"
    n_random_features: Annotated[Any, _auto("Random features of the kernel.", whole=True)] = "auto"
    leave_out: Annotated[Any, _auto("Share of an example's own labels hidden from the decoder.")] = "auto"
    n_trees: Annotated[Any, _auto("Number of trees.", whole=True)] = "auto"
    tree_pairs: Annotated[Any, _auto("Pairs of examples and nodes on the first level of a tree.")] = "auto"
    tree_cost: Annotated[Any, _auto("Weight of the loss against the penalty in the trees.")] = "auto"
    tree_power: Annotated[Any, _auto("Power of the hinge in a tree's probability.")] = "auto"
    n_iter: options.PowerIterations = 1

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of the classifier."""
        from rembrandt.recipe import EmbeddingSettings, TreeSettings

        found = dict(vars(self))
        found["random_state"] = found.pop("seed")
        found["kernel"] = None if self.kernel == "none" else self.kernel
        found["normalize"] = {"auto": "auto", "yes": True, "no": False}[self.normalize]
        embedding = {name: found.pop(name) for name in ("kernel_scale", "n_random_features", "leave_out", "n_iter")}
        embedding["n_random_features"] = None if self.n_random_features == "auto" else self.n_random_features
        trees = {name: found.pop(option) for name, option in TREES.items()}
        for name, kind, own in (("embedding", EmbeddingSettings, embedding), ("trees", TreeSettings, trees)):
            made = kind(**own)
            found[name] = None if made == kind() else made
        return found

    def with_recipe(self, recipe: Recipe) -> Settings:
        """Return the options that fit this recipe."""
        weights = zip(recipe.scorers, recipe.weights, strict=True)
        chosen: dict[str, Any] = {
            "budget": None,
            "scorers": recipe.scorers[0] if len(recipe.scorers) == 1 else dict(weights),
        }
        if "embedding" in recipe.scorers:
            chosen |= {name: getattr(recipe, name) for name in ("n_components", "ridge", "decoder", "decoder_ridge")}
            chosen |= {name: getattr(recipe.embedding, name) for name in ("kernel_scale", "leave_out")}
            chosen |= {"kernel": recipe.kernel or "none", "normalize": "yes" if recipe.normalize else "no"}
        if "trees" in recipe.scorers:
            chosen |= {option: getattr(recipe.trees, name) for name, option in TREES.items()}
        return replace(self, **chosen)


@dataclass(frozen=True)
class TextSettings:
    """Options that are parameters of `TextFeatures`."""

    analyzer: Annotated[
        Literal["word", "char"] | None, option("Features are words (the default) or characters.", TEXT)
    ] = None
    ngrams: Annotated[
        Any,
        option("Words or characters per feature: 1, 1-2, 3-4.", TEXT, parser=options.ngram_range, metavar="N|N-M"),
    ] = None
    hashed: Annotated[bool, flag("--hashed", "Hash features instead of learning a vocabulary.", TEXT)] = False

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of `TextFeatures` that were given."""
        given = {"analyzer": self.analyzer, "ngram_range": self.ngrams, "weighting": "hashed" if self.hashed else None}
        return {name: value for name, value in given.items() if value is not None}

    def features(self) -> TextFeatures:
        from rembrandt.features.text import TextFeatures

        return TextFeatures(**self.parameters())
