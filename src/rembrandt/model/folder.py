"""Model folders: writing one, and reading one only if it is whole.

Checksums detect damage. A program that can write to a folder can also recompute them, so they do
not show who made a model; a signature with a secret key does.
"""

import hashlib
import hmac
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from rembrandt import __version__
from rembrandt.errors import ModelError, StorageError
from rembrandt.storage.arrays import (
    MAX_JSON_VALUES,
    Arrays,
    max_json_values,
    parse_json,
    read_arrays,
    write_arrays,
)
from rembrandt.storage.atomic import atomic_folder, interrupted
from rembrandt.storage.files import read_bounded

FORMAT = "rembrandt-model"
FORMAT_VERSION = 4
_CARD = "model.json"
_WEIGHTS = "weights.safetensors"
CARD_FOR_PEOPLE = "README.md"  # not covered by checksums: people may edit it
FILES = (_CARD, _WEIGHTS, CARD_FOR_PEOPLE)  # of a model; a folder with others is none
_MAX_CARD_BYTES = 64 << 20
_REMEDY = "copy the model folder again from where it was made, or fit again"


def save_folder(
    path: str | Path,
    arrays: Mapping[str, NDArray[Any]],
    metadata: Mapping[str, Any],
    force: bool = False,
    sign_key: str | bytes | None = None,
    expected: str | None = None,
    readme: str | None = None,
) -> str:
    """Save arrays and JSON-able metadata as a model folder, and return the checksum of its card.

    The folder appears complete or not at all. An existing one is refused, unless ``force`` is set
    and it is a model: then it is replaced, and still intact if anything fails. If it has another
    checksum than ``expected``, somebody replaced it since it was loaded, and it is kept. Tuples in
    the metadata come back as lists. ``readme`` is a page for people in the folder.
    """

    def may_replace(there: Path) -> str | None:
        changed = expected is not None and expected != version(there)
        return "it has changed since it was loaded" if changed else why_not_a_model(there)

    try:
        text = json.dumps(_checked(metadata), allow_nan=False)
    except (TypeError, ValueError) as cause:
        raise ModelError(
            f"the metadata is not JSON ({cause}); use strings, finite numbers, lists, dicts"
        ) from cause
    with atomic_folder(Path(path), may_replace if force else None) as folder:
        size, sha256 = write_arrays(folder / _WEIGHTS, arrays)
        card = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "library_version": __version__,
            "metadata": json.loads(text),
            "files": {_WEIGHTS: {"bytes": size, "sha256": sha256}},
        }
        card["sha256"] = _seal(card)
        if sign_key is not None:
            card["signature"] = _signature(card, sign_key)
        card_text = json.dumps(card, indent=1)
        if len(card_text) > _MAX_CARD_BYTES:
            raise ModelError(
                f"the metadata takes {len(card_text):,} bytes of JSON, and a model may have "
                f"{_MAX_CARD_BYTES:,}; save less with it"
            )
        n_values = max_json_values(card_text.encode())
        if n_values > MAX_JSON_VALUES:
            raise ModelError(
                f"the metadata has about {n_values:,} values or commas, and a model may have "
                f"{MAX_JSON_VALUES:,}; save less with it"
            )
        with (folder / _CARD).open("x", encoding="utf-8") as file:
            file.write(card_text)
            file.flush()
            os.fsync(file.fileno())
        if readme is not None:
            (folder / CARD_FOR_PEOPLE).write_text(readme, encoding="utf-8")
    return str(card["sha256"])


def load_folder(
    path: str | Path, verify: bool = True, require_signature: str | bytes | None = None
) -> tuple[Arrays, dict[str, Any]]:
    """Return a saved model's arrays, read-only, and its metadata.

    The weights are read once (about a second per gigabyte). ``verify=False`` skips the checksums.
    ``require_signature`` is the key that the model must have been signed with.
    """
    folder = Path(path)
    while True:
        text = _card_text(folder)
        try:
            card = _parsed_card(folder, text)
            if verify or require_signature is not None:
                _verify(folder / _CARD, card, require_signature)
            expected, weights = card["files"][_WEIGHTS], folder / _WEIGHTS
            if not weights.is_file():
                raise damaged(folder, f"{_WEIGHTS} is missing")
            checksum = expected["sha256"] if verify or require_signature is not None else None
            return read_arrays(weights, expected["bytes"], checksum), card["metadata"]
        except (ModelError, StorageError, FileNotFoundError) as cause:
            if _card_text(folder) != text:
                continue  # the folder was replaced in the meantime
            raise (
                cause if isinstance(cause, ModelError) else ModelError(f"{cause}; {_REMEDY}")
            ) from cause


def version(path: Path) -> str | None:
    """Return the checksum of the card of a model folder; None if it has none."""
    try:
        return str(_parsed_card(path, _card_text(path))["sha256"])
    except ModelError:
        return None


def _card_text(folder: Path) -> bytes:
    card = folder / _CARD
    try:
        return read_bounded(card, _MAX_CARD_BYTES)
    except StorageError as cause:
        raise ModelError(f"{folder} is not a model: {cause}; {_REMEDY}") from cause
    except OSError as cause:
        left = [str(other) for other in interrupted(folder) if (other / _CARD).is_file()]
        rescue = (
            f"an interrupted save left it at {left[0]}, rename that back"
            if left
            else "check the path"
        )
        reason = (
            f"{_CARD} cannot be read ({cause.strerror})" if card.is_file() else f"it has no {_CARD}"
        )
        raise ModelError(f"{folder} is not a model, {reason}; {rescue}") from cause


def _parsed_card(folder: Path, text: bytes) -> dict[str, Any]:
    """Return ``model.json``, refusing what is not a model, is damaged, or is newer than this
    library.
    """
    try:
        card = parse_json(folder / _CARD, text)
    except StorageError as cause:
        raise ModelError(f"{cause}; {_REMEDY}") from cause
    if not isinstance(card, dict) or card.get("format") != FORMAT:
        raise ModelError(f"{folder / _CARD} does not describe a {FORMAT}; check the path")
    format_version = card.get("format_version")
    if format_version != FORMAT_VERSION:
        raise ModelError(
            f"{folder} has format version {format_version}, and Rembrandt {__version__} reads "
            f"version {FORMAT_VERSION}; fit the model again, or install Rembrandt "
            f"{card.get('library_version')}"
        )
    try:
        weights = card["files"][_WEIGHTS]
        _ = card["metadata"].items(), card["sha256"], weights["sha256"], weights["bytes"]
    except (AttributeError, KeyError, TypeError) as cause:
        raise damaged(
            folder / _CARD, "something that every model has is missing from it"
        ) from cause
    return card


def _verify(path: Path, card: dict[str, Any], key: str | bytes | None) -> None:
    """Check the checksum of the card and, with a key, its signature."""
    try:
        seal = _seal(card)
    except RecursionError as cause:
        raise damaged(path, "it is nested too deeply") from cause
    if card["sha256"] != seal:
        raise damaged(path, "its contents do not match their checksum")
    if key is not None and not hmac.compare_digest(
        str(card.get("signature")).encode(), _signature(card, key).encode()
    ):
        raise ModelError(
            f"{path} is not signed with this key; use it only if you trust where it comes from"
        )


def _signature(card: dict[str, Any], key: str | bytes) -> str:
    """Return the HMAC of the checksum of the card, which covers that of the weights."""
    secret = key.encode() if isinstance(key, str) else key
    if not secret:
        raise ModelError(
            "the key of a signature is empty; give a secret of at least 16 random bytes"
        )
    return hmac.new(secret, _seal(card).encode(), "sha256").hexdigest()


def _seal(card: dict[str, Any]) -> str:
    """Return the SHA-256 of the card's contents, however they are laid out."""
    contents = {key: value for key, value in card.items() if key not in ("sha256", "signature")}
    return hashlib.sha256(
        json.dumps(contents, sort_keys=True, separators=(",", ":")).encode()
    ).hexdigest()


def why_not_a_model(path: Path) -> str | None:
    """Return why an existing path must not be overwritten by a model, or None if it holds a model
    and only that.
    """
    if not path.is_dir():
        return "it is not a folder"
    strangers = sorted(entry.name for entry in path.iterdir() if entry.name not in FILES)
    if strangers:
        return f"it holds {strangers[0]!r}, which is not part of a model"
    try:
        text = read_bounded(path / _CARD, _MAX_CARD_BYTES)
    except (OSError, StorageError):
        return "it is not a model"
    if FORMAT.encode() not in text:
        return "it is not a model"
    return None


def damaged(path: Path, finding: str) -> ModelError:
    """The error for a file that is not as it was written."""
    return ModelError(f"{path} is damaged: {finding}; {_REMEDY}")


def _checked(value: Any) -> Any:
    """Return the value if all keys in it are strings; JSON would quietly turn others into
    strings.
    """
    if isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str):
                raise TypeError(f"key {key!r} is not a string")
            _checked(item)
    elif isinstance(value, list | tuple):
        for item in value:
            _checked(item)
    return value
