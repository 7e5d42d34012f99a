"""Options of the settings of `RembrandtClassifier`, which derive from the declarations, and of the
parameters of `TextFeatures`; and how they become parameters.
"""

from __future__ import annotations

from dataclasses import dataclass, make_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from rembrandt.cli.options import TEXT, flag, ngram_range, option, parsed, setting_option
from rembrandt.declarations import (
    NAMES,
    PART_NAMES,
    PART_SETTINGS,
    SETTINGS,
    SETTINGS_TYPES,
    check_values,
    preset_values,
)
from rembrandt.settings import Setting
from rembrandt.settings.kinds import Choice, Switch, Text

if TYPE_CHECKING:
    from rembrandt.declarations import ModelSettings
    from rembrandt.features.text import TextFeatures

# Defaults of options that differ from those of the parameters: commands are repeatable.
DEFAULTS = {"seed": 0}


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
    if not setting.group or setting.is_parameter:
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
        parameters: dict[str, Any] = dict.fromkeys(PART_SETTINGS)
        for setting in SETTINGS:
            if not setting.group or setting.is_parameter:
                parameters[setting.name] = _parsed(setting, getattr(self, setting.flat_name))
        for part, settings in PART_SETTINGS.items():
            values = self._set(settings)
            if values:
                parameters[part] = SETTINGS_TYPES[part](**values)
        check_values(parameters)
        return parameters

    def _set(self, settings: tuple[Setting, ...]) -> dict[str, Any]:
        """Return the settings of a part whose options are given."""
        values = {}
        for setting in settings:
            value = getattr(self, setting.flat_name, None)
            if value is not None and not setting.is_parameter:
                values[setting.name] = _parsed(setting, value)
        return values

    def with_settings(self, settings: ModelSettings) -> Settings:
        """Return the options that fit a model with these settings.

        Parts of vectors have no names among the options: vectors always have a part.
        """
        names = [name for name in settings.parts if name in (*PART_NAMES, NAMES)]
        chosen: dict[str, Any] = {"budget": None, "parts": tuple(names)}
        for part, declared in PART_SETTINGS.items():
            if part not in settings.parts:
                continue
            for setting in declared:
                if setting.panel is not None:
                    value = getattr(settings.parts[part].settings, setting.name)
                    chosen[setting.flat_name] = _as_option(setting, value)
        return replace(self, **chosen)


def _as_option(setting: Setting, value: Any) -> Any:
    """Return a value as its option has it."""
    if value is None:
        return "none"
    if isinstance(setting.kind, Switch) and setting.words:
        return "yes" if value else "no"
    return value


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
        Any,
        parsed(
            "Ignore terms that occur in fewer texts: a number, or a share such as 0.01.",
            TEXT,
            "N|R",
        ),
    ] = None
    max_df: Annotated[
        Any,
        parsed(
            "Ignore terms that occur in more texts: a number, or a share such as 0.5.", TEXT, "N|R"
        ),
    ] = None
    max_features: Annotated[
        int | None, option("Keep only the N most frequent terms.", TEXT, metavar="N")
    ] = None
    stop_words: Annotated[
        str | None,
        option("english, language, or a file with one word per line.", TEXT, metavar="W"),
    ] = None
    language: Annotated[
        str | None,
        option(
            "Stems and parts of compounds are terms, too: de, en, ..., de,en or auto.",
            TEXT,
            metavar="CODES",
        ),
    ] = None
    word_forms: Annotated[
        Literal["stem", "lemma"] | None, option("With a language: stems or lemmas.", TEXT)
    ] = None

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of `TextFeatures` that were given."""
        stop_words: Any = self.stop_words
        if stop_words not in (None, "english", "language"):
            stop_words = Path(stop_words).read_text(encoding="utf-8").split()
        parameters = {
            "analyzer": self.analyzer,
            "ngram_range": self.ngrams,
            "weighting": "hashed" if self.hashed else None,
            "min_df": self.min_df,
            "max_df": self.max_df,
            "max_features": self.max_features,
            "stop_words": stop_words,
            "language": self.language,
            "word_forms": self.word_forms,
        }
        return {name: value for name, value in parameters.items() if value is not None}

    def features(self) -> TextFeatures:
        """Return text features with these parameters."""
        from rembrandt.features.text import TextFeatures

        return TextFeatures(**self.parameters())
