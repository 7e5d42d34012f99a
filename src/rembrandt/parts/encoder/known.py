"""What is known about networks that were read before, on disk by the content of their files.

A fit of which all vectors are in the cache uses a network's sizes, its tokenizer and its checksum.
Reading these from the network itself would take the libraries that run it, which take longer to
import than such a fit takes.
"""

import hashlib
import json
import os
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from rembrandt.errors import ModelError, StorageError
from rembrandt.parts.encoder.cache import SUFFIX, cache_folder
from rembrandt.parts.encoder.network import (
    MAX_FILE_BYTES,
    TOKENIZER,
    Network,
    Shape,
    WeightsInFiles,
    load_network,
    require_libraries,
)
from rembrandt.progress import logger
from rembrandt.storage.arrays import (
    checked,
    file_sha256,
    parse_json,
    positive,
    read_arrays,
    write_arrays,
)

# Changes with what is kept of a network, and with how a network is read.
FORMAT = 1
# Libraries whose versions decide what is read from the files.
LIBRARIES = ("tokenizers", "transformers")
# Endings of the files that a network is read from, and files of the folders beside them.
ENDINGS = (".json", ".md", ".model", ".safetensors", ".txt")
FILES_OF_MODULES = "*/config.json"
# Networks that are kept; what was used least recently is deleted first.
MOST_NETWORKS = 32
FACTS = "facts"


def known_network(name: str) -> Network:
    """Return a network, of which the weights are read when they are used if it was read before.

    Parameters
    ----------
    name : str
        A folder, or the name of a model.

    Returns
    -------
    Network
    """
    require_libraries(name)
    path = _record_of(name)
    if path is not None and path.is_file():
        try:
            network = _read(path, name)
            os.utime(path)
            return network
        except (StorageError, ModelError, LookupError, TypeError, ValueError, OSError) as cause:
            logger.warning("%s is deleted from the cache: %s", path, cause)
            path.unlink(missing_ok=True)
    network = load_network(name)
    path = _record_of(name)  # some of the files may have been downloaded just now
    if path is not None:
        _write(path, network)
    return network


def _record_of(name: str) -> Path | None:
    """Return where the record of a network is kept; None where its files are not here."""
    try:
        folder = _folder_of(name)
        if folder is None:
            return None
        key = _key_of(folder)
    except (OSError, PackageNotFoundError):
        return None  # reading the network says what is wrong
    return cache_folder().parent / "networks" / f"{key[:32]}{SUFFIX}"


def _folder_of(name: str) -> Path | None:
    """Return the folder with the files of a network: a hub is asked for the latest version of a
    name, and a version that is not here is left to `load_network`.
    """
    if Path(name).is_dir():
        return Path(name)
    try:
        from huggingface_hub import hf_hub_download, try_to_load_from_cache

        if not isinstance(try_to_load_from_cache(name, "config.json"), str):
            return None
        return Path(hf_hub_download(name, "config.json")).parent
    except Exception:  # noqa: BLE001 - the library raises its own; reading the network says why
        return None


def _key_of(folder: Path) -> str:
    """Return a checksum of the files of a network, and of the libraries that read them."""
    versions = [version(library) for library in LIBRARIES]
    sha256 = hashlib.sha256(json.dumps([FORMAT, versions]).encode())
    files = [path for path in folder.iterdir() if path.suffix in ENDINGS]
    files += folder.glob(FILES_OF_MODULES)
    for path in sorted(files):
        if path.is_file():
            entry = [str(path.relative_to(folder)), file_sha256(path)]
            sha256.update(json.dumps(entry).encode())
    return sha256.hexdigest()


def _read(path: Path, name: str) -> Network:
    arrays = read_arrays(path)
    tokenizer = checked(TOKENIZER, arrays, (None,), "u")
    text = checked(FACTS, arrays, (None,), "u").tobytes()
    facts: dict[str, Any] = parse_json(path, text)
    if len(tokenizer) > MAX_FILE_BYTES:
        raise ModelError("the tokenizer is too large")
    shapes: dict[str, Shape] = {}
    for weight_name, sizes in facts["shapes"].items():
        shapes[weight_name] = tuple(positive(size, int) for size in sizes)
    weights = WeightsInFiles(name, str(facts["digest"]), shapes)
    return Network.of_facts(facts, name, weights, tokenizer)


def _write(path: Path, network: Network) -> None:
    """Keep what is known about a network, where that can be written."""
    facts = network.facts() | {
        "licence": network.licence,
        "digest": network.digest,
        "shapes": network.weight_shapes,
    }
    text = json.dumps(facts).encode()
    temporary = path.with_name(f".{path.stem}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_arrays(
            temporary,
            {
                TOKENIZER: np.frombuffer(network.tokenizer, dtype=np.uint8),
                FACTS: np.frombuffer(text, dtype=np.uint8),
            },
        )
        temporary.replace(path)
        _delete_oldest(path.parent)
    except OSError as cause:
        logger.info("what is known about networks is not kept in %s: %s", path.parent, cause)


def _delete_oldest(folder: Path) -> None:
    paths = sorted(folder.glob(f"*{SUFFIX}"), key=lambda path: path.stat().st_mtime)
    for path in paths[:-MOST_NETWORKS]:
        path.unlink(missing_ok=True)
