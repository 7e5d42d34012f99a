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
_ANNIF_SETTINGS = frozenset(
    ("name", "language", "backend", "vocab", "analyzer", "transform", "access", "allow_learn", "limit", "description")
)


def _or_auto(convert: Callable[[str], Any]) -> Callable[[str], Any]:
    return lambda text: "auto" if text.lower() == "auto" else convert(text)


def _range(text: str) -> tuple[int, int]:
    first, _, last = text.partition("-")
    return int(first), int(last or first)


Table = dict[str, tuple[str, Callable[[str], Any]]]  # by setting: the parameter, and how its value is parsed

_CLASSIFIER: Table = {
    "preset": ("preset", str),
    "n_components": ("n_components", _or_auto(int)),
    "method": ("method", str),
    "ridge": ("ridge", float),
    "decoder": ("decoder", str),
    "decoder_ridge": ("decoder_ridge", _or_auto(float)),
    "kernel": ("kernel", lambda text: None if text.lower() == "none" else text),
    "scorers": ("scorers", _or_auto(lambda text: tuple(name.strip() for name in text.split(",")))),
    "seed": ("random_state", int),
    "device": ("device", str),
}
_EMBEDDING: Table = {
    "kernel_scale": ("kernel_scale", float),
    "n_random_features": ("n_random_features", int),
    "n_iter": ("n_iter", int),
    "max_epochs": ("max_epochs", int),
}
_TREES: Table = {"n_trees": ("n_trees", int), "tree_pairs": ("pairs", float), "tree_cost": ("cost", float)}
_TEXT: Table = {
    "terms": ("analyzer", str),  # `analyzer` is a setting of Annif
    "ngrams": ("ngram_range", _range),
    "hashed": ("weighting", lambda text: "hashed" if ConfigParser.BOOLEAN_STATES[text.lower()] else "tfidf"),
    "min_df": ("min_count", int),
    "max_features": ("max_features", int),
}


def classifier_from(settings: Mapping[str, Any]) -> RembrandtClassifier:
    """Return the classifier that a project's settings describe; the seed is 0 by default."""
    given: dict[str, Any] = {"random_state": 0, "text": TextFeatures(**_parameters(_TEXT, settings))}
    for name, table, kind in (("embedding", _EMBEDDING, EmbeddingSettings), ("trees", _TREES, TreeSettings)):
        if own := _parameters(table, settings):
            given[name] = kind(**own)
    return RembrandtClassifier(**given | _parameters(_CLASSIFIER, settings))


def unknown_settings(settings: Mapping[str, Any]) -> list[str]:
    """Return the settings that neither this backend nor Annif reads, such as misspelled ones."""
    known = _CLASSIFIER | _EMBEDDING | _TREES | _TEXT
    return sorted(settings.keys() - known.keys() - _ANNIF_SETTINGS)


def _parameters(table: Table, settings: Mapping[str, Any]) -> dict[str, Any]:
    found = {}
    for name in table.keys() & settings.keys():
        parameter, convert = table[name]
        try:
            found[parameter] = convert(str(settings[name]).strip())
        except (KeyError, ValueError) as error:
            raise SettingsError(f"{name}={settings[name]} is not valid; see docs/annif.md for its values") from error
    return found
