"""Numbers that stand for the content of rows, whatever the order of the rows is."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from rembrandt.data.examples import Examples
from rembrandt.data.rows import MemoryRows
from rembrandt.linalg import Array, Floats
from rembrandt.linalg.blocks import spans
from rembrandt.linalg.hashing import Keys, hashed
from rembrandt.linalg.sparse import is_sparse

# Rows that are read at a time.
BLOCK_ROWS = 8192
# Numbers that stand for examples are below this, so that they fit into JSON and 64 bits.
CONTENT_RANGE = 1 << 62


def row_keys(data: Examples, rows: Any = slice(None)) -> Keys:
    """Return a number for some rows of the examples that is the same for equal rows.

    Rows are equal if their features and the vectors beside them are. Rows with the same terms of
    texts count as equal: the weights of terms, and the columns of all terms after a new one, change
    with one text more, and the number of a row does not.
    """
    features = data.X[rows]
    vectors = [block[rows] for block in data.vectors]
    if data.term_keys is None or not is_sparse(features):
        return content_groups(features, None, vectors)
    keys_of_terms = _sums_of_terms(features, data.term_keys)
    if not vectors:
        return keys_of_terms
    projected = _projected_together(vectors, first_seed=1)
    keys_of_vectors = _bits(projected)
    return hashed(keys_of_terms) ^ keys_of_vectors


def content_groups(
    X: Any,
    groups: Array | None,
    vectors: Sequence[Any] = (),
) -> Keys:
    """Return a number for each row that is the same for equal rows, and in the same of the groups
    given.

    Rows are equal if their features and the vectors beside them are. The number depends on the
    content of the rows and not on their order.
    """
    blocks = [X, *vectors]
    projected = _projected_together(blocks, first_seed=0)
    keys = _bits(projected)
    return in_groups(keys, groups)


def in_groups(keys: Keys, groups: Array | None) -> Keys:
    """Return one key for all rows that are connected by equal keys or by a group."""
    if groups is None:
        return keys
    component = _connected(keys, groups)
    n_components = _n_numbered(component)
    largest_key = np.iinfo(np.uint64).max
    smallest = np.full(n_components, largest_key, dtype=np.uint64)
    np.minimum.at(smallest, component, keys)
    return smallest[component]


def _connected(keys: Keys, groups: Array) -> NDArray[np.int32]:
    """Return the component of each row in the graph where equal keys and equal groups connect."""
    _, key_nodes = np.unique(keys, return_inverse=True)
    n_keys = _n_numbered(key_nodes)
    n_groups = _n_numbered(groups)
    # A node for each key and for each group; each row is an edge between them.
    group_nodes = n_keys + groups
    ends = (key_nodes, group_nodes)
    ones = np.ones(len(keys), dtype=np.int8)
    n_nodes = n_keys + n_groups
    edges = sparse.csr_array((ones, ends), shape=(n_nodes, n_nodes))
    _, components = connected_components(edges, directed=False)
    return components[key_nodes]


def _n_numbered(numbers: Array) -> int:
    """Return how many things have the numbers 0, 1, 2, …; at least one."""
    largest = numbers.max(initial=0)
    return int(largest) + 1


def content_sum(data: Examples) -> int | None:
    """Return a number that stands for the features of all examples in any order; None for rows on
    disk, where it would take a pass over the data.

    That of two sets of examples together is the sum of theirs, modulo `CONTENT_RANGE`.
    """
    if not isinstance(data.X, MemoryRows):
        return None
    features = data.X[:]
    vectors = [block[:] for block in data.vectors]
    keys = content_groups(features, None, vectors)
    total = keys.sum(dtype=np.uint64)
    return int(total) % CONTENT_RANGE


def _bits(values: Floats) -> Keys:
    """Return the bits of numbers; zero has one representation."""
    with_one_zero = values + 0.0
    numbers = np.ascontiguousarray(with_one_zero, dtype=np.float64)
    return numbers.view(np.uint64)


def _sums_of_terms(X: Any, term_keys: Keys) -> Keys:
    """Return the sum of the keys of the terms of each row, modulo 2⁶⁴."""
    n_rows = X.shape[0]
    sums = np.empty(n_rows, dtype=np.uint64)
    for rows in spans(n_rows, BLOCK_ROWS):
        ends = X.indptr[rows.start : rows.stop + 1]
        first = ends[0]
        last = ends[-1]
        terms = X.indices[first:last]
        keys = term_keys[terms]
        n_terms = len(terms)
        running = np.zeros(n_terms + 1, dtype=np.uint64)
        np.cumsum(keys, out=running[1:])
        at_ends = running[ends - first]
        sums[rows] = np.diff(at_ends)
    return sums


def _projected_together(blocks: Sequence[Any], first_seed: int) -> Floats:
    """Project rows, whose columns are in several blocks, on a random direction."""
    first_block, *other_blocks = blocks
    total = _projected(first_block, first_seed)
    seed = first_seed
    for block in other_blocks:
        seed += 1
        total = total + _projected(block, seed)
    return total


def _projected(X: Any, seed: int) -> Floats:
    """Project rows on a random direction, on which different rows are equal with probability 0."""
    n_rows, n_columns = X.shape
    rng = np.random.default_rng(seed)
    direction = rng.standard_normal(n_columns)
    if is_sparse(X):
        products = X @ direction
        return np.asarray(products).ravel()
    # The same bits for a row, whether it is dense or sparse and whatever rows are around it.
    blocks = [np.zeros(0)]
    for rows in spans(n_rows, BLOCK_ROWS):
        entries: Any = sparse.csr_array(X[rows])
        blocks.append(entries @ direction)
    return np.concatenate(blocks)
