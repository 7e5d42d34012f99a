"""The engine of data in row shards: every product is a sum over shards in a fixed order.

Shards are cut into a few *runs* of neighbours. A run adds up its shards one after the other; runs are added in a binary
tree. An executor computes the runs: this process, one shard in memory at a time, or the workers of a cluster. Runs and
tree depend on the number of shards alone, so the result has the same bits in all cases.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rembrandt.engines.protocol import NumpyProducts
from rembrandt.engines.shard_products import Data, Product, Shard, partial
from rembrandt.engines.tally import Tally

Array = NDArray[Any]

RUNS = 8  # partial sums: at most as many workers share a product

Task = Callable[..., Sequence[Any]]  # (pieces, *shared) to one result for each piece


class Executor(Protocol):
    """Computes sums over runs, and independent pieces of work."""

    tally: Tally

    def total(self, product: str | Product, data: Data, block: Any) -> Array:
        """Sum ``product``, a key of `PRODUCTS` or such a function, over all runs."""

    def in_shares(self, task: Task, pieces: Sequence[Any], *shared: Any) -> list[Any]:
        """Call ``task(pieces, *shared)`` for consecutive pieces, and return the results of all pieces in order."""

    def forget(self, *names: str) -> None:
        """Free the values that workers keep under these names."""


class LocalExecutor:
    """Computes in this process, one shard after the other."""

    def __init__(self) -> None:
        self.tally = Tally()

    def total(self, product: str | Product, data: Data, block: Any) -> Array:
        return tree_sum(lambda run: partial(product, data, run, block), 0, len(data.runs))

    def in_shares(self, task: Task, pieces: Sequence[Any], *shared: Any) -> list[Any]:
        return list(task(pieces, *shared))

    def forget(self, *names: str) -> None:
        """Nothing is kept between tasks."""


class ShardedEngine(NumpyProducts):
    """An engine over shards; see `Engine`."""

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
        runs: int = RUNS,
    ) -> None:
        self.executor = executor or LocalExecutor()
        cut = cut_in_runs(len(shards), runs)
        self.data = Data(list(shards), n_features, n_labels, cut, columns, normalize, constant)
        self.n = sum(shard.n for shard in shards)
        self.d, self.c = self.data.d, n_labels
        self.dtype = np.dtype(np.float32)
        found = np.split(self._total("sums", None), np.cumsum([self.d, self.c, self.d]))
        self._sums = dict(zip((("X", True), ("Y", True), ("X", False), ("Y", False)), found, strict=True))

    @property
    def tally(self) -> Tally:
        return self.executor.tally

    def product(self, left: str, right: str, Q: Array) -> Array:
        return self._total(left + right, Q)

    def column_sums(self, name: str, squared: bool) -> NDArray[np.float64]:
        return self._sums[name, squared]

    def gram_matrix(self) -> NDArray[np.float64]:
        return self._total("gram_matrix", None)

    def cross_matrix(self) -> NDArray[np.float64]:
        return self._total("cross_matrix", None)

    def _total(self, product: str, block: Array | None) -> Array:
        with self.tally.one_pass():
            return self.executor.total(product, self.data, block)


def cut_in_runs(n_shards: int, runs: int) -> tuple[range, ...]:
    """Cut consecutive shards into at most ``runs`` runs of about equal length."""
    cuts = np.linspace(0, n_shards, min(runs, n_shards) + 1).round().astype(int).tolist()
    return tuple(range(a, b) for a, b in pairwise(cuts))


def tree_sum(part: Callable[[int], Array], first: int, last: int) -> Array:
    """``part(first) + … + part(last − 1)`` in a binary tree, with few partial sums in memory."""
    if last - first == 1:
        return part(first)
    middle = first + tree_cut(last - first)
    left = tree_sum(part, first, middle)
    left += tree_sum(part, middle, last)
    return left


def tree_cut(n: int) -> int:
    """Return the number of leaves in the left half of a tree of ``n``: the largest power of two below ``n``."""
    return 1 << ((n - 1).bit_length() - 1)
