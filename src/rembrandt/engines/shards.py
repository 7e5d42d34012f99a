"""The engine of data in row shards: every product is a sum over shards in a fixed order.

Shards are cut into a few *runs* of neighbours. A run adds up its shards one after the other; runs
are added in a binary tree. An executor computes the runs: this process, one shard in memory at a
time, or the workers of a cluster. Runs and tree depend on the number of shards alone, so the result
has the same bits in all cases.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from rembrandt.engines.protocol import Engine
from rembrandt.engines.shard_products import Data, Product, partial
from rembrandt.linalg import Array, Floats

Task = Callable[..., Sequence[Any]]  # (pieces, *shared) to one result for each piece


@dataclass
class Tally:
    """Passes over the data, and bytes moved between processes."""

    passes: int = 0
    seconds: float = 0.0
    broadcasts: int = 0
    sent: int = 0  # from the client to workers
    between: int = 0  # from worker to worker
    gathered: int = 0  # from workers to the client

    @contextmanager
    def one_pass(self) -> Iterator[None]:
        """Count the work of the block as one pass over the data."""
        start = time.perf_counter()
        yield
        self.passes += 1
        self.seconds += time.perf_counter() - start

    def sentence(self) -> str:
        """Describe the counts."""
        passes = f"{self.passes:,} passes"
        if self.passes == 1:
            passes = "1 pass"
        text = f"{passes} over the data in {self.seconds:.1f} s"
        if self.broadcasts == 0:
            return text + "."
        return (
            f"{text}; {self.broadcasts:,} broadcasts, "
            f"{self.sent / 1e6:,.1f} MB to the workers, "
            f"{self.between / 1e6:,.1f} MB between them, "
            f"{self.gathered / 1e6:,.1f} MB back from them."
        )


class Executor:
    """Computes sums over runs, and independent pieces of work, in this process; each call is one
    pass over the data.
    """

    def __init__(self) -> None:
        self.tally = Tally()

    def total(self, product: str | Product, data: Data, block: Any) -> Array:
        """Sum ``product``, a key of `PRODUCTS` or such a function, over all runs."""

        def sum_of_run(run: int) -> Array:
            return partial(product, data, run, block)

        with self.tally.one_pass():
            return tree_sum(sum_of_run, 0, len(data.runs))

    def in_shares(self, task: Task, pieces: Sequence[Any], *shared: Any) -> list[Any]:
        """Call ``task(pieces, *shared)`` for consecutive pieces, and return the results of all
        pieces in order.
        """
        with self.tally.one_pass():
            return list(task(pieces, *shared))

    def forget(self, *names: str) -> None:
        """Free the values that workers keep under these names; this process keeps none."""


class ShardedEngine(Engine):
    """An engine over shards; see `Engine`."""

    def __init__(self, data: Data, executor: Executor | None = None) -> None:
        self.data = data
        self.executor = executor or Executor()
        self.tally = self.executor.tally
        self.n = sum(shard.n for shard in data.shards)
        self.d = data.d
        self.c = data.n_labels
        self.dtype = np.dtype(np.float32)
        cuts = np.cumsum([self.d, self.c, self.d])
        x_squares, y_squares, x_sums, y_sums = np.split(self._total("sums", None), cuts)
        # By the name of the matrix, and whether its entries are squared.
        self._sums = {
            ("X", True): x_squares,
            ("Y", True): y_squares,
            ("X", False): x_sums,
            ("Y", False): y_sums,
        }

    def full_product(self, left: str, right: str, Q: Array) -> Array:
        return self._total(left + right, Q)

    def column_sums(self, name: str, squared: bool) -> Floats:
        return self._sums[name, squared]

    def gram_matrix(self) -> Floats:
        return self._total("gram_matrix", None)

    def cross_matrix(self) -> Floats:
        return self._total("cross_matrix", None)

    def _total(self, product: str, block: Array | None) -> Array:
        return self.executor.total(product, self.data, block)


def tree_sum(part: Callable[[int], Array], first: int, last: int) -> Array:
    """``part(first) + … + part(last − 1)`` in a binary tree, with few partial sums in memory."""
    if last - first == 1:
        return part(first)
    middle = first + tree_cut(last - first)
    left = tree_sum(part, first, middle)
    left += tree_sum(part, middle, last)
    return left


def tree_cut(n: int) -> int:
    """Return the number of leaves in the left half of a tree of ``n``: the largest power of two
    below ``n``.
    """
    return 1 << ((n - 1).bit_length() - 1)
