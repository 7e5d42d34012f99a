"""Extreme classification through label embeddings."""

import importlib
from typing import Any

__version__ = "0.1.0"

# Names are imported when first used, so that `import rembrandt` stays fast.
_HOMES = {
    "LabelEmbedder": "rembrandt.estimators",
    "RembrandtClassifier": "rembrandt.estimators",
    "TextFeatures": "rembrandt.features.text",
    "Dataset": "rembrandt.data",
    "read": "rembrandt.data",
    "load": "rembrandt.estimators",
}

__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'rembrandt' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
