"""Settings of an Annif project as parameters of the classifier and its text features.

In a ``.cfg`` file every value is a string; in TOML values may be numbers and booleans.
"""

from collections.abc import Callable, Mapping
from configparser import ConfigParser
from typing import Any

from rembrandt.errors import SettingsError
from rembrandt.estimators import RembrandtClassifier
from rembrandt.features.text import TextFeatures
from rembrandt.recipe import EmbeddingSettings, TreeSettings

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


def _or_auto(convert: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return a function that keeps ``auto`` and converts other values."""

    def parse(text: str) -> Any:
        if text.lower() == "auto":
            return "auto"
        return convert(text)

    return parse


def _range(text: str) -> tuple[int, int]:
    """Parse ``2`` as (2, 2) and ``1-2`` as (1, 2)."""
    first, _, last = text.partition("-")
    return int(first), int(last or first)


def _kernel(text: str) -> str | None:
    """Parse the name of a kernel, or ``none``."""
    if text.lower() == "none":
        return None
    return text


def _names(text: str) -> tuple[str, ...]:
    """Parse names that are separated by commas."""
    return tuple(name.strip() for name in text.split(","))


def _weighting(text: str) -> str:
    """Parse a boolean: whether features are hashed."""
    is_hashed = ConfigParser.BOOLEAN_STATES[text.lower()]
    return "hashed" if is_hashed else "tfidf"


Table = dict[str, Callable[[str], Any]]  # by setting: how its value is parsed

_CLASSIFIER: Table = {
    "preset": str,
    "method": str,
    "decoder": str,
    "device": str,
    "n_components": _or_auto(int),
    "ridge": float,
    "decoder_ridge": _or_auto(float),
    "kernel": _kernel,
    "scorers": _or_auto(_names),
    "seed": int,
}
_EMBEDDING: Table = {
    "kernel_scale": float,
    "n_random_features": int,
    "n_iter": int,
    "max_epochs": int,
}
_TREES: Table = {
    "n_trees": int,
    "tree_pairs": float,
    "tree_cost": float,
}
_TEXT: Table = {
    "terms": str,
    "ngrams": _range,
    "min_df": int,
    "max_features": int,
    "hashed": _weighting,
}
# Parameters that have another name than their setting; `analyzer` is a setting of Annif.
_PARAMETERS = {
    "seed": "random_state",
    "tree_pairs": "pairs",
    "tree_cost": "cost",
    "terms": "analyzer",
    "ngrams": "ngram_range",
    "hashed": "weighting",
}


def classifier_from(settings: Mapping[str, Any]) -> RembrandtClassifier:
    """Return the classifier that a project's settings describe; the seed is 0 by default."""
    parameters: dict[str, Any] = {
        "random_state": 0,
        "text": TextFeatures(**_parameters(_TEXT, settings)),
    }
    embedding = _parameters(_EMBEDDING, settings)
    if embedding:
        parameters["embedding"] = EmbeddingSettings(**embedding)
    trees = _parameters(_TREES, settings)
    if trees:
        parameters["trees"] = TreeSettings(**trees)
    parameters |= _parameters(_CLASSIFIER, settings)
    return RembrandtClassifier(**parameters)


def unknown_settings(settings: Mapping[str, Any]) -> list[str]:
    """Return the settings that neither this backend nor Annif reads, such as misspelled ones."""
    backend_settings = _CLASSIFIER | _EMBEDDING | _TREES | _TEXT
    return sorted(settings.keys() - backend_settings.keys() - _ANNIF_SETTINGS)


def _parameters(table: Table, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a table as parameters with their values."""
    parameters = {}
    for name in table.keys() & settings.keys():
        parse = table[name]
        parameter = _PARAMETERS.get(name, name)
        try:
            parameters[parameter] = parse(str(settings[name]).strip())
        except (KeyError, ValueError) as error:
            raise SettingsError(
                f"{name}={settings[name]} is not valid; see docs/annif.md for its values"
            ) from error
    return parameters
