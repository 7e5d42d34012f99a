"""An order of examples that follows from their content, so that shuffled rows give the same model.

Sums in floating point and steps over batches of rows depend on the order of the rows. So a fit
begins by sorting them by a hash of all that it reads of them; rows with equal hashes are equal.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rembrandt.data.examples import Examples, content_groups
from rembrandt.data.rows import MemoryRows
from rembrandt.features.terms import hash_each
from rembrandt.linalg.blocks import spans

Hashes = NDArray[np.uint64]

# Seed of the codes of labels; those of features, and of vectors beside them, have the first seeds.
LABEL_SEED = 1 << 20
# Texts that are hashed at a time.
HASHED_TEXTS = 4096
# Constants of SplitMix64, whose output for neighbouring numbers is unrelated.
_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST_FACTOR = np.uint64(0xBF58476D1CE4E5B9)
_SECOND_FACTOR = np.uint64(0x94D049BB133111EB)


def in_canonical_order(data: Examples) -> Examples:
    """Return the examples in the order of hashes of their content.

    Rows of a store are read in the order in which they lie on disk, and stay in it.
    """
    blocks = (data.X, *data.vectors)
    if not all(isinstance(block, MemoryRows) for block in blocks):
        return data
    order = np.argsort(row_hashes(data), kind="stable")
    if np.array_equal(order, np.arange(data.n)):
        return data
    return data.take(order)


def row_hashes(data: Examples) -> Hashes:
    """Return a hash of everything that a fit reads of each row."""
    vectors = [block[:] for block in data.vectors]
    hashes = _mixed(content_groups(data.X[:], None, vectors))
    label_codes = np.random.default_rng(LABEL_SEED).standard_normal(data.n_labels)
    columns: list[Any] = [data.Y @ label_codes]
    for values in (data.weights, data.groups, data.times):
        if values is not None:
            columns.append(values)
    for values in columns:
        bits = np.ascontiguousarray(values + 0.0, dtype=np.float64).view(np.uint64)
        hashes = _mixed(hashes ^ bits)
    if data.texts is not None:
        hashes = _mixed(hashes ^ _text_hashes(data.texts))
    return hashes


def _text_hashes(texts: NDArray[np.object_]) -> Hashes:
    hashes = np.empty(len(texts), dtype=np.uint64)
    for rows in spans(len(texts), HASHED_TEXTS):
        hashes[rows] = hash_each(texts[rows].tolist())
    return hashes


def _mixed(hashes: Hashes) -> Hashes:
    """Return numbers whose order has nothing to do with that of these.

    Similar rows would otherwise be neighbours, and a batch of neighbours is no sample.
    """
    state = hashes + _STEP
    state = (state ^ (state >> np.uint64(30))) * _FIRST_FACTOR
    state = (state ^ (state >> np.uint64(27))) * _SECOND_FACTOR
    return state ^ (state >> np.uint64(31))
