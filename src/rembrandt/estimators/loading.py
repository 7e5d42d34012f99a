"""A saved classifier, read back."""

from pathlib import Path

from rembrandt.engines.place import place_for
from rembrandt.estimators.classifier import RembrandtClassifier
from rembrandt.features.joined import Joined
from rembrandt.features.text import TextFeatures
from rembrandt.model.persist import load_model


def load(path: str | Path, verify: bool = True, device: str = "cpu") -> RembrandtClassifier:
    """The classifier saved in the folder ``path``; its weights stay on disk until they are used.

    ``verify=False`` skips the check sums: for a large model on a disk that is trusted. It predicts on ``device``.
    """
    place_for(device)
    model, text, facts = load_model(path, verify)
    classifier = RembrandtClassifier(
        **facts["params"] | {"device": device},
        text=None if text is None else TextFeatures(**text.get_params()),
    )
    classifier.model_ = model
    classifier.text_ = text
    joined = facts.get("joined")  # models of version 0.1 have none
    classifier.joined_ = None if joined is None else Joined(tuple(joined["widths"]), tuple(joined["lengths"]))
    classifier.classes_ = model.classes
    classifier.n_features_in_ = model.n_features
    classifier._dense_target = facts["dense_target"]
    classifier.selection_ = facts["selection"]
    classifier.blends_ = facts.get("blends", [])  # models of version 0.1 have none
    classifier.feature_names_ = facts["feature_names"]
    classifier.label_titles_ = facts["label_titles"]
    classifier.extra_ = facts["extra"]
    return classifier
