"""A model to and from a folder. The arrays of each part are named ``part.array``."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rembrandt.data.labels import as_labels, titles_of
from rembrandt.errors import ModelError
from rembrandt.features.joined import Joined
from rembrandt.features.text import TextFeatures
from rembrandt.model.folder import load_folder, save_folder
from rembrandt.model.model import Model
from rembrandt.scorers.blend import Blend
from rembrandt.scorers.centroids import Centroids
from rembrandt.scorers.embedding import EmbeddingScorer
from rembrandt.scorers.trees import Trees
from rembrandt.storage.arrays import Arrays, pack_strings, unpack_strings

_SCORERS: dict[str, Any] = {"trees": Trees, "centroids": Centroids, "embedding": EmbeddingScorer}


def save_model(path: str | Path, model: Model, extra: dict[str, Any], force: bool = False) -> None:
    """Write the model and ``extra`` JSON to a new folder."""
    arrays: Arrays = {"label_counts": model.label_counts, "threshold": np.atleast_1d(np.float64(model.threshold))}
    if model.classes.dtype.kind in "USO":
        arrays |= pack_strings("classes", [str(name) for name in model.classes])
    else:
        arrays["classes"] = model.classes
    if model.titles is not None:
        arrays |= pack_strings("label_names", model.titles)
    metadata: dict[str, Any] = {
        "multiclass": model.multiclass,
        "n_train": model.n_train,
        "joined": None if model.joined is None else asdict(model.joined),
        "text": None if model.text is None else model.text.to_config(),
        "settings": model.settings,
        "extra": extra,
    }
    if model.text is not None:
        arrays |= _named("text", model.text.to_arrays())
    own, metadata["blend"] = model.blend.arrays()
    arrays |= _named("blend", own)
    metadata["scorers"] = {}
    for name, scorer in model.scorers.items():
        own, metadata["scorers"][name] = scorer.arrays()
        arrays |= _named(name, own)
    save_folder(path, {name: np.ascontiguousarray(array) for name, array in arrays.items()}, metadata, force=force)


def load_model(path: str | Path, verify: bool = True) -> tuple[Model, dict[str, Any]]:
    """Return the model of a folder and its extra JSON; weights stay on disk until they are used."""
    arrays, metadata = load_folder(path, verify=verify)
    try:
        threshold = arrays["threshold"]
        config, joined = metadata["text"], metadata["joined"]
        return Model(
            classes=_classes(arrays),
            titles=_titles(arrays, metadata["extra"]),
            multiclass=metadata["multiclass"],
            scorers={
                name: _SCORERS[name].from_arrays(_own(name, arrays), facts)
                for name, facts in metadata["scorers"].items()
            },
            blend=Blend.from_arrays(_own("blend", arrays), metadata["blend"]),
            label_counts=arrays["label_counts"],
            n_train=metadata["n_train"],
            threshold=float(threshold[0]) if len(threshold) == 1 else threshold,
            text=None if config is None else TextFeatures.from_arrays(_own("text", arrays), config),
            joined=None if joined is None else Joined(tuple(joined["widths"]), tuple(joined["lengths"])),
            settings=metadata["settings"],
        ), metadata["extra"]
    except KeyError as missing:
        raise ModelError(f"{path} has no {missing}: this is not a classifier; fit and save it again") from missing


def _classes(arrays: Arrays) -> NDArray[Any]:
    return arrays["classes"] if "classes" in arrays else as_labels(unpack_strings("classes", arrays))


def _titles(arrays: Arrays, extra: dict[str, Any]) -> list[str] | None:
    """Return the names that are shown for labels; models had them as JSON once, or have none."""
    if "label_names.ends" not in arrays:
        known = extra.get("label_titles")
        return titles_of(_classes(arrays), known) if known else None
    text, ends = arrays["label_names.utf8"], arrays["label_names.ends"]
    whole = text.ndim == 1 == ends.ndim and len(ends) == len(arrays["label_counts"]) and ends.dtype.kind == "i"
    if not whole or (np.diff(ends, prepend=0) < 0).any() or ends.max(initial=0) != len(text):
        raise ModelError("the names of its labels are damaged; copy the model folder again, or set the names again")
    try:
        return unpack_strings("label_names", arrays)
    except UnicodeDecodeError as cause:
        raise ModelError("the names of its labels are not UTF-8; set the names again") from cause


def _named(part: str, arrays: Arrays) -> Arrays:
    return {f"{part}.{name}": array for name, array in arrays.items()}


def _own(part: str, arrays: Arrays) -> dict[str, NDArray[Any]]:
    return {name.removeprefix(f"{part}."): a for name, a in arrays.items() if name.startswith(f"{part}.")}
