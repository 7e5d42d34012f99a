"""Training examples: features, labels, the names of the labels and the weights of the examples."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from rembrandt.data.rows import MemoryRows, Rows, as_rows
from rembrandt.data.views import Views
from rembrandt.errors import DataError
from rembrandt.linalg.blocks import spans
from rembrandt.linalg.sparse import is_sparse
from rembrandt.settings.view_names import FEATURES, TEXTS, vector_views

Array = NDArray[Any]
# Dense rows that are compared at a time.
PROJECTED_BLOCK_ROWS = 8192
# Numbers that stand for examples are below this, so that they fit into JSON and 64 bits.
CONTENT_RANGE = 1 << 62


@dataclass(frozen=True)
class Examples:
    """Features (n × d) and labels (n × c) of examples."""

    X: Rows
    Y: sparse.csr_array
    classes: Array
    multiclass: bool
    weights: Array | None = None
    groups: Array | None = None  # numbers; rows of a group are held out together
    times: Array | None = None  # numbers; the latest rows are held out
    vectors: tuple[Rows, ...] = ()  # blocks of vectors beside the features
    texts: NDArray[np.object_] | None = None  # that the features were made from
    # Of each label, "" where there is none; None where no label has one.
    label_names: list[str] | None = None
    label_descriptions: list[str] | None = None

    @property
    def n(self) -> int:
        return int(self.Y.shape[0])

    @property
    def n_labels(self) -> int:
        return int(self.Y.shape[1])

    @property
    def rows(self) -> Views:
        """The rows, in memory, as prediction takes them."""
        return Views(self.X[:], tuple(block[:] for block in self.vectors), self.texts)

    def view(self, name: str) -> "Examples":
        """Return the examples with the features of one view; parts that read texts take them
        from `texts`.
        """
        if name in (FEATURES, TEXTS):
            return self
        number = vector_views(len(self.vectors)).index(name)
        return replace(self, X=self.vectors[number])

    def take(self, index: Array) -> "Examples":
        """Return the examples at these positions, in memory."""
        taken: dict[str, Any] = {"X": as_rows(self.X[index]), "Y": self.Y[index]}
        taken["vectors"] = tuple(as_rows(block[index]) for block in self.vectors)
        for name in ("weights", "groups", "times", "texts"):
            values = getattr(self, name)
            if values is not None:
                taken[name] = values[index]
        return replace(self, **taken)


def numbered(name: str, values: Any, n: int) -> NDArray[np.int64] | None:
    """Number the values of a column in their order; equal values have the same number."""
    if values is None:
        return None
    dtype = None if hasattr(values, "dtype") else object
    column = np.asarray(values, dtype=dtype)
    if column.shape != (n,):
        raise DataError(
            f"{name} has the shape {column.shape}; give one value for each of the {n:,} rows"
        )
    if column.dtype == object:
        try:
            column = column.astype(np.float64)
        except (TypeError, ValueError):
            column = np.array(["" if value is None else str(value) for value in column])
    n_missing = int(_is_missing(column).sum())
    if n_missing:
        raise DataError(
            f"{name} has {n_missing:,} missing values; fill them in, or remove these rows"
        )
    _, numbers = np.unique(column, return_inverse=True)
    return numbers.astype(np.int64)


def _is_missing(column: Array) -> NDArray[np.bool_]:
    """Whether each value stands for none: NaN, NaT or an empty text."""
    kind = column.dtype.kind
    if kind in "fmM":
        return np.isnan(column)
    if kind in "UT":
        return column == ""
    return np.zeros(len(column), dtype=bool)


def _connected(keys: Array, groups: Array) -> NDArray[np.int32]:
    """The component of each row in the graph where equal keys and equal groups connect rows."""
    _, equal = np.unique(keys, return_inverse=True)
    n_keys = int(equal.max(initial=0)) + 1
    n_groups = int(groups.max(initial=0)) + 1
    size = n_keys + n_groups
    # A node for each key and for each group; each row is an edge between them.
    ones = np.ones(len(keys), np.int8)
    edges = sparse.csr_array((ones, (equal, n_keys + groups)), shape=(size, size))
    _, components = connected_components(edges, directed=False)
    return components[equal]


def content_groups(X: Any, groups: Array | None, vectors: Sequence[Any] = ()) -> NDArray[np.uint64]:
    """Return a number for each row that is the same for equal rows, and in the same of the groups
    given.

    Rows are equal if their features and the vectors beside them are. The number depends on the
    content of the rows and not on their order.
    """
    projected = _projected(X, seed=0)
    for number, block in enumerate(vectors, start=1):
        projected = projected + _projected(block, seed=number)
    keys = np.ascontiguousarray(projected + 0.0, dtype=np.float64).view(np.uint64)
    if groups is None:
        return keys
    component = _connected(keys, groups)
    smallest = np.full(int(component.max(initial=0)) + 1, np.iinfo(np.uint64).max, np.uint64)
    np.minimum.at(smallest, component, keys)
    return smallest[component]


def content_sum(data: Examples) -> int | None:
    """Return a number that stands for the features of all examples in any order; None for rows on
    disk, where it would take a pass over the data.

    That of two sets of examples together is the sum of theirs, modulo `CONTENT_RANGE`.
    """
    if not isinstance(data.X, MemoryRows):
        return None
    keys = content_groups(data.X[:], None, [block[:] for block in data.vectors])
    return int(keys.sum(dtype=np.uint64)) % CONTENT_RANGE


def _projected(X: Any, seed: int) -> NDArray[np.float64]:
    """Project rows on a random direction, on which different rows are equal with probability 0."""
    projection = np.random.default_rng(seed).standard_normal(X.shape[1])
    if is_sparse(X):
        return np.asarray(X @ projection).ravel()
    # The same bits for a row, whether it is dense or sparse and whatever rows are around it.
    blocks = [np.zeros(0)]
    for rows in spans(X.shape[0], PROJECTED_BLOCK_ROWS):
        entries: Any = sparse.csr_array(X[rows])
        blocks.append(entries @ projection)
    return np.concatenate(blocks)
