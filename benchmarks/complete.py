"""Complete settings of an embedding that do not depend on a preset or on the data."""

from dataclasses import replace
from typing import Any

from rembrandt import EmbeddingSettings
from rembrandt.declarations import ModelSettings, PartSpec

PLAIN = EmbeddingSettings(
    ridge=1.0,
    decoder="ridge",
    decoder_ridge=0.1,
    kernel=None,
    normalize=False,
    retrieves_labels=True,
).with_defaults()


def embedding_settings(**values: Any) -> EmbeddingSettings:
    """Return the declared defaults, with a linear ridge decoder, and these values."""
    return replace(PLAIN, **values)


def embedding_alone(settings: EmbeddingSettings, seed: int = 0) -> ModelSettings:
    """Return the settings of a model whose only part is the embedding."""
    return ModelSettings(parts={"embedding": PartSpec("embedding", settings)}, seed=seed)
