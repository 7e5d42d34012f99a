"""A model to and from a folder. The arrays of each part are named ``part.array``."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rembrandt import memory
from rembrandt.blend import Blend
from rembrandt.data.hierarchy import Hierarchy
from rembrandt.data.labels import as_labels
from rembrandt.declarations import ModelSettings
from rembrandt.errors import ModelError, RembrandtError
from rembrandt.features.text import TextFeatures
from rembrandt.model.facts import Facts
from rembrandt.model.folder import damaged, load_folder, save_folder
from rembrandt.model.model import Model
from rembrandt.parts.protocol import beside_each_other
from rembrandt.parts.registry import KINDS
from rembrandt.settings.view_names import FEATURES, TEXTS, vector_views
from rembrandt.storage.arrays import Arrays, checked, pack_strings, positive, unpack_strings

_UNEXPECTED = (
    ValueError,
    TypeError,
    AttributeError,
    LookupError,
    ArithmeticError,
    SyntaxError,
)  # np.dtype("(")


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
    label_texts = {
        "label_names": model.titles,
        "label_descriptions": model.descriptions,
        "label_other_names": model.other_names,
    }
    for name, texts in label_texts.items():
        if texts is not None:
            arrays |= pack_strings(name, texts)
    if model.hierarchy is not None:
        arrays |= _named("hierarchy", _hierarchy_arrays(model.hierarchy))
    text_config = None
    if model.text is not None:
        text_config = model.text.to_config()
        arrays |= _named("text", model.text.to_arrays())
    part_facts = {}
    for name, part in model.parts.items():
        part_arrays, part_facts[name] = part.arrays()
        arrays |= _named(name, part_arrays)
    metadata: dict[str, Any] = {
        "multiclass": model.multiclass,
        "n_train": model.n_train,
        "text": text_config,
        "settings": model.settings.to_json(),
        "facts": model.facts.to_json(),
        "blend": model.blend.to_json(),
        "parts": part_facts,
        "extra": extra,
    }
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
    settings = ModelSettings.from_json(metadata["settings"])
    if metadata["parts"].keys() != settings.parts.keys():
        raise ModelError("its parts are not those of its settings")
    parts = {}
    for name, spec in settings.parts.items():
        part_type = KINDS[spec.kind].part_type
        parts[name] = part_type.from_arrays(_arrays_of(name, arrays), metadata["parts"][name])
    if _arrays_of("classes", arrays):
        classes = as_labels(unpack_strings("classes", arrays))
    else:
        classes = checked("classes", arrays, (None,), "biuf")
    n_labels = len(classes)
    thresholds = checked("threshold", arrays, (None,))
    threshold: Any = float(thresholds[0])
    if len(thresholds) > 1:
        threshold = checked("threshold", arrays, (n_labels,))
    text = None
    if metadata["text"] is not None:
        text = TextFeatures.from_arrays(_arrays_of("text", arrays), metadata["text"])
    return Model(
        classes=classes,
        multiclass=metadata["multiclass"],
        parts=beside_each_other(parts),
        blend=Blend.from_json(metadata["blend"]),
        label_counts=checked("label_counts", arrays, (n_labels,), "iuf", 0),
        n_train=positive(metadata["n_train"], int, or_zero=True),
        settings=settings,
        facts=Facts.from_json(metadata["facts"]),
        threshold=threshold,
        text=text,
        titles=_label_texts("label_names", arrays, n_labels),
        descriptions=_label_texts("label_descriptions", arrays, n_labels),
        other_names=_label_texts("label_other_names", arrays, n_labels),
        hierarchy=_hierarchy(_arrays_of("hierarchy", arrays), n_labels),
    )


def _check_fit(model: Model) -> None:
    """Check that the parts of a model fit each other."""
    n_labels = len(set(model.classes.tolist()))
    n_columns: dict[str, int] = {}
    for name, spec in model.settings.parts.items():
        part = model.parts[name]
        width = part.n_features
        if spec.view != TEXTS:
            width = n_columns.setdefault(spec.view, width)
        if part.n_labels != n_labels or part.n_features != width:
            raise ModelError("its parts and its labels do not fit together")
    blocks = list(n_columns)
    if FEATURES not in n_columns or blocks[1:] != vector_views(len(blocks) - 1):
        raise ModelError("its parts read other rows than a model has")
    if 16 * sum(n_columns.values()) > memory.available():
        # Lists of features, however few of them have weights.
        raise ModelError(f"its {model.n_features:,} features need more memory than is free")
    if not any(part.retrieves_labels for part in model.parts.values()):
        raise ModelError("none of its parts finds labels")
    if not isinstance(model.multiclass, bool) or model.blend.weights.keys() != model.parts.keys():
        raise ModelError("its description does not fit its parts")
    if model.reads_texts and model.text is None:
        raise ModelError("a part reads texts, and it has no features of texts")
    if model.text is not None and model.text.n_features_out_ != model.n_features:
        raise ModelError("its parts have other features than its text")


def _label_texts(name: str, arrays: Arrays, n_labels: int) -> list[str] | None:
    """Return the names or the descriptions of the labels, where there are any."""
    if not _arrays_of(name, arrays):
        return None
    texts = unpack_strings(name, arrays)
    if len(texts) != n_labels:
        raise ModelError(f"its {name} do not fit its labels")
    return texts


def _hierarchy_arrays(hierarchy: Hierarchy) -> Arrays:
    """Return a hierarchy as arrays."""
    arrays: Arrays = {"children": hierarchy.children, "parents": hierarchy.parents}
    arrays |= pack_strings("groups", hierarchy.groups)
    arrays |= pack_strings("separator", [hierarchy.separator])
    if hierarchy.group_names is not None:
        arrays |= pack_strings("group_names", hierarchy.group_names)
    return arrays


def _hierarchy(arrays: Arrays, n_labels: int) -> Hierarchy | None:
    """Return the hierarchy of a model, where it has one; a cycle in it is refused."""
    if not arrays:
        return None
    groups = unpack_strings("groups", arrays)
    group_names = None
    if _arrays_of("group_names", arrays):
        group_names = unpack_strings("group_names", arrays)
        if len(group_names) != len(groups):
            raise ModelError("the names of its groups do not fit its groups")
    children = checked("children", arrays, (None,), "i", 0)
    return Hierarchy(
        n_labels,
        groups,
        children.astype(np.int64),
        checked("parents", arrays, (len(children),), "i", 0).astype(np.int64),
        group_names,
        unpack_strings("separator", arrays)[0],
    )


def _named(part: str, arrays: Arrays) -> Arrays:
    return {f"{part}.{name}": array for name, array in arrays.items()}


def _arrays_of(part: str, arrays: Arrays) -> dict[str, NDArray[Any]]:
    prefix = f"{part}."
    return {
        name.removeprefix(prefix): array
        for name, array in arrays.items()
        if name.startswith(prefix)
    }
