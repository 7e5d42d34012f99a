"""What one shard adds to a product. Its rows are a copy in memory; their layout by columns is made
in every pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from rembrandt.data.shard import MappedShard
from rembrandt.engines.scaling import row_factors
from rembrandt.forks import cached_property
from rembrandt.linalg import Array
from rembrandt.linalg.blocks import column_sums, spans
from rembrandt.linalg.sparse import append_constant, as_csr, csr_matmul, inverse_lengths, scale_rows
from rembrandt.linalg.transposed import Transposed

# Partial sums: at most as many workers share a product.
MAX_RUNS = 8
# Largest rows × width intermediate of a shard's product.
BLOCK_BYTES = 1 << 28


@dataclass(frozen=True)
class Data:
    """Shards and how their rows are seen; sent once to every worker.

    ``columns`` are the features used (all when None). With ``normalize`` each row is scaled to unit
    length, and with ``constant`` a feature that is always one comes last. Rows of Y are divided by
    their sum to the ``row_power``.
    """

    shards: Sequence[MappedShard]
    n_features: int
    n_labels: int
    columns: Array | None = None
    normalize: bool = False
    constant: bool = False
    row_power: float = 0.0
    n_runs: int = MAX_RUNS

    @property
    def runs(self) -> tuple[range, ...]:
        """The shards of each run."""
        return cut_in_runs(len(self.shards), self.n_runs)

    @property
    def d(self) -> int:
        """Number of features used, the constant one included."""
        n_used = self.n_features
        if self.columns is not None:
            n_used = len(self.columns)
        return n_used + self.constant


def cut_in_runs(n_shards: int, runs: int) -> tuple[range, ...]:
    """Cut consecutive shards into at most ``runs`` runs of about equal length."""
    n_runs = min(runs, n_shards)
    edges = np.linspace(0, n_shards, n_runs + 1)
    cuts = edges.round().astype(int).tolist()
    return tuple(range(first, last) for first, last in pairwise(cuts))


def partial(
    product: str | Product,
    data: Data,
    run: int,
    block: Any,
) -> Array:
    """Compute what the shards of one run add to a product."""
    if isinstance(product, str):
        product = PRODUCTS[product]
    out: Array | None = None
    for shard in opened(data, data.runs[run]):
        out = product(shard, block, out)
    assert out is not None, "a run has at least one shard"
    return out


def opened(data: Data, numbers: range | None = None) -> Iterator[OpenShard]:
    """Iterate over these shards, or all; the next one is read from disk in the meantime."""
    if numbers is None:
        numbers = range(len(data.shards))
    for number in numbers:
        shard = data.shards[number]
        if number + 1 < len(data.shards):
            data.shards[number + 1].prefetch()
        try:
            yield OpenShard(data, shard)
        finally:
            shard.release()


class OpenShard:
    """The rows of a shard as ``data`` describes them."""

    def __init__(self, data: Data, shard: MappedShard) -> None:
        self.n = shard.n
        rows = shard.rows(data.n_features, data.n_labels)
        self.weights = None
        if rows.weights is not None:
            self.weights = np.asarray(rows.weights, dtype=np.float32)
        scale = None
        if data.normalize:
            # By all features, also where only some are used.
            scale = inverse_lengths(rows.X).astype(np.float32)
        X = rows.X
        if data.columns is not None:
            X = _selected(X, data.columns)
        self.X = _Side(X, scale, data.constant)
        factors = row_factors(rows.Y, data.row_power)
        if factors is not None:
            factors = factors.astype(np.float32)
        self.Y = _Side(rows.Y, factors)

    def through(
        self,
        left: _Side,
        right: _Side,
        Q: Array,
        out: Array | None,
    ) -> Array:
        """``out + leftᵀ D (right Q)``."""
        n_columns = Q.shape[1]
        if out is None:
            out = np.zeros((left.width, n_columns), dtype=np.float32)
        column_bytes = max(1, 4 * self.n)
        step = max(1, BLOCK_BYTES // column_bytes)
        for columns in spans(n_columns, step):
            U = right.times(Q[:, columns])
            if self.weights is not None:
                U *= self.weights[:, None]
            left.add_t(out[:, columns], U)
        return out

    def sums(self, out: Array | None) -> Array:
        """``out +`` the weighted sums of squares, then the sums, of the columns of X and Y."""
        weights = np.ones(self.n)
        if self.weights is not None:
            weights = self.weights.astype(np.float64)
        X = as_csr(self.X.explicit(), np.float64)
        Y = as_csr(self.Y.explicit(), np.float64)
        sums = np.concatenate(
            [
                X.multiply(X).T @ weights,
                Y.multiply(Y).T @ weights,
                X.T @ weights,
                Y.T @ weights,
            ]
        )
        if out is None:
            return sums
        return out + sums

    def dense_product(self, left: _Side, right: _Side, out: Array | None) -> Array:
        """``out + leftᵀ D right`` as a dense matrix in float64, for few columns."""
        A = as_csr(left.explicit(), np.float64)
        B = as_csr(right.explicit(), np.float64)
        if self.weights is not None:
            B = scale_rows(B, self.weights)
        sparse_product = A.T @ B
        product = np.asarray(sparse_product.todense())
        if out is None:
            return product
        return out + product


@dataclass
class _Side:
    """X or Y of a shard: ``[diag(scale) A, 1]``, never formed."""

    A: sparse.csr_array
    scale: Array | None = None
    constant: bool = False

    @property
    def n_columns(self) -> int:
        """Number of columns without the constant."""
        return int(self.A.shape[1])

    @property
    def width(self) -> int:
        """Number of columns."""
        return self.n_columns + self.constant

    def rows(self, rows: slice) -> _Side:
        """Select rows."""
        scale = self.scale
        if scale is not None:
            scale = scale[rows]
        return replace(self, A=self.A[rows], scale=scale)

    def times(self, Z: Array) -> Array:
        """Return the matrix times ``Z``."""
        U = csr_matmul(self.A, Z[: self.n_columns])
        if self.scale is not None:
            U *= self.scale[:, None]
        if self.constant:
            U += Z[-1]
        return U

    def add_t(self, out: Array, U: Array) -> None:
        """Add the transpose times ``U`` to ``out``."""
        scaled = U
        if self.scale is not None:
            scaled = U * self.scale[:, None]
        self.t.add_to(out[: self.n_columns], scaled)
        if self.constant:
            out[-1] += column_sums(U).astype(out.dtype)

    @cached_property
    def t(self) -> Transposed:
        """The layout of ``A`` by columns; it takes a tenth to a fifth of a pass."""
        return Transposed.of(self.A)

    def explicit(self) -> sparse.csr_array:
        """Form the matrix."""
        A = self.A
        if self.scale is not None:
            A = scale_rows(A, self.scale)
        if self.constant:
            A = append_constant(A)
        return A


def _selected(X: sparse.csr_array, columns: Array) -> sparse.csr_array:
    """Keep these columns, which include all that any row uses."""
    n_rows, n_features = X.shape
    n_used = len(columns)
    position = np.zeros(n_features, dtype=np.int32)
    position[columns] = np.arange(n_used, dtype=np.int32)
    entries = (X.data, position[X.indices], X.indptr)
    return sparse.csr_array(entries, shape=(n_rows, n_used))


# (shard, shared block, sum so far) to the sum with this shard.
Product = Callable[[OpenShard, Any, Any], Array]

# Products of a shard by name, which is what a cluster sends to its workers.
PRODUCTS: dict[str, Product] = {
    "XX": lambda shard, Q, out: shard.through(shard.X, shard.X, Q, out),
    "XY": lambda shard, Q, out: shard.through(shard.X, shard.Y, Q, out),
    "YX": lambda shard, Q, out: shard.through(shard.Y, shard.X, Q, out),
    "YY": lambda shard, Q, out: shard.through(shard.Y, shard.Y, Q, out),
    "sums": lambda shard, _, out: shard.sums(out),
    "gram_matrix": lambda shard, _, out: shard.dense_product(shard.X, shard.X, out),
    "cross_matrix": lambda shard, _, out: shard.dense_product(shard.X, shard.Y, out),
}
