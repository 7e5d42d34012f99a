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
    (
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
    )
)


def _or_auto(convert: Callable[[str], Any]) -> Callable[[str], Any]:
    return lambda text: "auto" if text.lower() == "auto" else convert(text)


def _range(text: str) -> tuple[int, int]:
    first, _, last = text.partition("-")
    return int(first), int(last or first)


Table = dict[str, Callable[[str], Any]]  # by setting: how its value is parsed

_CLASSIFIER: Table = {
    **dict.fromkeys(("preset", "method", "decoder", "device"), str),
    "n_components": _or_auto(int),
    "ridge": float,
    "decoder_ridge": _or_auto(float),
    "kernel": lambda text: None if text.lower() == "none" else text,
    "scorers": _or_auto(lambda text: tuple(name.strip() for name in text.split(","))),
    "seed": int,
}
_EMBEDDING: Table = {
    "kernel_scale": float,
    "n_random_features": int,
    "n_iter": int,
    "max_epochs": int,
}
_TREES: Table = {"n_trees": int, "tree_pairs": float, "tree_cost": float}
_TEXT: Table = {
    **{"terms": str, "ngrams": _range, "min_df": int, "max_features": int},
    "hashed": lambda text: "hashed" if ConfigParser.BOOLEAN_STATES[text.lower()] else "tfidf",
}
# Parameters that have another name than their setting; `analyzer` is a setting of Annif.
_PARAMETERS = {
    **{"seed": "random_state", "tree_pairs": "pairs", "tree_cost": "cost"},
    **{"terms": "analyzer", "ngrams": "ngram_range", "hashed": "weighting"},
}


def classifier_from(settings: Mapping[str, Any]) -> RembrandtClassifier:
    """Return the classifier that a project's settings describe; the seed is 0 by default."""
    given: dict[str, Any] = {
        "random_state": 0,
        "text": TextFeatures(**_parameters(_TEXT, settings)),
    }
    for name, table, kind in (
        ("embedding", _EMBEDDING, EmbeddingSettings),
        ("trees", _TREES, TreeSettings),
    ):
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
        try:
            found[_PARAMETERS.get(name, name)] = table[name](str(settings[name]).strip())
        except (KeyError, ValueError) as error:
            raise SettingsError(
                f"{name}={settings[name]} is not valid; see docs/annif.md for its values"
            ) from error
    return found
