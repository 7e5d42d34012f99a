"""A project's settings in Annif's configuration, as the classifier and its text features take them.

In a ``.cfg`` file every value is a string, in TOML they may be numbers and truth values.
"""

from collections.abc import Callable, Mapping
from typing import Any

from rembrandt.errors import SettingsError
from rembrandt.estimators import RembrandtClassifier
from rembrandt.features.text import TextFeatures

_YES, _NO = ("1", "yes", "true", "on"), ("0", "no", "false", "off")

# What Annif itself reads from a project's section.
_OF_ANNIF = frozenset(
    ("name", "language", "backend", "vocab", "analyzer", "transform", "access", "allow_learn", "limit", "description")
)


def _yes(text: str) -> bool:
    if text.lower() not in _YES + _NO:
        raise ValueError
    return text.lower() in _YES


def _or(special: str, value: Any, otherwise: Callable[[str], Any]) -> Callable[[str], Any]:
    return lambda text: value if text.lower() == special else otherwise(text)


def _span(text: str) -> tuple[int, int]:
    first, _, last = text.partition("-")
    return int(first), int(last or first)


_CLASSIFIER: dict[str, tuple[str, Callable[[str], Any]]] = {
    "preset": ("preset", str),
    "n_components": ("n_components", _or("auto", "auto", int)),
    "method": ("method", str),
    "ridge": ("ridge", float),
    "decoder": ("decoder", str),
    "decoder_ridge": ("decoder_ridge", _or("auto", "auto", float)),
    "kernel": ("kernel", _or("none", None, str)),
    "kernel_scale": ("kernel_scale", float),
    "n_random_features": ("n_random_features", int),
    "n_iter": ("n_iter", int),
    "max_epochs": ("max_epochs", int),
    "sparse": ("sparse", _yes),
    "sparse_trees": ("sparse_trees", int),
    "sparse_pairs": ("sparse_pairs", float),
    "seed": ("random_state", int),
    "device": ("device", str),
}
_TEXT: dict[str, tuple[str, Callable[[str], Any]]] = {
    "terms": ("analyzer", str),  # `analyzer` is Annif's own
    "ngrams": ("ngram_range", _span),
    "hashed": ("weighting", lambda text: "hashed" if _yes(text) else "tfidf"),
    "min_df": ("min_count", int),
    "max_features": ("max_features", int),
}


def classifier_of(params: Mapping[str, Any]) -> RembrandtClassifier:
    """The classifier that a project's settings describe; the seed is 0 where none is given."""
    return RembrandtClassifier(
        **{"random_state": 0} | _read(_CLASSIFIER, params), text=TextFeatures(**_read(_TEXT, params))
    )


def device_of(params: Mapping[str, Any]) -> str:
    return str(params.get("device", "cpu"))


def strangers(params: Mapping[str, Any]) -> list[str]:
    """Settings that neither this backend nor Annif reads: perhaps misspelled."""
    return sorted(name for name in params if name not in _CLASSIFIER | _TEXT and name not in _OF_ANNIF)


def _read(known: Mapping[str, tuple[str, Callable[[str], Any]]], params: Mapping[str, Any]) -> dict[str, Any]:
    found = {}
    for name, (argument, read) in known.items():
        if name in params:
            try:
                found[argument] = read(str(params[name]).strip())
            except ValueError as error:
                raise SettingsError(f"{name}={params[name]} makes no sense; docs/annif.md has its values") from error
    return found
