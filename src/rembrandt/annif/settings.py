"""Settings of an Annif project as parameters of the classifier and its text features.

In a ``.cfg`` file every value is a string; in TOML values may be numbers and booleans.
"""

from collections.abc import Callable, Mapping
from configparser import ConfigParser
from typing import Any

from rembrandt.declarations import FLAT, SETTINGS_TYPES
from rembrandt.errors import SettingsError
from rembrandt.estimators import RembrandtClassifier
from rembrandt.features.text import TextFeatures
from rembrandt.settings import Setting

# Settings that Annif itself reads from a project's section.
_ANNIF_SETTINGS = {
    "name",
    "language",
    "backend",
    "vocab",
    "analyzer",
    "transform",
    "access",
    "allow_learn",
    "limit",
    "description",
}


def _range(text: str) -> tuple[int, int]:
    """Parse ``2`` as (2, 2) and ``1-2`` as (1, 2)."""
    first, _, last = text.partition("-")
    return int(first), int(last or first)


def _weighting(text: str) -> str:
    """Parse a boolean: whether features are hashed."""
    is_hashed = ConfigParser.BOOLEAN_STATES[text.lower()]
    return "hashed" if is_hashed else "tfidf"


# Settings of texts, by name: how a value is parsed.
_TEXT: dict[str, Callable[[str], Any]] = {
    "terms": str,
    "ngrams": _range,
    "min_df": int,
    "max_features": int,
    "hashed": _weighting,
    "text_language": str,
    "word_forms": str,
}
# Parameters that have another name than their setting; `analyzer` and `language` are settings of
# Annif.
_TEXT_PARAMETERS = {
    "terms": "analyzer",
    "ngrams": "ngram_range",
    "hashed": "weighting",
    "text_language": "language",
}


def classifier_from(settings: Mapping[str, Any]) -> RembrandtClassifier:
    """Return the classifier that a project's settings describe; the seed is 0 by default.

    Every declared setting may be given, under its name on the command line.
    """
    text = TextFeatures(**_text_parameters(settings))
    parameters: dict[str, Any] = {"random_state": 0, "text": text}
    of_parts: dict[str, dict[str, Any]] = {}
    for name in FLAT.keys() & settings.keys():
        setting = FLAT[name]
        value = _value(setting, settings[name])
        if setting.group and not setting.is_parameter:
            of_parts.setdefault(setting.group, {})[setting.name] = value
        else:
            parameters[setting.name] = value
    for part, values in of_parts.items():
        parameters[part] = SETTINGS_TYPES[part](**values)
    return RembrandtClassifier(**parameters)


def unknown_settings(settings: Mapping[str, Any]) -> list[str]:
    """Return the settings that neither this backend nor Annif reads, such as misspelled ones."""
    return sorted(settings.keys() - FLAT.keys() - _TEXT.keys() - _ANNIF_SETTINGS)


def _value(setting: Setting, configured: Any) -> Any:
    """Return the value of a setting as a parameter has it; refuse one that is out of range."""
    try:
        value = setting.parse(str(configured))
    except SettingsError as error:
        raise SettingsError(f"{setting.flat_name}={configured}: {error}", setting.name) from error
    if not setting.accepts(value):
        raise SettingsError(
            f"{setting.flat_name}={configured} must be {setting.expected}", setting.name
        )
    return value


def _text_parameters(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of texts as parameters of `TextFeatures`."""
    parameters = {}
    for name in _TEXT.keys() & settings.keys():
        parse = _TEXT[name]
        parameter = _TEXT_PARAMETERS.get(name, name)
        try:
            parameters[parameter] = parse(str(settings[name]).strip())
        except (KeyError, ValueError) as error:
            raise SettingsError(
                f"{name}={settings[name]} is not valid; see docs/annif.md for its values"
            ) from error
    return parameters
