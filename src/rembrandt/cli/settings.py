"""Options of the settings of `RembrandtClassifier`, which derive from the declarations, and of the
parameters of `TextFeatures`; and how they become parameters.
"""

from __future__ import annotations

from dataclasses import dataclass, make_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from rembrandt.cli.options import TEXT, flag, ngram_range, option, parsed, setting_option
from rembrandt.settings import (
    EMBEDDING,
    GENERAL,
    SETTINGS,
    TREES,
    EmbeddingSettings,
    Setting,
    TreeSettings,
    preset_values,
)
from rembrandt.settings.kinds import Choice, Switch, Text

if TYPE_CHECKING:
    from rembrandt.features.text import TextFeatures
    from rembrandt.recipe import Recipe

# Defaults of options that differ from those of the parameters: commands are repeatable.
DEFAULTS = {"seed": 0}
# Settings that a search chooses for an embedding: parameters of the classifier, and fields of
# EmbeddingSettings.
_CHOSEN_PARAMETERS = ("n_components", "ridge", "decoder", "decoder_ridge")
_CHOSEN_FIELDS = ("kernel_scale", "leave_out", "label_power", "row_power")


def _values(setting: Setting) -> Any:
    """Return the type of the values of an option."""
    literal: Any = Literal
    names = list(setting.words)
    if setting.allows_none:
        names.append("none")
    if isinstance(setting.kind, Choice):
        names += setting.kind.names
        return literal[tuple(names)]
    if isinstance(setting.kind, Switch) and names:
        return literal[(*names, "yes", "no")]
    if isinstance(setting.kind, Switch):
        return bool
    if isinstance(setting.kind, Text):
        return str
    return Any


def _option_field(setting: Setting) -> tuple[str, Any, Any]:
    """Return name, annotated type and default of the option of a setting.

    Options of a part of the model are None by default: unset.
    """
    name = setting.flat_name
    if setting.group == "general":
        default = DEFAULTS.get(name, setting.default)
        if _values(setting) is bool:
            return name, Annotated[bool, flag(setting.option or "", setting.help, "Model")], default
        return name, Annotated[_values(setting), setting_option(name)], default
    shown: str | bool = "that of the preset"
    first, *others = preset_values(setting).values()
    if first is None:
        shown = False
    elif all(value == first for value in others):
        shown = str(first)
    return name, Annotated[_values(setting), setting_option(name, show_default=shown)], None


_Options: Any = make_dataclass(
    "_Options",
    [_option_field(setting) for setting in SETTINGS if setting.panel is not None],
    frozen=True,
)


class Settings(_Options):
    """Options of ``fit`` and ``tune`` that are settings of the classifier.

    The fields are the options of the declared settings.
    """

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of the classifier; refuse values that are out of range."""
        from rembrandt.recipe import check

        parameters: dict[str, Any] = {}
        for setting in GENERAL:
            parameters[setting.name] = _parsed(setting, getattr(self, setting.flat_name))
        embedding = self._set(EMBEDDING)
        parameters["embedding"] = EmbeddingSettings(**embedding) if embedding else None
        trees = self._set(TREES)
        parameters["trees"] = TreeSettings(**trees) if trees else None
        check(parameters)
        return parameters

    def _set(self, settings: tuple[Setting, ...]) -> dict[str, Any]:
        """Return the settings of a part whose options are given."""
        values = {}
        for setting in settings:
            value = getattr(self, setting.flat_name, None)
            if value is not None:
                values[setting.name] = _parsed(setting, value)
        return values

    def with_recipe(self, recipe: Recipe) -> Settings:
        """Return the options that fit this recipe."""
        chosen: dict[str, Any] = {"budget": None, "scorers": recipe.scorers}
        if "embedding" in recipe.scorers:
            for name in _CHOSEN_PARAMETERS:
                chosen[name] = getattr(recipe, name)
            for name in _CHOSEN_FIELDS:
                chosen[name] = getattr(recipe.embedding, name)
            chosen["kernel"] = recipe.kernel or "none"
            chosen["normalize"] = "yes" if recipe.normalize else "no"
            if recipe.kernel is not None:
                # A fit without a search may choose another number.
                chosen["n_random_features"] = recipe.embedding.n_random_features
        if "trees" in recipe.scorers:
            for setting in TREES:
                if setting.panel is not None:
                    chosen[setting.flat_name] = getattr(recipe.trees, setting.name)
        return replace(self, **chosen)


def _parsed(setting: Setting, value: Any) -> Any:
    """Return the value of an option; words such as ``none`` become values."""
    if isinstance(value, str):
        return setting.parse(value)
    return value


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
