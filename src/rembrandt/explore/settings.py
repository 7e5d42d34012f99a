"""The settings of a fit that a model depends on."""

from typing import Any

from rembrandt.model.model import Model
from rembrandt.recipe import EMBEDDING_PARAMETERS


def used_settings(model: Model) -> dict[str, Any]:
    """Return the settings of a model without those of scorers that it does not have, and without what was measured."""
    embedding = set() if model.embedding is not None else {*EMBEDDING_PARAMETERS, "normalize"}
    unused = ({"trees"} - model.scorers.keys()) | {"blends"} | embedding
    return {name: value for name, value in model.settings.items() if name not in unused}
