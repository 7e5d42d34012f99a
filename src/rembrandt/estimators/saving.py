"""Saving a fitted classifier."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rembrandt.declarations import as_json
from rembrandt.model.card import model_card, notes_in
from rembrandt.model.saving import save_model


def save_classifier(
    classifier: Any,
    path: str | Path,
    force: bool,
    extra: Mapping[str, Any] | None,
    sign_key: str | bytes | None,
) -> tuple[str, str]:
    """Write a classifier to a folder; return the folder and the checksum of the model in it.

    If the classifier was loaded from the folder, or saved there, and the folder has changed since,
    it is not replaced: the changes of another process would be lost.
    """
    params = {
        name: as_json(value)
        for name, value in classifier.get_params(deep=False).items()
        if name != "text"
    }
    # A model does not depend on a device: `load` says where it runs.
    params["random_state"] = classifier.model_.settings.seed
    params["device"] = "cpu"
    facts: dict[str, Any] = {
        "params": params,
        "dense_target": classifier._dense_target,
        "selection": classifier.selection_,
        "feature_names": classifier.feature_names_,
        "extra": dict(extra or {}),
    }
    where = os.path.realpath(path)
    last_folder, last_checksum = getattr(classifier, "_saved", ("", None))
    expected = last_checksum if last_folder == where else None
    card = model_card(
        classifier.model_, classifier.selection_, facts["extra"], notes_in(Path(path))
    )
    checksum = save_model(
        path, classifier.model_, facts, force, sign_key=sign_key, expected=expected, readme=card
    )
    return where, checksum
