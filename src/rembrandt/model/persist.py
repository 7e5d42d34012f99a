"""A model with its vectoriser, to and from a folder."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rembrandt.decoders.decoder import Decoder
from rembrandt.decoders.forest import Forest
from rembrandt.decoders.moments import Moments
from rembrandt.decoders.monotone import MonotoneMap
from rembrandt.decoders.tree import LabelTree, Level
from rembrandt.errors import ModelError
from rembrandt.features.fourier import FourierMap
from rembrandt.features.text import TextFeatures
from rembrandt.model.folder import load_folder, save_folder
from rembrandt.model.model import Model
from rembrandt.packing import Arrays, pack_csr, pack_strings, unpack_csr, unpack_strings

_PARTS = ("projection", "embedding", "singular_values", "label_counts")
_TEXT = "text."  # before the names of the vectoriser's arrays


def save_model(
    path: str | Path, model: Model, text: TextFeatures | None, extra: dict[str, Any], force: bool = False
) -> None:
    """Write ``model``, its vectoriser where it reads texts, and ``extra`` facts (JSON) to a new folder."""
    decoder, forest = model.decoder, model.forest
    arrays: dict[str, NDArray[Any]] = {name: np.asarray(getattr(model, name)) for name in _PARTS}
    arrays |= {"decoder.weights": np.asarray(decoder.weights), "decoder.bias": np.asarray(decoder.bias)}
    arrays |= {f"decoder.added.{i}": np.asarray(weights) for i, weights in enumerate(decoder.added)}
    if model.moments is not None:
        arrays |= {"moments.mean": model.moments.mean, "moments.scatter": model.moments.scatter}
    if model.calibration is not None:
        arrays |= {"calibration.scores": model.calibration.scores}
        arrays |= {"calibration.probabilities": model.calibration.probabilities}
    arrays["threshold"] = np.atleast_1d(np.asarray(model.threshold, dtype=np.float64))
    if decoder.fourier is not None:
        arrays |= {
            "fourier.frequencies": np.asarray(decoder.fourier.frequencies),
            "fourier.offsets": np.asarray(decoder.fourier.offsets),
        }
    names_are_text = model.classes.dtype.kind in "USO"
    arrays |= pack_strings("classes", [str(c) for c in model.classes]) if names_are_text else {"classes": model.classes}
    if text is not None:
        arrays |= {_TEXT + name: array for name, array in text.to_arrays().items()}
    if forest is not None:
        arrays |= _pack_forest(forest)
    metadata = {
        "multiclass": model.multiclass,
        "normalize": model.normalize,
        "link": decoder.link,
        "greedy": decoder.greedy,
        "linear": None if decoder.fourier is None else decoder.fourier.linear,
        "added": len(decoder.added),
        "moments": None if model.moments is None else model.moments.total,
        "n_train": model.n_train,
        "forest": None if forest is None else _forest_facts(forest, model.blend),
        "settings": model.settings,
        "text": None if text is None else text.to_config(),
        "extra": extra,
    }
    save_folder(path, {name: np.ascontiguousarray(a) for name, a in arrays.items()}, metadata, force=force)


def load_model(path: str | Path, verify: bool = True) -> tuple[Model, TextFeatures | None, dict[str, Any]]:
    """The model, its vectoriser and the extra facts of a folder; the weights stay on disk until they are used."""
    arrays, metadata = load_folder(path, verify=verify)
    try:
        fourier = None
        if "fourier.frequencies" in arrays:
            fourier = FourierMap(arrays["fourier.frequencies"], arrays["fourier.offsets"], metadata["linear"])
        weights, bias = arrays["decoder.weights"], arrays["decoder.bias"]
        classes = arrays["classes"] if "classes" in arrays else np.asarray(unpack_strings("classes", arrays))
        facts = metadata.get("forest")  # models of version 0.1 have none, nor labels added later
        added = tuple(arrays[f"decoder.added.{i}"] for i in range(metadata.get("added", 0)))
        total = metadata.get("moments")
        calibration = None
        if "calibration.scores" in arrays:
            calibration = MonotoneMap(arrays["calibration.scores"], arrays["calibration.probabilities"])
        threshold = arrays.get("threshold", np.array([0.5]))
        model = Model(
            classes=classes,
            multiclass=metadata["multiclass"],
            normalize=metadata["normalize"],
            decoder=Decoder(weights, bias, metadata["link"], fourier, metadata["greedy"], added),
            n_train=metadata["n_train"],
            settings=metadata["settings"],
            projection=arrays["projection"],
            embedding=arrays["embedding"],
            singular_values=arrays["singular_values"],
            label_counts=arrays["label_counts"],
            forest=None if facts is None else _unpack_forest(arrays, facts),
            blend=0.0 if facts is None else facts["blend"],
            calibration=calibration,
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


def _pack_forest(forest: Forest) -> Arrays:
    arrays: Arrays = {}
    for t, tree in enumerate(forest.trees):
        for number, level in enumerate(tree.levels):
            name = f"trees.{t}.{number}"
            arrays |= pack_csr(f"{name}.weights", level.weights)
            arrays |= {f"{name}.bias": level.bias, f"{name}.parent": level.parent.astype(np.int32)}
    return arrays


def _unpack_forest(arrays: Arrays, facts: dict[str, Any]) -> Forest:
    trees = []
    for t, n_levels in enumerate(facts["levels"]):
        names = [f"trees.{t}.{number}" for number in range(n_levels)]
        levels = (
            Level(unpack_csr(f"{name}.weights", arrays), arrays[f"{name}.bias"], arrays[f"{name}.parent"])
            for name in names
        )
        trees.append(LabelTree(tuple(levels), facts["power"], facts["beam"]))
    return Forest(tuple(trees))


def _forest_facts(forest: Forest, blend: float) -> dict[str, Any]:
    first = forest.trees[0]
    levels = [len(tree.levels) for tree in forest.trees]
    return {"levels": levels, "power": first.power, "beam": first.beam, "blend": blend}
