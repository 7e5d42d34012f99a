"""The engine of data in row shards: every product is the sum of the shards' products, in an order that never changes.

Shards are cut into a few *runs* of neighbours. A run adds up its shards one after the other, in place; runs are added
in a binary tree. Who computes a run is the executor's business: this process, one shard in memory at a time, or the
workers of a cluster. The result has the same bits in all cases, because runs and tree depend on the number of shards
alone. What one shard adds is in `shard_products`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rembrandt.engines.cpu import NumpyBlocks
from rembrandt.engines.shard_products import Data, Product, Shard, partial, projected
from rembrandt.engines.tally import Tally

Array = NDArray[Any]

RUNS = 8  # partial sums: as many workers can share a product; in one process four of them are alive at a time
SMALL_CROSS = 1 << 25  # entries: up to here XᵀY is formed once (256 MB) and every product with it is a small one

Task = Callable[..., Sequence[Any]]  # (pieces, *shared): one result for each piece


class Executor(Protocol):
    """Who computes runs, and adds them up."""

    tally: Tally

    def total(self, product: str | Product, data: Data, block: Any) -> Array:
        """The sum over all runs of ``product``, one of `PRODUCTS` or like them."""
        ...

    def each(self, data: Data, block: Array) -> Iterator[Array]:
        """``X block`` for shard after shard."""
        ...

    def in_shares(self, task: Task, pieces: Sequence[Any], *shared: Any) -> list[Any]:
        """What ``task(some pieces, *shared)`` returns for each of its pieces, in order; neighbours go together."""
        ...


class LocalExecutor:
    """This process, shard after shard; the next one is read from the disk meanwhile."""

    def __init__(self) -> None:
        self.tally = Tally()

    def total(self, product: str | Product, data: Data, block: Any) -> Array:
        return tree_sum(lambda run: partial(product, data, run, block), 0, len(data.runs))

    def each(self, data: Data, block: Array) -> Iterator[Array]:
        return (projected(data, number, block) for number in range(len(data.shards)))

    def in_shares(self, task: Task, pieces: Sequence[Any], *shared: Any) -> list[Any]:
        return list(task(pieces, *shared))


@dataclass(frozen=True)
class Sums:
    """What one pass finds of the columns: squared lengths, sums, and the sum of the weights."""

    feature_norms: Array
    label_norms: Array
    features: Array
    labels: Array
    weight: float


class ShardedEngine(NumpyBlocks):
    """An engine over shards; see `Engine` for what it offers."""

    def __init__(
        self,
        shards: Sequence[Shard],
        n_features: int,
        n_labels: int,
        *,
        executor: Executor | None = None,
        columns: Array | None = None,
        normalize: bool = False,
        constant: bool = False,
        center_features: bool = False,
        center_labels: bool = False,
        runs: int = RUNS,
    ) -> None:
        self.executor = executor or LocalExecutor()
        cut = cut_in_runs(len(shards), runs)
        self.data = Data(list(shards), n_features, n_labels, cut, columns, normalize, constant)
        self.n = sum(shard.n for shard in shards)
        self.d, self.c = self.data.d, n_labels
        self.dtype = np.dtype(np.float32)
        self._cross: Array | None = None
        found = self._total("sums", None)
        x_norms, y_norms, x_sums, y_sums, weight = np.split(found, np.cumsum([self.d, self.c, self.d, self.c]))
        self.sums = Sums(x_norms, y_norms, x_sums, y_sums, float(weight[0]))
        scale = 1 / self.sums.weight if self.sums.weight > 0 else 0.0
        self.data = replace(
            self.data,
            feature_means=(scale * self.sums.features).astype(self.dtype) if center_features else None,
            label_means=(scale * self.sums.labels).astype(self.dtype) if center_labels else None,
        )

    @property
    def tally(self) -> Tally:
        return self.executor.tally

    def gram(self, Z: Array) -> Array:
        return self._total("gram", Z)

    def cross(self, Q: Array) -> Array:
        small = self._small_cross()
        return self._total("cross", Q) if small is None else (small @ Q.astype(np.float64)).astype(Q.dtype)

    def cross_t(self, Z: Array) -> Array:
        small = self._small_cross()
        return self._total("cross_t", Z) if small is None else (small.T @ Z.astype(np.float64)).astype(Z.dtype)

    def label_gram(self, Q: Array) -> Array:
        return self._total("label_gram", Q)

    def feature_norms(self) -> NDArray[np.float64]:
        return self.sums.feature_norms - self.sums.weight * self.feature_means().astype(np.float64) ** 2

    def label_norms(self) -> NDArray[np.float64]:
        return self.sums.label_norms - self.sums.weight * self.label_means().astype(np.float64) ** 2

    def feature_means(self) -> Array:
        means = self.data.feature_means
        return np.zeros(self.d, dtype=self.dtype) if means is None else means

    def label_means(self) -> Array:
        means = self.data.label_means
        return np.zeros(self.c, dtype=self.dtype) if means is None else means

    def gram_matrix(self) -> NDArray[np.float64]:
        mean = self.feature_means().astype(np.float64)
        return self._total("gram_matrix", None) - self.sums.weight * np.outer(mean, mean)

    def project(self, Z: Array) -> Iterator[tuple[slice, Array]]:
        start = 0
        for block in self.executor.each(self.data, Z):
            yield slice(start, start + len(block)), block
            start += len(block)

    def _small_cross(self) -> Array | None:
        """``XᵀY`` where it is small enough to keep: an embedding is then a few small dense products."""
        if self._cross is None and self.d * self.c <= SMALL_CROSS:
            C = self._total("cross_matrix", None)
            # (X − 1μᵀ)ᵀ D (Y − 1νᵀ) = XᵀDY − (Σ w) μ νᵀ when at least one side is centred by its weighted mean.
            if self.data.feature_means is not None or self.data.label_means is not None:
                C -= np.outer(self.sums.features, self.sums.labels) / self.sums.weight
            self._cross = C
        return self._cross

    def _total(self, product: str, block: Array | None) -> Array:
        with self.tally.one_pass():
            return self.executor.total(product, self.data, block)


def cut_in_runs(n_shards: int, runs: int) -> tuple[range, ...]:
    """Neighbouring shards in at most ``runs`` runs of about equal length."""
    cuts = np.linspace(0, n_shards, min(runs, n_shards) + 1).round().astype(int).tolist()
    return tuple(range(a, b) for a, b in pairwise(cuts))


def tree_sum(part: Callable[[int], Array], first: int, last: int) -> Array:
    """``part(first) + … + part(last − 1)``, neighbours first, then pairs of them; few are alive at a time."""
    if last - first == 1:
        return part(first)
    middle = first + tree_cut(last - first)
    left = tree_sum(part, first, middle)
    left += tree_sum(part, middle, last)
    return left


def tree_cut(n: int) -> int:
    """How many of ``n`` leaves are in the left half of their tree: the largest power of two below ``n``."""
    return 1 << ((n - 1).bit_length() - 1)
