"""Vectors of texts on disk, by the content of the encoder and of the texts.

The vectors of a frozen encoder are the same in every fit. A folder of the cache belongs to one
encoder and one number of tokens, and a file in it holds the vectors that were computed together.
"""

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import platformdirs
from numpy.typing import NDArray

from rembrandt.errors import StorageError
from rembrandt.linalg import Array
from rembrandt.parts.encoder.text_encoder import TextEncoder, Vectors
from rembrandt.progress import Report, logger, silent
from rembrandt.storage.arrays import checked, read_arrays, write_arrays

# Bytes of all vectors that are kept; what was used least recently is deleted first.
MOST_BYTES = 4 << 30
# Texts whose vectors are computed, and then written to a file.
BLOCK_TEXTS = 1 << 11
SUFFIX = ".safetensors"
VARIABLE = "REMBRANDT_CACHE"  # environment variable with another folder


def cache_folder() -> Path:
    """Return the folder of all vectors."""
    root = os.environ.get(VARIABLE) or platformdirs.user_cache_dir("rembrandt")
    return Path(root) / "vectors"


def cached_vectors(
    encoder: TextEncoder,
    digest: str,
    texts: Sequence[str],
    report: Report = silent,
    folder: Path | None = None,
) -> Vectors:
    """Return the vectors of texts (n × width); those that are not in the cache are computed and
    added to it.

    ``digest`` stands for all that the vectors depend on, besides the texts.
    """
    root = folder or cache_folder()
    place = root / digest[:32]
    keys = _keys(texts)
    vectors = np.empty((len(texts), encoder.width), dtype=np.float32)
    is_known = _fill(place, keys, vectors)
    _, first = np.unique(keys, return_index=True)
    missing = first[~is_known[first]]
    if len(missing) == 0:
        return vectors
    for start in range(0, len(missing), BLOCK_TEXTS):
        report("encoding texts", start, len(missing))
        rows = missing[start : start + BLOCK_TEXTS]
        block = encoder.compute([texts[row] for row in rows.tolist()])
        _write(place, keys[rows], block)
        vectors[rows] = block
    report("encoding texts", len(missing), len(missing))
    # Equal texts have equal vectors; `missing` is in the order of its keys.
    unknown = np.flatnonzero(~is_known)
    vectors[unknown] = vectors[missing[np.searchsorted(keys[missing], keys[unknown])]]
    _delete_oldest(root)
    return vectors


def _keys(texts: Sequence[str]) -> NDArray[np.int64]:
    """Return a number for each text that different texts do not share."""
    digests = [
        hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        for text in texts
    ]
    return np.frombuffer(b"".join(digests), dtype=np.int64)


def _fill(place: Path, keys: NDArray[np.int64], vectors: Vectors) -> NDArray[np.bool_]:
    """Write known vectors to ``vectors``, and return which are known."""
    is_known = np.zeros(len(keys), dtype=np.bool_)
    if not place.is_dir():
        return is_known
    for path in sorted(place.glob(f"*{SUFFIX}")):
        try:
            arrays = read_arrays(path)
            known_keys = checked("keys", arrays, (None,), "i")
            known: Array = checked("vectors", arrays, (len(known_keys), vectors.shape[1]))
        except StorageError as cause:
            logger.warning("%s is deleted from the cache: %s", path, cause)
            path.unlink(missing_ok=True)
            continue
        if len(known_keys) == 0:
            continue
        order = np.argsort(known_keys)
        positions = np.searchsorted(known_keys[order], keys)
        candidates = order[np.minimum(positions, len(order) - 1)]
        is_here = known_keys[candidates] == keys
        vectors[is_here] = known[candidates[is_here]]
        is_known |= is_here
        os.utime(path)
    return is_known


def _write(place: Path, keys: NDArray[np.int64], vectors: Vectors) -> None:
    """Add vectors to the cache, where it can be written to."""
    name = hashlib.sha256(keys.tobytes()).hexdigest()[:32]
    temporary = place / f".{name}.{os.getpid()}.part"
    try:
        place.mkdir(parents=True, exist_ok=True)
        write_arrays(temporary, {"keys": keys, "vectors": vectors})
        temporary.replace(place / f"{name}{SUFFIX}")
    except OSError as cause:
        logger.info("vectors are not kept in %s: %s", place, cause)


def _delete_oldest(root: Path) -> None:
    """Delete the files that were used least recently, until the others are small enough."""
    files = [(path.stat(), path) for path in root.glob(f"*/*{SUFFIX}")]
    files.sort(key=lambda entry: -entry[0].st_mtime)
    total = 0
    for status, path in files:
        total += status.st_size
        if total > MOST_BYTES:
            path.unlink(missing_ok=True)
