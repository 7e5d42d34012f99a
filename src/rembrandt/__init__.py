"""Extreme classification through label embeddings."""

import importlib
import os
from typing import Any

# OpenBLAS keeps its idle threads spinning for about 20 ms, on the cores that our own threads then
# want: with this a fit takes half the processor time on a busy machine. It counts only where NumPy
# is not loaded yet.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "12")

__version__ = "0.2.0"

# The module of each name: it is imported when first used, so that `import rembrandt` stays fast.
_HOMES = {
    "LabelEmbedder": "rembrandt.estimators",
    "RembrandtClassifier": "rembrandt.estimators",
    "EmbeddingSettings": "rembrandt.parts.embedding.settings",
    "EncoderSettings": "rembrandt.parts.encoder.settings",
    "TreeSettings": "rembrandt.parts.trees.settings",
    "TextFeatures": "rembrandt.features.text",
    "Reranker": "rembrandt.reranking",
    "Dataset": "rembrandt.data",
    "read": "rembrandt.data",
    "load": "rembrandt.estimators",
    "label_array": "rembrandt.data.targets",
}

__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'rembrandt' has no attribute {name!r}")
    module = importlib.import_module(_HOMES[name])
    return getattr(module, name)


def __dir__() -> list[str]:
    return sorted(__all__)
