"""Loading a saved classifier."""

from pathlib import Path
from typing import Any

from rembrandt.engines.place import place_for
from rembrandt.estimators.classifier import RembrandtClassifier
from rembrandt.features.text import TextFeatures
from rembrandt.model.saving import load_model
from rembrandt.recipe import EmbeddingSettings, TreeSettings


def load(path: str | Path, verify: bool = True, device: str = "cpu") -> RembrandtClassifier:
    """Load a classifier from the folder it was saved in. Its weights stay on disk until they are used.

    Parameters
    ----------
    path : str or Path
        The folder.
    verify : bool, default=True
        Verify the checksums. False opens a large model on a trusted disk at once.
    device : str, default="cpu"
        Where to predict.

    Returns
    -------
    RembrandtClassifier
    """
    place_for(device)
    model, facts = load_model(path, verify)
    params: dict[str, Any] = facts["params"] | {"device": device}
    for name, kind in (("embedding", EmbeddingSettings), ("trees", TreeSettings)):
        params[name] = None if params[name] is None else kind(**params[name])
    if isinstance(params["scorers"], list):
        params["scorers"] = tuple(params["scorers"])
    classifier = RembrandtClassifier(
        **params, text=None if model.text is None else TextFeatures(**model.text.get_params())
    )
    classifier.model_ = model
    classifier._joined = model.joined
    classifier.n_features_in_ = model.n_features
    classifier._dense_target = facts["dense_target"]
    classifier.selection_ = facts["selection"]
    classifier.feature_names_ = facts["feature_names"]
    classifier.extra_ = facts["extra"]
    return classifier
