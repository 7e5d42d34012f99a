"""The settings of a fit that a model depends on."""

from typing import Any

from rembrandt.model.model import Model
from rembrandt.recipe import EMBEDDING_PARAMETERS


def used_settings(model: Model) -> dict[str, Any]:
    """Return the settings of a model without those of scorers that it does not have, and without what was measured."""
    unused = ({"trees"} - model.scorers.keys()) | {"blends"}
    if model.embedding is None:
        unused |= {*EMBEDDING_PARAMETERS, "normalize"}
    return {name: value for name, value in model.settings.items() if name not in unused}
