"""Loading a saved classifier."""

import os
from pathlib import Path
from typing import Any

import numpy as np

from rembrandt.declarations import PART_SETTINGS, SETTINGS_TYPES
from rembrandt.engines.backend import backend_for
from rembrandt.errors import ModelError
from rembrandt.estimators.classifier import RembrandtClassifier
from rembrandt.features.text import TextFeatures
from rembrandt.model.folder import version
from rembrandt.model.model import Model
from rembrandt.model.saving import folder_errors, load_model
from rembrandt.storage.arrays import positive


def load(
    path: str | Path,
    verify: bool = True,
    device: str = "cpu",
    require_signature: str | bytes | None = None,
) -> RembrandtClassifier:
    """Load a classifier from the folder it was saved in.

    The folder is not trusted: every array is checked, and nothing in it is run. Checksums find
    damage. They do not show who made the model, because anybody can recompute them; a signature
    does.

    Parameters
    ----------
    path : str or Path
        The folder.
    verify : bool, default=True
        Verify the checksums. False opens a large model on a trusted disk faster.
    device : str, default="cpu"
        Where to predict.
    require_signature : str or bytes, default=None
        Refuse a model that was not saved with this ``sign_key``.

    Returns
    -------
    RembrandtClassifier
    """
    backend_for(device)
    # Before it is read: if it is replaced then, `save` refuses.
    saved = (os.path.realpath(path), version(Path(path)))
    model, facts = load_model(path, verify, require_signature)
    with folder_errors(path):
        classifier = _classifier(model, facts, device)
    classifier._saved = saved
    return classifier


def _classifier(model: Model, facts: dict[str, Any], device: str) -> RembrandtClassifier:
    """Build the classifier from what `RembrandtClassifier.save` wrote."""
    params: dict[str, Any] = facts["params"] | {"device": device}
    params["verbose"] = positive(params["verbose"], int, or_zero=True)
    for name in PART_SETTINGS:
        if params.get(name) is not None:
            params[name] = SETTINGS_TYPES[name].from_json(params[name])
    if isinstance(params["parts"], list):
        params["parts"] = tuple(params["parts"])
    names = facts["feature_names"]
    dense = facts["dense_target"]
    if names is not None and [*map(type, names)] != [str] * model.n_features:
        raise ModelError("its names of features do not fit its features")
    if dense is not None and (not isinstance(dense, str) or np.dtype(dense).kind not in "biuf"):
        raise ModelError("its type of targets cannot be read")
    text = None
    if model.text is not None:
        text = TextFeatures(**model.text.get_params())
    classifier = RembrandtClassifier(**params, text=text)
    classifier.model_ = model
    classifier.n_features_in_ = model.n_features
    classifier._dense_target = dense
    classifier.selection_ = [dict(trial) for trial in facts["selection"]]
    classifier.feature_names_ = names
    classifier.extra_ = dict(facts["extra"])
    return classifier
