"""Languages of texts: which there are, and which one a text is written in."""

import warnings
from collections.abc import Sequence
from functools import lru_cache
from importlib import import_module
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rembrandt.errors import DataError, RembrandtError, RembrandtWarning

AUTO = "auto"
# Codes of languages (ISO 639-1) and the names that snowballstemmer has for them.
STEMMERS = {
    "ar": "arabic",
    "ca": "catalan",
    "cs": "czech",
    "da": "danish",
    "de": "german",
    "el": "greek",
    "en": "english",
    "eo": "esperanto",
    "es": "spanish",
    "et": "estonian",
    "eu": "basque",
    "fa": "persian",
    "fi": "finnish",
    "fr": "french",
    "ga": "irish",
    "hi": "hindi",
    "hu": "hungarian",
    "hy": "armenian",
    "id": "indonesian",
    "it": "italian",
    "lt": "lithuanian",
    "ne": "nepali",
    "nl": "dutch",
    "no": "norwegian",
    "pl": "polish",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "sr": "serbian",
    "sv": "swedish",
    "ta": "tamil",
    "tr": "turkish",
}
_PACKAGES = ("py3langid", "simplemma", "snowballstemmer")
# Characters at the start of a text that its language is read from.
_DETECTED_CHARACTERS = 500


def languages_of(language: str | Sequence[str]) -> tuple[str, ...]:
    """Return the codes of a setting: one code, several, or "auto" for all.

    Parameters
    ----------
    language : str or sequence of str
        "auto", a code such as "de", several separated by commas, or a sequence of codes.

    Returns
    -------
    tuple of str
        In alphabetical order.
    """
    codes: Sequence[str] = []
    if isinstance(language, str):
        codes = [code.strip() for code in language.split(",")]
    elif all(isinstance(code, str) for code in language):
        codes = list(language)
    if list(codes) == [AUTO]:
        return tuple(STEMMERS)
    unknown = [code for code in codes if code not in STEMMERS]
    if unknown or not codes:
        raise DataError(
            f"language is {language!r}; use 'auto', or codes among {', '.join(STEMMERS)}",
            parameter="language",
        )
    return tuple(sorted(set(codes)))


def languages_module(name: str) -> Any:
    """Import a package of the extra ``languages``."""
    try:
        return import_module(name)
    except ModuleNotFoundError as missing:
        raise RembrandtError(
            f"language= needs the package {missing.name}: pip install 'rembrandt[languages]'",
            "language",
        ) from missing


def check_packages(codes: Sequence[str]) -> None:
    """Refuse languages whose packages are missing, or older than the languages."""
    for package in _PACKAGES:
        languages_module(package)
    algorithms = set(languages_module("snowballstemmer").algorithms())
    for code in codes:
        if STEMMERS[code] not in algorithms:
            raise RembrandtError(
                f"the installed snowballstemmer has no stems of {STEMMERS[code]}; install a newer "
                "one: pip install -U 'rembrandt[languages]'",
                "language",
            )


def installed_packages() -> list[str]:
    """Return the packages that make terms of words, with their versions."""
    return [f"{package} {version(package)}" for package in _PACKAGES]


def warn_if_other_packages(fitted: Sequence[str]) -> None:
    """Warn where terms were made by other versions of packages than are installed."""
    installed = installed_packages()
    if list(fitted) != installed:
        message = (
            f"the texts were fitted with {', '.join(fitted)}, and {', '.join(installed)} are "
            "installed: some words may have other terms; install the versions of the fit, or fit "
            "again"
        )
        warnings.warn(RembrandtWarning(message, "language"), stacklevel=2)


def detected(texts: Sequence[str], codes: tuple[str, ...]) -> NDArray[np.int64]:
    """Return for each text the position of its language in ``codes``.

    Parameters
    ----------
    texts : sequence of str
        The texts; their first 500 characters are read.
    codes : tuple of str
        The languages that are possible; a single one is that of every text.
    """
    if len(codes) == 1:
        return np.zeros(len(texts), dtype=np.int64)
    identifier = _identifier(codes)
    position = {code: number for number, code in enumerate(codes)}
    numbers = (position[identifier.classify(text[:_DETECTED_CHARACTERS])[0]] for text in texts)
    return np.fromiter(numbers, np.int64, count=len(texts))


@lru_cache(maxsize=8)
def _identifier(codes: tuple[str, ...]) -> Any:
    """The model of py3langid for some languages."""
    langid = languages_module("py3langid.langid")
    identifier = langid.LanguageIdentifier.from_model_file(langid.MODEL_FILE)
    identifier.set_languages(codes)
    return identifier
