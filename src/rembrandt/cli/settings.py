"""Options with the parameters of `RembrandtClassifier` and `TextFeatures`, and how they become
parameters.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from rembrandt.cli import options
from rembrandt.cli.options import (
    ADVANCED,
    MODEL,
    TEXT,
    flag,
    ngram_range,
    option,
    parsed,
    scorer_names,
    seconds,
)

if TYPE_CHECKING:
    from rembrandt.features.text import TextFeatures
    from rembrandt.recipe import Recipe

# These names are the library's; importing them would slow down every command.
Preset = Literal["fast", "balanced", "best"]
Decoder = Literal["auto", "transpose", "ridge", "discriminant", "logistic", "candidates"]
Kernel = Literal["auto", "none", "gaussian", "laplacian", "matern3", "matern5"]

# Options that are fields of EmbeddingSettings, and of TreeSettings under another name.
EMBEDDING = ("kernel_scale", "n_random_features", "leave_out", "label_power", "row_power", "n_iter")
TREES = {"n_trees": "n_trees"} | {name: f"tree_{name}" for name in ("pairs", "cost", "passes")}


@dataclass(frozen=True)
class Settings:
    """Options of ``fit`` and ``tune`` that are parameters of the classifier."""

    preset: Annotated[Preset, option("Trade training time for accuracy.", MODEL)] = "balanced"
    budget: Annotated[
        Any, parsed("Search this long for settings: 90s, 5m, 1h.", MODEL, "TIME", seconds)
    ] = None
    scorers: Annotated[
        Any,
        parsed(
            "trees, centroids, embedding, separated by commas.", MODEL, "auto|NAMES", scorer_names
        ),
    ] = "auto"
    n_components: options.Components = "auto"
    method: options.Method = "rembrandt"
    ridge: Annotated[
        Any, parsed("Ridge penalty of the embedding's regression.", MODEL, "R|auto")
    ] = "auto"
    decoder: Annotated[Decoder, option("From the embedding to labels.", MODEL)] = "auto"
    kernel: Annotated[Kernel, option("Kernel of the decoder.", MODEL)] = "auto"
    threshold: Annotated[
        Any,
        parsed(
            "Least probability of predicted labels; micro, macro: for the best F1.",
            MODEL,
            "P|micro|macro",
        ),
    ] = "micro"
    growable: Annotated[bool, flag("--growable", "Keep what exact updates need.", MODEL)] = False
    seed: options.Seed = 0
    device: options.Device = "cpu"
    decoder_ridge: Annotated[Any, parsed("Penalty of the decoder.", ADVANCED, "R|auto")] = "auto"
    normalize: Annotated[
        Literal["auto", "yes", "no"], option("Scale examples to unit length.", ADVANCED)
    ] = "auto"
    kernel_scale: Annotated[
        Any, parsed("Bandwidth, in median distances of examples.", ADVANCED, "R|auto")
    ] = "auto"
    n_random_features: Annotated[
        int | None, option("Random features of the kernel.", ADVANCED, metavar="N")
    ] = None
    label_power: Annotated[
        Any, parsed("Divide labels by this power of their counts.", ADVANCED, "R|auto")
    ] = "auto"
    row_power: Annotated[
        Any, parsed("The same for the labels of an example.", ADVANCED, "R|auto")
    ] = "auto"
    leave_out: Annotated[
        Any, parsed("Share of own labels hidden from the decoder.", ADVANCED, "R|auto")
    ] = "auto"
    n_trees: Annotated[Any, parsed("Number of trees.", ADVANCED, "N|auto")] = "auto"
    tree_pairs: Annotated[
        Any, parsed("Examples × nodes on a tree's first level.", ADVANCED, "R|auto")
    ] = "auto"
    tree_cost: Annotated[
        Any, parsed("Weight of the loss against the penalty.", ADVANCED, "R|auto")
    ] = "auto"
    tree_passes: Annotated[
        Any, parsed("Passes over the examples of a node.", ADVANCED, "N|auto")
    ] = "auto"
    n_iter: options.PowerIterations = 1

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of the classifier; refuse values that are out of range."""
        from rembrandt.recipe import EmbeddingSettings, TreeSettings, check

        parameters = dict(vars(self))
        embedding = EmbeddingSettings(**{name: parameters.pop(name) for name in EMBEDDING})
        trees = TreeSettings(**{name: parameters.pop(option) for name, option in TREES.items()})
        default_embedding = EmbeddingSettings(label_power="auto", row_power="auto")
        parameters |= {
            "random_state": parameters.pop("seed"),
            "kernel": None if self.kernel == "none" else self.kernel,
            "normalize": {"auto": "auto", "yes": True, "no": False}[self.normalize],
            "embedding": None if embedding == default_embedding else embedding,
            "trees": None if trees == TreeSettings() else trees,
        }
        check(parameters)
        return parameters

    def with_recipe(self, recipe: Recipe) -> Settings:
        """Return the options that fit this recipe."""
        chosen: dict[str, Any] = {"budget": None, "scorers": recipe.scorers}
        if "embedding" in recipe.scorers:
            chosen |= {
                name: getattr(recipe, name)
                for name in ("n_components", "ridge", "decoder", "decoder_ridge")
            }
            names = ("kernel_scale", "leave_out", "label_power", "row_power")
            chosen |= {name: getattr(recipe.embedding, name) for name in names}
            chosen |= {
                "kernel": recipe.kernel or "none",
                "normalize": "yes" if recipe.normalize else "no",
            }
        if "trees" in recipe.scorers:
            chosen |= {option: getattr(recipe.trees, name) for name, option in TREES.items()}
        return replace(self, **chosen)


@dataclass(frozen=True)
class TextSettings:
    """Options that are parameters of `TextFeatures`."""

    analyzer: Annotated[
        Literal["word", "char"] | None, option("Words (the default) or characters.", TEXT)
    ] = None
    ngrams: Annotated[
        Any, parsed("Words or characters per feature: 1, 1-2, 3-4.", TEXT, "N|N-M", ngram_range)
    ] = None
    hashed: Annotated[
        bool, flag("--hashed", "Hash features instead of learning a vocabulary.", TEXT)
    ] = False
    min_df: Annotated[
        Any, parsed("Ignore terms in fewer texts: a number, or a share 0.01.", TEXT, "N|R")
    ] = None
    max_df: Annotated[
        Any, parsed("Ignore terms in more texts: a number, or a share 0.5.", TEXT, "N|R")
    ] = None
    max_features: Annotated[
        int | None, option("Keep only the N most frequent terms.", TEXT, metavar="N")
    ] = None
    stop_words: Annotated[
        str | None, option("english, or a file with one word per line.", TEXT, metavar="W")
    ] = None

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of `TextFeatures` that were given."""
        stop_words: Any = self.stop_words
        if stop_words not in (None, "english"):
            stop_words = Path(stop_words).read_text(encoding="utf-8").split()
        parameters = {
            "analyzer": self.analyzer,
            "ngram_range": self.ngrams,
            "weighting": "hashed" if self.hashed else None,
            "min_df": self.min_df,
            "max_df": self.max_df,
            "max_features": self.max_features,
            "stop_words": stop_words,
        }
        return {name: value for name, value in parameters.items() if value is not None}

    def features(self, encoder: str | None = None) -> TextFeatures:
        """Return text features with these parameters and the encoder with this name."""
        from rembrandt.features.encoder import load_encoder
        from rembrandt.features.text import TextFeatures

        loaded_encoder = None if encoder is None else load_encoder(encoder)
        return TextFeatures(**self.parameters(), encoder=loaded_encoder)
