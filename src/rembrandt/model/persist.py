"""A model with its vectoriser, to and from a folder."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rembrandt.decoders.decoder import Decoder
from rembrandt.errors import ModelError
from rembrandt.features.fourier import FourierMap
from rembrandt.features.text import TextFeatures
from rembrandt.model.folder import load_folder, save_folder
from rembrandt.model.model import Model
from rembrandt.packing import pack_strings, unpack_strings

_PARTS = ("projection", "embedding", "singular_values", "label_counts")
_TEXT = "text."  # before the names of the vectoriser's arrays


def save_model(
    path: str | Path, model: Model, text: TextFeatures | None, extra: dict[str, Any], force: bool = False
) -> None:
    """Write ``model``, its vectoriser where it reads texts, and ``extra`` facts (JSON) to a new folder."""
    decoder = model.decoder
    arrays: dict[str, NDArray[Any]] = {name: np.asarray(getattr(model, name)) for name in _PARTS}
    arrays |= {"decoder.weights": np.asarray(decoder.weights), "decoder.bias": np.asarray(decoder.bias)}
    if decoder.fourier is not None:
        arrays |= {
            "fourier.frequencies": np.asarray(decoder.fourier.frequencies),
            "fourier.offsets": np.asarray(decoder.fourier.offsets),
        }
    names_are_text = model.classes.dtype.kind in "USO"
    arrays |= pack_strings("classes", [str(c) for c in model.classes]) if names_are_text else {"classes": model.classes}
    if text is not None:
        arrays |= {_TEXT + name: array for name, array in text.to_arrays().items()}
    metadata = {
        "multiclass": model.multiclass,
        "normalize": model.normalize,
        "link": decoder.link,
        "greedy": decoder.greedy,
        "linear": None if decoder.fourier is None else decoder.fourier.linear,
        "n_train": model.n_train,
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
        model = Model(
            classes=classes,
            multiclass=metadata["multiclass"],
            normalize=metadata["normalize"],
            decoder=Decoder(weights, bias, metadata["link"], fourier, metadata["greedy"]),
            n_train=metadata["n_train"],
            settings=metadata["settings"],
            projection=arrays["projection"],
            embedding=arrays["embedding"],
            singular_values=arrays["singular_values"],
            label_counts=arrays["label_counts"],
        )
        config = metadata["text"]
        own = {name.removeprefix(_TEXT): array for name, array in arrays.items() if name.startswith(_TEXT)}
        return model, None if config is None else TextFeatures.from_arrays(own, config), metadata["extra"]
    except KeyError as missing:
        raise ModelError(
            f"{path}: the folder lacks {missing}, so it is not a classifier; fit and save it again"
        ) from missing
