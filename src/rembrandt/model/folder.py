"""Model folders: writing one, and reading one only if it is whole."""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from rembrandt import __version__
from rembrandt.errors import ModelError, StorageError
from rembrandt.storage.arrays import Arrays, file_sha256, map_arrays, write_arrays
from rembrandt.storage.atomic import atomic_folder, interrupted

FORMAT = "rembrandt-model"
FORMAT_VERSION = 2
_CARD = "model.json"
_WEIGHTS = "weights.safetensors"
_REMEDY = "copy the model folder again from where it was made, or fit again"


def save_folder(
    path: str | Path, arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, Any], force: bool = False
) -> None:
    """Save arrays and JSON-able metadata as a model folder.

    The folder appears complete or not at all. An existing one is refused, unless ``force`` is set and it is a model:
    then it is replaced, and still intact if anything fails. Tuples in the metadata come back as lists.
    """
    try:
        text = json.dumps(_checked(metadata), allow_nan=False)
    except (TypeError, ValueError) as cause:
        raise ModelError(f"the metadata is not JSON ({cause}); use strings, finite numbers, lists, dicts") from cause
    with atomic_folder(Path(path), why_not_a_model if force else None) as folder:
        size, sha256 = write_arrays(folder / _WEIGHTS, arrays)
        card = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "library_version": __version__,
            "metadata": json.loads(text),
            "files": {_WEIGHTS: {"bytes": size, "sha256": sha256}},
        }
        card["sha256"] = _seal(card)
        with (folder / _CARD).open("x", encoding="utf-8") as file:
            json.dump(card, file, indent=1)
            file.flush()
            os.fsync(file.fileno())


def load_folder(path: str | Path, verify: bool = True) -> tuple[Arrays, dict[str, Any]]:
    """Return a saved model's arrays, read-only and mapped into memory, and its metadata.

    Every checksum is verified, which reads the weights once (about a second per gigabyte). ``verify=False`` trusts the
    contents and checks only the size of the file and the places of the arrays: a model of any size then opens at once.
    """
    folder = Path(path)
    card = _read_card(folder)
    if verify and card["sha256"] != _seal(card):
        raise damaged(folder / _CARD, "its contents do not match their checksum")
    weights = folder / _WEIGHTS
    if not weights.is_file():
        raise damaged(folder, f"{_WEIGHTS} is missing")
    expected, size = card["files"][_WEIGHTS], weights.stat().st_size
    if size != expected["bytes"]:
        raise damaged(weights, f"it has {size} bytes instead of {expected['bytes']}")
    if verify and file_sha256(weights) != expected["sha256"]:
        raise damaged(weights, "its contents do not match their checksum")
    try:
        arrays = map_arrays(weights)
    except StorageError as cause:
        raise ModelError(f"{cause}; {_REMEDY}") from cause
    return arrays, card["metadata"]


def _read_card(folder: Path) -> dict[str, Any]:
    """Return ``model.json``, refusing what is not a model, is damaged, or is newer than this library."""
    if not (folder / _CARD).is_file():
        left = [str(other) for other in interrupted(folder) if (other / _CARD).is_file()]
        rescue = f"an interrupted save left it at {left[0]}, rename that back" if left else "check the path"
        raise ModelError(f"{folder} is not a model, it has no {_CARD}; {rescue}")
    try:
        card = json.loads((folder / _CARD).read_text(encoding="utf-8"))
    except ValueError as cause:
        raise damaged(folder / _CARD, "it is not JSON") from cause
    if not isinstance(card, dict) or card.get("format") != FORMAT:
        raise ModelError(f"{folder / _CARD} does not describe a {FORMAT}; check the path")
    version = card.get("format_version")
    if version != FORMAT_VERSION:
        raise ModelError(
            f"{folder} has format version {version}, and Rembrandt {__version__} reads version {FORMAT_VERSION}; "
            f"fit the model again, or install Rembrandt {card.get('library_version')}"
        )
    try:
        weights = card["files"][_WEIGHTS]
        _ = card["metadata"].items(), card["sha256"], weights["sha256"], weights["bytes"]
    except (AttributeError, KeyError, TypeError) as cause:
        raise damaged(folder / _CARD, "something that every model has is missing from it") from cause
    return card


def _seal(card: dict[str, Any]) -> str:
    """Return the SHA-256 of the card's contents, however they are laid out."""
    contents = {key: value for key, value in card.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(contents, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def why_not_a_model(path: Path) -> str | None:
    """Return why an existing path must not be overwritten by a model, or None if it holds a model and only that."""
    if not path.is_dir():
        return "it is not a folder"
    strangers = sorted(entry.name for entry in path.iterdir() if entry.name not in (_CARD, _WEIGHTS))
    if strangers:
        return f"it holds {strangers[0]!r}, which is not part of a model"
    if not (path / _CARD).is_file() or FORMAT.encode() not in (path / _CARD).read_bytes():
        return "it is not a model"
    return None


def damaged(path: Path, finding: str) -> ModelError:
    """The error for a file that is not as it was written."""
    return ModelError(f"{path} is damaged: {finding}; {_REMEDY}")


def _checked(value: Any) -> Any:
    """Return the value if all keys in it are strings; JSON would quietly turn others into strings."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str):
                raise TypeError(f"key {key!r} is not a string")
            _checked(item)
    elif isinstance(value, list | tuple):
        for item in value:
            _checked(item)
    return value
