"""A model with its vectoriser, to and from a folder."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rembrandt.decoders.decoder import Decoder
from rembrandt.decoders.moments import Moments
from rembrandt.decoders.monotone import MonotoneMap
from rembrandt.errors import ModelError
from rembrandt.features.text import TextFeatures
from rembrandt.model.folder import load_folder, save_folder
from rembrandt.model.model import Model
from rembrandt.packing import pack_strings, unpack_strings
from rembrandt.scorers.shortlist import Shortlist
from rembrandt.scorers.trees import Trees

_PARTS = ("projection", "embedding", "singular_values", "label_counts")
_TEXT = "text."  # before the names of the vectoriser's arrays


def save_model(
    path: str | Path, model: Model, text: TextFeatures | None, extra: dict[str, Any], force: bool = False
) -> None:
    """Write ``model``, its vectoriser where it reads texts, and ``extra`` facts (JSON) to a new folder."""
    arrays: dict[str, NDArray[Any]] = {name: np.asarray(getattr(model, name)) for name in _PARTS}
    parts, decoder = model.decoder.packed()
    arrays |= parts
    if model.lift is not None:
        model.lift.refuse_saving()
    if model.moments is not None:
        arrays |= {"moments.mean": model.moments.mean, "moments.scatter": model.moments.scatter}
    if model.calibration is not None:
        arrays |= {"calibration.scores": model.calibration.scores}
        arrays |= {"calibration.probabilities": model.calibration.probabilities}
    if model.has_shortlist and model.shortlist is not None:
        arrays["shortlist.clusters"] = model.shortlist.clusters
    arrays["threshold"] = np.atleast_1d(np.asarray(model.threshold, dtype=np.float64))
    names_are_text = model.classes.dtype.kind in "USO"
    arrays |= pack_strings("classes", [str(c) for c in model.classes]) if names_are_text else {"classes": model.classes}
    if text is not None:
        arrays |= {_TEXT + name: array for name, array in text.to_arrays().items()}
    forest = None
    if model.forest is not None:
        parts, forest = model.forest.arrays()
        arrays |= parts
        forest["blend"] = model.blend
    metadata = {
        "multiclass": model.multiclass,
        "normalize": model.normalize,
        **decoder,
        "moments": None if model.moments is None else model.moments.total,
        "n_train": model.n_train,
        "forest": forest,
        "settings": model.settings,
        "text": None if text is None else text.to_config(),
        "extra": extra,
    }
    save_folder(path, {name: np.ascontiguousarray(a) for name, a in arrays.items()}, metadata, force=force)


def load_model(path: str | Path, verify: bool = True) -> tuple[Model, TextFeatures | None, dict[str, Any]]:
    """The model, its vectoriser and the extra facts of a folder; the weights stay on disk until they are used."""
    arrays, metadata = load_folder(path, verify=verify)
    try:
        classes = arrays["classes"] if "classes" in arrays else np.asarray(unpack_strings("classes", arrays))
        facts = metadata.get("forest")  # models of version 0.1 have none
        total = metadata.get("moments")
        calibration = None
        if "calibration.scores" in arrays:
            calibration = MonotoneMap(arrays["calibration.scores"], arrays["calibration.probabilities"])
        threshold = arrays.get("threshold", np.array([0.5]))
        decoder = Decoder.unpacked(arrays, metadata)
        model = Model(
            classes=classes,
            multiclass=metadata["multiclass"],
            normalize=metadata["normalize"],
            decoder=decoder,
            n_train=metadata["n_train"],
            settings=metadata["settings"],
            projection=arrays["projection"],
            embedding=arrays["embedding"],
            singular_values=arrays["singular_values"],
            label_counts=arrays["label_counts"],
            forest=None if facts is None else Trees.from_arrays(dict(arrays), facts),
            blend=0.0 if facts is None else facts["blend"],
            calibration=calibration,
            shortlist=_shortlist(path, decoder, arrays.get("shortlist.clusters")),
            threshold=float(threshold[0]) if len(threshold) == 1 else threshold,
            moments=None if total is None else Moments(total, arrays["moments.mean"], arrays["moments.scatter"]),
        )
        config = metadata["text"]
        own = {name.removeprefix(_TEXT): array for name, array in arrays.items() if name.startswith(_TEXT)}
        return model, None if config is None else TextFeatures.from_arrays(own, config), metadata["extra"]
    except KeyError as missing:
        raise ModelError(
            f"{path}: the folder lacks {missing}, so it is not a classifier; fit and save it again"
        ) from missing


def _shortlist(path: str | Path, decoder: Decoder, clusters: NDArray[Any] | None) -> Shortlist | None:
    """The shortlist that was saved with a model, if any."""
    if clusters is None:
        return None
    c = decoder.bias.shape[0]
    if clusters.shape != (c,) or clusters.dtype.kind != "i" or (c and not 0 <= clusters.min() <= clusters.max() < c):
        raise ModelError(f"{path}: the clusters of its labels are none of {c:,} labels; fit and save it again")
    return Shortlist(decoder, clusters)
