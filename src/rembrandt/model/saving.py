"""A model to and from a folder. The arrays of each part are named ``part.array``."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rembrandt import memory
from rembrandt.data.labels import as_labels
from rembrandt.errors import ModelError, RembrandtError
from rembrandt.features.joined import Joined
from rembrandt.features.text import TextFeatures
from rembrandt.model.folder import damaged, load_folder, save_folder
from rembrandt.model.model import Model
from rembrandt.scorers.blend import Blend
from rembrandt.scorers.centroids import Centroids
from rembrandt.scorers.embedding import EmbeddingScorer
from rembrandt.scorers.trees import Trees
from rembrandt.storage.arrays import Arrays, checked, pack_strings, positive, unpack_strings

_UNEXPECTED = (
    ValueError,
    TypeError,
    AttributeError,
    LookupError,
    ArithmeticError,
    SyntaxError,
)  # np.dtype("(")
_SCORERS: dict[str, Any] = {"trees": Trees, "centroids": Centroids, "embedding": EmbeddingScorer}


def save_model(
    path: str | Path, model: Model, extra: dict[str, Any], force: bool = False, **options: Any
) -> str:
    """Write the model and ``extra`` JSON to a new folder; ``options`` and the result are those of
    `save_folder`.
    """
    arrays: Arrays = {
        "label_counts": model.label_counts,
        "threshold": np.atleast_1d(np.float64(model.threshold)),
    }
    if model.classes.dtype.kind in "USO":
        arrays |= pack_strings("classes", [str(name) for name in model.classes])
    else:
        arrays["classes"] = model.classes
    for name, texts in (("label_names", model.titles), ("label_descriptions", model.descriptions)):
        arrays |= {} if texts is None else pack_strings(name, texts)
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
    metadata["blend"], metadata["scorers"] = model.blend.to_json(), {}
    for name, scorer in model.scorers.items():
        own, metadata["scorers"][name] = scorer.arrays()
        arrays |= _named(name, own)
    whole = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    return save_folder(path, whole, metadata, force=force, **options)


def load_model(
    path: str | Path, verify: bool = True, require_signature: str | bytes | None = None
) -> tuple[Model, dict[str, Any]]:
    """Return the model of a folder and its extra JSON. Every array is checked, because anybody can
    make up a folder.
    """
    arrays, metadata = load_folder(path, verify, require_signature)
    with folder_errors(path):
        model = _model(arrays, metadata)
        _check_fit(model)
        return model, dict(metadata["extra"])


@contextmanager
def folder_errors(path: str | Path) -> Iterator[None]:
    """Turn whatever goes wrong while a model is built from an unexpected folder into a sentence."""
    try:
        yield
    except KeyError as missing:
        raise ModelError(
            f"{path} has no {missing}: this is not a classifier; fit and save it again"
        ) from missing
    except MemoryError as cause:
        raise ModelError(f"{path}: {memory.ran_out(cause)}") from cause
    except (RembrandtError, *_UNEXPECTED) as cause:
        raise damaged(Path(path), str(cause)) from cause


def _model(arrays: Arrays, metadata: dict[str, Any]) -> Model:
    config, joined, names = metadata["text"], metadata["joined"], _own("classes", arrays)
    classes = (
        as_labels(unpack_strings("classes", arrays))
        if names
        else checked("classes", arrays, (None,), "biuf")
    )
    c = len(classes)
    threshold = checked("threshold", arrays, (None,))
    return Model(
        classes=classes,
        titles=_label_texts("label_names", arrays, c),
        descriptions=_label_texts("label_descriptions", arrays, c),
        multiclass=metadata["multiclass"],
        scorers={
            name: _SCORERS[name].from_arrays(_own(name, arrays), facts)
            for name, facts in metadata["scorers"].items()
        },
        blend=Blend.from_json(metadata["blend"]),
        label_counts=checked("label_counts", arrays, (c,), "iuf", 0),
        n_train=positive(metadata["n_train"], int, or_zero=True),
        threshold=float(threshold[0])
        if len(threshold) == 1
        else checked("threshold", arrays, (c,)),
        text=None if config is None else TextFeatures.from_arrays(_own("text", arrays), config),
        joined=None
        if joined is None
        else Joined(tuple(joined["widths"]), tuple(map(positive, joined["lengths"]))),
        settings=dict(metadata["settings"]),
    )


def _check_fit(model: Model) -> None:
    """Check that the parts of a model fit each other."""
    shapes = {(scorer.n_labels, scorer.n_features) for scorer in model.scorers.values()}
    if len(shapes) != 1 or shapes != {(len(set(model.classes.tolist())), model.n_features)}:
        raise ModelError("its scorers and its labels do not fit together")
    if (
        16 * model.n_features > memory.available()
    ):  # lists of features, however few of them have weights
        raise ModelError(f"its {model.n_features:,} features need more memory than is free")
    if not any(scorer.proposes for scorer in model.scorers.values()):
        raise ModelError("none of its scorers proposes labels")
    if not isinstance(model.multiclass, bool) or model.blend.weights.keys() != model.scorers.keys():
        raise ModelError("its description does not fit its scorers")
    widths = [] if model.joined is None else [positive(width, int) for width in model.joined.widths]
    if model.text is not None and not widths:
        widths = [model.text.n_features_out_]
    if widths and sum(widths) != model.n_features:
        raise ModelError("its scorers have other features than its text or its blocks")


def _label_texts(name: str, arrays: Arrays, n_labels: int) -> list[str] | None:
    """Return the names or the descriptions of the labels, where there are any."""
    if not _own(name, arrays):
        return None
    texts = unpack_strings(name, arrays)
    if len(texts) != n_labels:
        raise ModelError(f"its {name} do not fit its labels")
    return texts


def _named(part: str, arrays: Arrays) -> Arrays:
    return {f"{part}.{name}": array for name, array in arrays.items()}


def _own(part: str, arrays: Arrays) -> dict[str, NDArray[Any]]:
    return {
        name.removeprefix(f"{part}."): a
        for name, a in arrays.items()
        if name.startswith(f"{part}.")
    }
