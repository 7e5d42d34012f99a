"""An order of examples that follows from their content, so that shuffled rows give the same model.

Sums in floating point and steps over batches of rows depend on the order of the rows. So a fit
begins by sorting them by a hash of all that it reads of them; rows with equal hashes are equal.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rembrandt.data.content import row_keys
from rembrandt.data.examples import Examples
from rembrandt.data.rows import MemoryRows
from rembrandt.data.splits import RowIndices
from rembrandt.features.terms import hash_each
from rembrandt.linalg import Array
from rembrandt.linalg.blocks import spans
from rembrandt.linalg.hashing import Keys, as_fractions, hashed

# Texts that are hashed at a time.
HASHED_TEXTS = 4096


def in_canonical_order(data: Examples) -> Examples:
    """Return the examples in the order of hashes of their content, and with these hashes.

    Rows of a store are read in the order in which they lie on disk, and stay in it.
    """
    blocks = (data.X, *data.vectors)
    if not all(isinstance(block, MemoryRows) for block in blocks):
        return data
    keys = row_hashes(data)
    order = np.argsort(keys, kind="stable")
    is_ordered = np.array_equal(order, np.arange(data.n))
    if not is_ordered:
        data = data.take(order)
    elif data.order_keys is not None:
        return data
    return replace(data, order_keys=keys[order])


def random_order(data: Examples, rows: RowIndices, seed: int) -> RowIndices:
    """Return rows in a random order that hardly changes with one row more.

    Where the rows are on disk it depends on their number.
    """
    if data.order_keys is None:
        rng = np.random.default_rng(seed)
        return rng.permutation(rows)
    keys = hashed(data.order_keys[rows], seed)
    return rows[np.argsort(keys, kind="stable")]


def row_hashes(data: Examples) -> Keys:
    """Return a hash of everything that a fit reads of each row."""
    hashes = hashed(row_keys(data))
    label_codes = as_fractions(data.label_keys)
    hashes = _with_column(hashes, data.Y @ label_codes)
    for values in (data.weights, data.groups, data.times):
        if values is not None:
            hashes = _with_column(hashes, values)
    if data.texts is not None:
        hashes = hashed(hashes ^ _text_hashes(data.texts))
    return hashes


def _with_column(hashes: Keys, values: Array) -> Keys:
    """Return hashes of what was hashed so far and of a column of numbers."""
    with_one_zero = values + 0.0
    numbers = np.ascontiguousarray(with_one_zero, dtype=np.float64)
    bits = numbers.view(np.uint64)
    return hashed(hashes ^ bits)


def _text_hashes(texts: NDArray[np.object_]) -> Keys:
    hashes = np.empty(len(texts), dtype=np.uint64)
    for rows in spans(len(texts), HASHED_TEXTS):
        hashes[rows] = hash_each(texts[rows].tolist())
    return hashes
